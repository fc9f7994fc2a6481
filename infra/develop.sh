#!/usr/bin/env bash
# Sets up .venv with a wheel that runs the checkout's Python.

if [[ "${1:-}" == --help ]]; then
  cat << 'HELP'
usage: bash infra/develop.sh

Does the same set-up as infra/demo.sh and has the installed wheel run the Python
of the checkout, file by file through links: an edit takes effect at once, a new
or removed file with the next run of this script. Patches and C sources need a
build, which infra/develop.sh, demo.sh and test.sh do where they have changed.
To run what the wheel holds again, install the one in dist/.
HELP
  exit
fi

source "$(dirname "${BASH_SOURCE[0]}")/setup.sh"
set_up ''
link_overlay
