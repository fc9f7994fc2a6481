#!/usr/bin/env bash
# Sets up .venv, builds and installs the wheel, prints the table of figures.

if [[ "${1:-}" == --help ]]; then
  cat << 'HELP'
usage: bash benchmarks/run.sh [--quick] [--only FIGURE] [--rounds N]
                              [--json FILE]

Does the same set-up as infra/demo.sh, then measures the official wheel and ours
side by side; benchmarks/README.md says what each figure means. Some 15 minutes
on two cores, which should be idle. The arguments go to benchmarks/run.py:

HELP
  cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit
  if [[ -x .venv/bin/python ]]; then
    .venv/bin/python -m benchmarks.run --help
  fi
  exit
fi

source "$(dirname "${BASH_SOURCE[0]}")/../infra/setup.sh"
set_up ''
step 'measuring (benchmarks/run.py)' 'the message above is the reason'
"$VENV_PYTHON" -m benchmarks.run "$@"
