#!/usr/bin/env bash
# Runs a program in a root directory; infra/trixie.sh starts it in a mount
# namespace of its own, which takes all that is mounted here with it.
#
# usage: trixie_enter.sh ROOT CHECKOUT FOLDER PROGRAM [ARGUMENT...]
#
# The program starts in FOLDER. It sees the checkout, read-only, where it is
# outside, and reaches the network as programs outside do.

set -euo pipefail

readonly root="$1" checkout="$2" folder="$3"
shift 3

# show PATH [OPTION]: puts a path of this machine, if it is there, in the root.
show() {
  local to="$root$1"
  if [[ -d "$1" ]]; then
    mkdir -p "$to"
  elif [[ -e "$1" ]]; then
    mkdir -p "$(dirname "$to")"
    touch "$to"
  else
    return 0
  fi
  mount --rbind ${2:+-o "$2"} "$1" "$to"
}

# Folders on this machine that pip takes packages from.
pip_folders() {
  local said path
  said="${PIP_FIND_LINKS:-} ${PIP_INDEX_URL:-} ${PIP_EXTRA_INDEX_URL:-}"
  said+=" $(cat "${pip_files[@]}" 2> /dev/null || true)"
  # What an index of files lists lies beside it.
  grep -oE 'file:///[^ ,]+' <<< "$said" | while read -r path; do
    dirname "${path#file://}"
  done || true
  grep -oE '(^|[ =])/[^ ,]+' <<< "$said" | tr -d ' =' || true
}

mount -t proc proc "$root/proc"
show /sys
show /dev
show "$checkout" ro
show /etc/resolv.conf ro
show /etc/hosts ro
pip_files=(/etc/pip.conf "$HOME/.pip/pip.conf" "$HOME/.config/pip/pip.conf")
if [[ -n "${PIP_CONFIG_FILE:-}" ]]; then pip_files+=("$PIP_CONFIG_FILE"); fi
readonly pip_files
for place in "${pip_files[@]}"; do show "$place" ro; done
while read -r place; do
  if [[ -d "$place" ]]; then show "$place" ro; fi
done < <(pip_folders | sort -u)
mkdir -p "$root$HOME"

# What says where Python, its packages and tools are outside.
unset BAZEL LD_LIBRARY_PATH LD_PRELOAD PYTHON PYTHONHOME PYTHONPATH TMPDIR \
  VIRTUAL_ENV
export LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec chroot "$root" env --chdir="$folder" "$@"
