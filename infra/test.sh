#!/usr/bin/env bash
# Sets up .venv, builds and installs the wheel, runs the suite.

if [[ "${1:-}" == --help ]]; then
  cat << 'HELP'
usage: bash infra/test.sh [--core | --all] [PYTEST ARGUMENT...]
       bash infra/test.sh --against PYTHON [--json FILE] [PYTEST ARGUMENT...]
       bash infra/test.sh --wheel FILE [--json FILE] [PYTEST ARGUMENT...]

Does the same set-up as infra/demo.sh, adds what only the tests need (valgrind
and chromium from Debian, infra/requirements-test.txt) and runs pytest with the
arguments; without any, what is under test/: in ten minutes on two cores, set-up
of a fresh clone included. What is marked nightly is left out of a folder, but
not of a file that is named, and a test that is named always runs.

With --core, which comes first, it leaves out what is marked slow, too, and tries
few examples of each property: the inner loop while you write, under three minutes. With
--all, which comes first, it leaves out nothing and tries most examples, which
takes more than an hour: for a release, and every night.

The run fails where a folder takes more CPU seconds than test/budgets.toml says.

With --against, which comes first, it judges another torch_xla, ours or a build
of somebody's own: PYTHON is an interpreter that has torch and torch_xla
installed, and nothing is installed into its environment. With --wheel it
judges a wheel of torch_xla, run with .venv's Python and torch. The tests under
test/behaviour, which use nothing that only one form has, are run there, series
by series. It reports what holds, what was not run because the feature is
absent, and how many tests need this project's wheel; the last line is the
verdict. The exit status is 0 if all three features are there and hold, 1 if
not, 2 if nothing could be judged. --json writes the same for programs.

Where only the overlay's Python has changed since the wheel was built, the wheel
is not built again: the installed one then runs the checkout's Python, as
infra/develop.sh has it.
HELP
  exit
fi

here=$PWD
# Before anything is installed for it.
if [[ "${1:-}" == --wheel && ! -f "${2:-}" ]]; then
  echo "error: --wheel takes the file of a wheel: '${2:-}' is none" >&2
  exit 2
fi
source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
if [[ "${1:-}" == --against || "${1:-}" == --wheel ]]; then
  make_venv
  if [[ "$1" == --wheel ]]; then need_packages infra/requirements.txt; fi
  # Paths are the user's; modules are the checkout's.
  exec env -C "$here" "$PWD/$VENV_PYTHON" "$PWD/infra/against" "$@"
fi
if [[ "${1:-}" == --core || "${1:-}" == --all ]]; then
  set -- "--tier=${1#--}" "${@:2}"
fi
set_up
need_debian valgrind valgrind 'looks at the memory of the libraries in C'
need_debian chromium chromium 'opens the pages of reports'
need_packages infra/requirements-test.txt
# Each child would write the asserts of its tests anew.
unset PYTHONDONTWRITEBYTECODE
step 'running the suite' 'the first failure above; rerun it with
  bash infra/test.sh test/PATH_OF_THE_FAILING_TEST'
TF_CPP_MIN_LOG_LEVEL=2 "$VENV_PYTHON" -m pytest "$@"
