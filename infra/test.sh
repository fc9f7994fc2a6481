#!/usr/bin/env bash
# Sets up .venv, builds and installs the wheel, runs the suite.

if [[ "${1:-}" == --help ]]; then
  cat << 'HELP'
usage: bash infra/test.sh [--core | --all] [PYTEST ARGUMENT...]

Does the same set-up as infra/demo.sh, adds what only the tests need (valgrind
and chromium from Debian, infra/requirements-test.txt) and runs pytest with the
arguments; without any, what is under test/: in ten minutes on two cores, set-up
of a fresh clone included. What is marked nightly is left out of a folder, but
not of a file that is named, and a test that is named always runs.

With --core, which comes first, it leaves out what is marked slow, too, and tries
few examples of each property: the inner loop while you write, under three minutes. With
--all, which comes first, it leaves out nothing and tries most examples, which
takes more than an hour: for a release, and every night.

The run fails where its tests take more CPU seconds than test/budget.py says.

Where only the overlay's Python has changed since the wheel was built, the wheel
is not built again: the installed one then runs the checkout's Python, as
infra/develop.sh has it.
HELP
  exit
fi

source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
if [[ "${1:-}" == --core || "${1:-}" == --all ]]; then
  set -- "--tier=${1#--}" "${@:2}"
fi
set_up infra/requirements-test.txt \
  valgrind valgrind 'looks at the memory of the libraries in C' \
  chromium chromium 'opens the pages of reports'
# Each child would write the asserts of its tests anew.
unset PYTHONDONTWRITEBYTECODE
step 'running the suite' 'the first failure above; rerun it with
  bash infra/test.sh test/PATH_OF_THE_FAILING_TEST'
TF_CPP_MIN_LOG_LEVEL=2 "$VENV_PYTHON" -m pytest "$@"
