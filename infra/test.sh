#!/usr/bin/env bash
# Sets up .venv, builds and installs the wheel, runs the suite.

if [[ "${1:-}" == --help ]]; then
  cat << 'HELP'
usage: bash infra/test.sh [--core] [PYTEST ARGUMENT...]

Does the same set-up as infra/demo.sh, adds what only the tests need (valgrind
and chromium from Debian, infra/requirements-test.txt) and runs pytest with the
arguments; without any, the whole suite under test/.

With --core, which comes first, it leaves out what is marked slow and tries few
examples of each property: the inner loop while you write.

Where only the overlay's Python has changed since the wheel was built, the wheel
is not built again: the installed one then runs the checkout's Python, as
infra/develop.sh has it.
HELP
  exit
fi

source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
if [[ "${1:-}" == --core ]]; then
  set -- -m 'not slow' --hypothesis-profile=core "${@:2}"
fi
set_up
need_debian valgrind valgrind
need_debian chromium chromium
need_packages infra/requirements-test.txt
step 'running the suite' 'the first failure above; rerun it with
  bash infra/test.sh test/PATH_OF_THE_FAILING_TEST'
TF_CPP_MIN_LOG_LEVEL=2 "$VENV_PYTHON" -m pytest "$@"
