#!/usr/bin/env bash
# Runs the suite's core in the checkout, for `bazel test`.

set -euo pipefail
# Where Bazel starts it there are links to the checkout.
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."
if ! .venv/bin/python -c 'import pytest' 2> /dev/null; then
  echo "error: no .venv with pytest in $PWD: bash infra/develop.sh makes" \
    '.venv, and bash infra/test.sh --core adds what tests need' >&2
  exit 1
fi
export TF_CPP_MIN_LOG_LEVEL=2
# What folders take is judged by infra/test.sh, on a machine that does no more.
exec .venv/bin/python -m pytest --tier=core -p no:budgets
