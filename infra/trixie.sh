#!/usr/bin/env bash
# A root of Debian trixie, for its Python 3.13: made once, entered by chroot.

set -euo pipefail
readonly CALLER=$PWD
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
  cat << 'HELP'
usage: bash infra/trixie.sh [--root DIR] make
       bash infra/trixie.sh [--root DIR] run PROGRAM [ARGUMENT...]
       bash infra/trixie.sh [--root DIR] examples
       bash infra/trixie.sh [--root DIR] test [PYTEST ARGUMENT...]

Runs this project on the Python 3.13 of Debian trixie, on any Debian: in a root
directory of its own, which the first run makes with debootstrap (installed from
Debian if missing) in about a minute. It stays in DIR, by default build/trixie
in the checkout; nothing stays mounted, so to be rid of it remove the folder.

  make      makes the root.
  run       runs a program there, which sees the checkout where it is here,
            read-only, and starts in it.
  examples  builds the wheel for Python 3.13, installs it with torch into a venv
            there and runs examples/train_sharded.py and examples/priority.py.
  test      the same wheel; then the suite, on a copy of the checkout: its core
            as infra/test.sh --core has it, or what the arguments name.

Packages come from the mirror that apt has here, and from the index that pip has
here. It needs root and the right to mount; without them it says so and ends
with status 77, which means skipped.
HELP
}

readonly SKIPPED=77
# A file in a root that this made: no other folder is ever emptied.
readonly MARK=.torch_xla-trixie
# libpython3.13 is what _XLAC is linked against, the official wheel's as ours.
readonly PACKAGES=ca-certificates,libpython3.13,python3.13,python3.13-venv
# What the suite uses besides, as infra/test.sh has it.
readonly TEST_PACKAGES=(
  bazel-bootstrap chromium g++ gcc git libc6-dev valgrind
)
readonly VENV_PYTHON=/venv/bin/python
readonly COPY=/checkout

# skip REASON: this machine cannot do it.
skip() {
  printf 'skipped: %s\n' "$*" >&2
  exit "$SKIPPED"
}

# fail REASON
fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# stage NAME COMMAND...: announces a stage, and says how long it took.
stage() {
  local start=$SECONDS
  printf '==> %s\n' "$1"
  "${@:2}"
  printf '==> %s: %s s\n' "$1" "$((SECONDS - start))"
}

check_machine() {
  [[ $(id -u) == 0 ]] ||
    skip 'a root directory is entered as root: run it as root'
  local program
  for program in unshare chroot flock; do
    command -v "$program" > /dev/null || skip "there is no $program on the PATH"
  done
  unshare --mount --propagation private true 2> /dev/null ||
    skip 'mounting is not allowed here, as in a container without CAP_SYS_ADMIN'
}

need_debootstrap() {
  command -v debootstrap > /dev/null && return
  echo "==> installing Debian's packages debootstrap and" \
    'debian-archive-keyring, which make the root' >&2
  apt-get update -qq
  # With the keys of releases that came after this machine's.
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
    --no-install-recommends debootstrap debian-archive-keyring > /dev/null ||
    skip 'debootstrap is missing, and apt could not install it (see above)'
}

# Makes the root: whole or not at all, and one at a time.
make_root() (
  [[ -f "$root/$MARK" ]] && return
  [[ ! -e "$root" ]] ||
    fail "$root is there and was not made by this script: name another --root"
  mkdir -p "$(dirname "$root")"
  exec 9> "$root.lock"
  flock 9
  [[ -f "$root/$MARK" ]] && return
  command -v apt-get > /dev/null ||
    skip 'there is no apt here, which knows a mirror of Debian'
  need_debootstrap
  local mirror part="$root.part"
  mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' \
    'Created-By: Packages' | sed -n 1p)
  [[ -n "$mirror" ]] || skip 'apt has no mirror of Debian here'
  rm -rf "$part"
  mkdir "$part"
  # debootstrap mounts, too.
  unshare --mount --propagation private debootstrap --variant=minbase \
    --include="$PACKAGES" trixie "$part" "$mirror" > "$part.log" 2>&1 9>&- ||
    fail "debootstrap failed; the end of $part.log:
$(tail -n 5 "$part.log")"
  # Whom this machine trusts besides Debian's list.
  cp -rL /usr/local/share/ca-certificates "$part/usr/local/share/" || true
  chroot "$part" update-ca-certificates > "$part.log" 2>&1
  chroot "$part" apt-get clean
  # How apt reaches its mirror here; there may be nothing to say.
  apt-config dump | grep -E '^Acquire::(Check|http|Retries)' \
    > "$part/etc/apt/apt.conf.d/90outside" || true
  : > "$part/$MARK"
  mv "$part" "$root"
  rm "$part.log"
)

# become FOLDER PROGRAM [ARGUMENT...]: goes on as a program in the root.
become() {
  exec unshare --mount --propagation private bash infra/trixie_enter.sh \
    "$root" "$PWD" "$@"
}

# enter FOLDER PROGRAM [ARGUMENT...]: runs a program in the root.
enter() {
  (become "$@")
}

build_wheel() {
  [[ -x .venv/bin/python ]] ||
    fail 'the wheel is built with .venv, which bash infra/develop.sh makes'
  rm -rf "$root/wheels"
  .venv/bin/python setup.py bdist_wheel --python 3.13 -d "$root/wheels"
}

# install_wheel FILE...: installs what some files require, then the wheel.
install_wheel() {
  local wheel file
  wheel=/wheels/$(basename "$root"/wheels/*.whl)
  enter "$PWD" python3.13 infra/release/environment.py /venv
  for file in "$@"; do
    enter "$PWD" "$VENV_PYTHON" -m pip install -qq --no-input -r "$file"
  done
  enter "$PWD" "$VENV_PYTHON" -m pip install -qq --no-input --no-deps \
    --force-reinstall "$wheel"
  enter "$PWD" "$VENV_PYTHON" -m pip check
}

install_test_packages() {
  enter / apt-get update -qq
  enter / apt-get install -y -qq --no-install-recommends \
    "${TEST_PACKAGES[@]}" > "$root.log" 2>&1 ||
    fail "apt failed; the end of $root.log:
$(tail -n 5 "$root.log")"
  enter / apt-get clean
}

# A copy that tests can write to; what was built in the last one stays.
copy_checkout() {
  mkdir -p "$root$COPY"
  find "$root$COPY" -mindepth 1 -maxdepth 1 -not -name build \
    -exec rm -rf {} +
  git ls-files -z --cached --others --exclude-standard |
    tar --create --null --ignore-failed-read --files-from=- |
    tar --extract --directory="$root$COPY"
}

run_example() {
  TF_CPP_MIN_LOG_LEVEL=2 enter "$PWD" "$VENV_PYTHON" "examples/$1"
}

run_tests() {
  TF_CPP_MIN_LOG_LEVEL=2 enter "$COPY" "$VENV_PYTHON" -m pytest "$@"
}

root=build/trixie
if [[ "${1:-}" == --root ]]; then
  root="${2:?--root takes a folder}"
  [[ "$root" == /* ]] || root="$CALLER/$root"
  shift 2
fi
root=$(realpath -m "$root")
readonly root

case "${1:-}" in
  --help) usage ;;
  make)
    check_machine
    stage "making $root" make_root
    ;;
  run)
    shift
    (($#)) || fail 'run takes a program: bash infra/trixie.sh run python3.13'
    check_machine
    make_root
    become "$PWD" "$@"
    ;;
  examples)
    check_machine
    stage "making $root" make_root
    stage 'building the wheel for Python 3.13' build_wheel
    stage 'installing it with torch' install_wheel infra/requirements.txt
    stage 'examples/train_sharded.py' run_example train_sharded.py
    stage 'examples/priority.py' run_example priority.py
    ;;
  test)
    shift
    if (($# == 0)); then set -- --tier=core; fi
    check_machine
    stage "making $root" make_root
    stage 'building the wheel for Python 3.13' build_wheel
    stage 'installing it with torch and what the tests need' \
      install_wheel infra/requirements.txt infra/requirements-test.txt
    stage "installing ${TEST_PACKAGES[*]} (Debian packages)" \
      install_test_packages
    stage "copying the checkout" copy_checkout
    stage "running pytest $*" run_tests "$@"
    ;;
  *)
    usage >&2
    fail "there is no command '${1:-}'"
    ;;
esac
