# Sourced by demo.sh, develop.sh and test.sh: brings the machine and .venv to
# the state they need. Everything is kept in the checkout but git, Bazel,
# valgrind and chromium, which are Debian packages.

set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly PYTHON="${PYTHON:-python3.11}"
readonly VENV_PYTHON=.venv/bin/python
# A link where the installed wheel runs the checkout's Python (develop.py).
readonly SITE=.venv/lib/python3.11/site-packages
readonly INSTALLED="$SITE/torch_xla/shardy/__init__.py"
step_name='start'
step_hint=''

# step NAME HINT: announces a step; on failure both are shown.
step() {
  step_name="$1"
  step_hint="$2"
  printf '==> %s\n' "$step_name"
}

on_exit() {
  local status=$?
  wait || true  # Its words come last, and what runs beside it ends.
  if ((status != 0)); then
    printf '\nFAILED (status %s): %s\n' "$status" "$step_name" >&2
    printf 'what to do: %s\n' "$step_hint" >&2
  fi
}
trap on_exit EXIT

# need_debian COMMAND PACKAGE WHY: installs PACKAGE unless COMMAND is there.
need_debian() {
  command -v "$1" > /dev/null && return
  local as_root=() there="so that '$1' is on the PATH; then run this again"
  if [[ $(id -u) != 0 ]]; then as_root=(sudo -n); fi
  step "installing Debian's package $2, which $3" \
    "there is no apt-get here: install $2 as this system does, $there"
  command -v apt-get > /dev/null
  step_hint="only root can, and sudo gives no such right without a password:
  have root run 'apt-get install $2', or install it otherwise, $there"
  "${as_root[@]}" true
  step_hint="see apt's message above; apt's mirror must be reachable.
  Without it install $2 by hand, $there"
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends "$2" > /dev/null
}

# await PID WHAT: waits for what is installed in the background.
await() {
  step_name="installing $2"
  step_hint='the message above names the reason'
  wait "$1"
}

# need_programs [COMMAND PACKAGE WHY]...: installs what the builder needs, and
# the packages of the arguments.
need_programs() {
  trap on_exit EXIT
  need_debian git git 'lays the patches'
  # Which program BAZEL names, the builder sees to.
  if [[ -z "${BAZEL:-}" ]]; then
    need_debian bazel bazel-bootstrap 'builds the libraries in C'
  fi
  while (($#)); do
    need_debian "$1" "$2" "$3"
    shift 3
  done
}

# Makes .venv. It has its pip last, if nothing ended that.
make_venv() {
  [[ -x .venv/bin/pip ]] && return
  step 'creating .venv' "see the message above; where $PYTHON lacks its venv
  module install that (Debian: apt-get install python3.11-venv)"
  # Without it half of .venv would be made.
  "$PYTHON" -c 'import ensurepip'
  "$PYTHON" -m venv .venv
}

# need_packages FILE: installs the pinned packages of FILE into .venv, once for
# each content of FILE.
need_packages() {
  local stamp
  stamp=".venv/installed-$(basename "$1")"
  is_stamp "$stamp" "$(< "$1")" && return
  step "installing the packages of $1 into .venv (some minutes when new)" \
    "see pip's message above; it needs the network, or another package index
  that is reachable (pip config set global.index-url URL); then run this again"
  # Of some 12,500 modules a run imports a quarter, and compiles those itself.
  "$VENV_PYTHON" -m pip install --disable-pip-version-check --no-compile -r "$1"
  cp "$1" "$stamp"
}

# files_digest PATH... [-not -path PATTERN]: digest of the files there.
files_digest() {
  find "$@" -type f -not -path '*/__pycache__/*' -print0 |
    sort -z | xargs -0 sha256sum | sha256sum
}

# What the wheel is made of besides the Python that can be linked to. README.md
# and LICENSE go into its metadata alone.
readonly BUILD_INPUTS=(
  patches torch_xla/csrc torch_xla/shardy/pjrt_abi.inc infra/__init__.py
  infra/errors.py infra/bazel infra/patchset infra/wheel setup.py pyproject.toml
  BUILD WORKSPACE .bazelrc .bazelversion
)

# The Python that can be linked to; torch_xla/csrc is none.
readonly OVERLAY=(torch_xla torch_xla_shardy behaviour conformance test/behaviour)

# is_stamp FILE TEXT: whether FILE says TEXT.
is_stamp() {
  [[ -f "$1" && $(< "$1") == "$2" ]]
}

# Has the installed wheel run the checkout's Python.
link_overlay() {
  step "linking the checkout's Python into .venv" \
    'the message above names the reason'
  "$VENV_PYTHON" infra/develop.py
}

# set_up FILE [COMMAND PACKAGE WHY]...: with what only the caller needs: the pinned
# packages of FILE, if it names one, and Debian's.
set_up() {
  local file="$1"
  shift
  step "looking for $PYTHON" \
    'install CPython 3.11 (Debian 12: apt-get install python3.11-venv), or name
  one with PYTHON=/path/to/python3.11'
  "$PYTHON" -c 'import sys; assert sys.version_info[:2] == (3, 11), sys.version'
  # Beside pip: both wait for the network.
  need_programs "$@" &
  local programs=$!
  step 'looking for a C compiler' \
    "install gcc and the C library's headers (Debian: gcc libc6-dev)"
  gcc -E -include stdlib.h -x c /dev/null > /dev/null
  make_venv
  need_packages infra/requirements.txt
  await "$programs" "Debian's packages"
  # Beside Bazel, and over before pip installs the wheels.
  (trap on_exit EXIT; if [[ -n "$file" ]]; then need_packages "$file"; fi) &
  local packages=$!

  local linked='' inputs overlay
  if [[ -L "$INSTALLED" ]]; then linked=1; fi
  inputs=$(files_digest "${BUILD_INPUTS[@]}")
  overlay=$(files_digest "${OVERLAY[@]}" -not -path 'torch_xla/csrc/*')
  if ! is_stamp .venv/wheel-inputs "$inputs"; then
    step 'building the wheels into dist/' 'the message above names the reason'
    "$VENV_PYTHON" setup.py bdist_wheel
    "$VENV_PYTHON" -m infra.wheel tools
    await "$packages" "the packages of $file"
    step 'installing the wheels into .venv' "see pip's message above"
    "$VENV_PYTHON" -m pip install --quiet --disable-pip-version-check \
      --force-reinstall --no-deps dist/torch_xla-*-cp311-*.whl \
      $(find dist -name 'torch_xla_*-none-any.whl')
    "$VENV_PYTHON" -m pip check
    printf '%s\n' "$inputs" > .venv/wheel-inputs
    printf '%s\n' "$overlay" > .venv/overlay-inputs
  fi
  await "$packages" "the packages of $file"
  # Links stay, so that what follows need not set up again after each edit.
  if [[ -n "$linked" ]] || ! is_stamp .venv/overlay-inputs "$overlay"; then
    link_overlay
  fi
}
