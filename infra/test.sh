#!/usr/bin/env bash
# Sets up .venv, builds and installs the wheel, runs the whole suite.

if [[ "${1:-}" == --help ]]; then
  cat << 'HELP'
usage: bash infra/test.sh [PYTEST ARGUMENT...]

Does the same set-up as infra/demo.sh, adds what only the tests need (valgrind
and chromium from Debian, infra/requirements-test.txt) and runs pytest with the arguments;
without any, the whole suite under test/.
HELP
  exit
fi

source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up
need_debian valgrind valgrind
need_debian chromium chromium
need_packages infra/requirements-test.txt
step 'running the suite' 'the first failure above; rerun it with
  bash infra/test.sh test/PATH_OF_THE_FAILING_TEST'
TF_CPP_MIN_LOG_LEVEL=2 "$VENV_PYTHON" -m pytest "$@"
