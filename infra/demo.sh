#!/usr/bin/env bash
# Sets up .venv, builds and installs the wheel, trains sharded models.

if [[ "${1:-}" == --help ]]; then
  cat << 'HELP'
usage: bash infra/demo.sh [--steps N]

Sets up what the demo needs (git and Bazel from Debian, a .venv with torch and
XLA's CPU plugin), builds the wheel into dist/, installs it into .venv and runs
examples/train_sharded.py, which gets the arguments, and examples/priority.py. A
later run reuses all that has not changed, and needs no network.
HELP
  exit
fi

source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up ''
step 'training on eight CPU devices (examples/train_sharded.py)' \
  'the message above is the reason'
TF_CPP_MIN_LOG_LEVEL=2 "$VENV_PYTHON" examples/train_sharded.py "$@"
step 'the same model under two priorities (examples/priority.py)' \
  'the message above is the reason'
TF_CPP_MIN_LOG_LEVEL=2 "$VENV_PYTHON" examples/priority.py
