#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes a prefix (LOCKSTEP_DEPS) of the Debian packages that Lockstep needs, without root.
#
#   ci/gpu-deps.sh DIR           fetches them into DIR/packages, unpacks them into DIR
#   ci/gpu-deps.sh --fetch DIR   fetches only: DIR/packages is less than half of the whole, and can
#                                be taken to a machine that reaches no mirror; run it there again
#
# apt-get download takes them from the sources that this machine has; what depends on what is asked
# of apt-cache. Left out: what comes with a compiler (the C and C++ libraries, libgomp), MPI, and
# everything of CUDA. What is there already is not fetched or unpacked again.
set -euo pipefail
wanted=(libdnnl-dev libhwloc-dev libxxhash-dev libjansson-dev libsqlite3-dev libfyaml-dev
  zlib1g-dev libcmocka-dev dataset-fashion-mnist)
with_compiler='^(libc6|libc6-dev|libc-dev-bin|libgcc-s1|libstdc\+\+6|libgomp1|gcc-[0-9]+-base)$'

fail() {
  echo "ci/gpu-deps.sh: $1" >&2
  exit "$2"
}

# The wanted packages and those that they depend on, one a line.
list_packages() {
  local queue=("${wanted[@]}") package dependency
  declare -A seen=()
  while [ ${#queue[@]} -gt 0 ]; do
    package=${queue[0]}
    queue=("${queue[@]:1}")
    [ -z "${seen[$package]:-}" ] || continue
    seen[$package]=yes
    echo "$package"
    while read -r dependency; do
      [[ $dependency =~ $with_compiler ]] || queue+=("$dependency")
    done < <(apt-cache depends --important "$package" 2>/dev/null |
      sed -nE 's/^ [ |](Pre)?Depends: ([a-z0-9][^ <>:]*).*/\2/p')
  done
}

fetch() {
  local dir=$1 packages
  [ ! -e "$dir/packages/complete" ] || return 0
  command -v apt-get >/dev/null || fail "apt-get: missing; fetch on a Debian machine with --fetch, then bring $dir here" 3
  mkdir -p "$dir/packages"
  mapfile -t packages < <(list_packages)
  if ! (cd "$dir/packages" && apt-get download "${packages[@]}") >"$dir/packages/log" 2>&1; then
    fail "apt-get download: $(grep -m 1 '^E:' "$dir/packages/log" || tail -n 1 "$dir/packages/log"); apt-get update, or sources that have it, mend that" 3
  fi
  rm -f "$dir/packages/log"
  touch "$dir/packages/complete"
}

# /lib is a link to /usr/lib on the systems that these packages are for; links that name a place
# from the root on would lead out of the prefix.
settle() {
  local root=$1 link target
  if [ -d "$root/lib" ]; then
    cp -a "$root/lib/." "$root/usr/lib/"
  fi
  find "$root/usr" -type l -lname '/*' | while read -r link; do
    target=$(readlink "$link")
    target=$root/usr${target#/usr}
    [ ! -e "$target" ] || ln -sfr "$target" "$link"
  done
  rm -rf "$root"/usr/share/{doc,man,lintian,bug,aclocal,libtool}
  find "$root/usr/lib" -name '*.a' -delete
}

unpack() {
  local dir=$1 package
  [ ! -e "$dir/usr" ] || return 0
  command -v dpkg-deb >/dev/null || fail "dpkg-deb: missing; unpack on a Debian machine and bring $dir here" 3
  rm -rf "$dir/unpacking"
  for package in "$dir"/packages/*.deb; do
    dpkg-deb -x "$package" "$dir/unpacking" ||
      fail "$package: cannot be unpacked; remove $dir/packages to fetch it again" 3
  done
  settle "$dir/unpacking"
  mv "$dir/unpacking/usr" "$dir/usr"
  rm -rf "$dir/unpacking"
}

only_fetch=
if [ "${1:-}" = --fetch ]; then
  only_fetch=yes
  shift
fi
[ $# -eq 1 ] && [[ $1 != -* ]] || fail "usage: ci/gpu-deps.sh [--fetch] DIR" 2
mkdir -p "$1"
dir=$(cd "$1" && pwd)
if [ -e "$dir/usr" ] && [ ! -e "$dir/packages/complete" ]; then
  fail "$dir: has a usr that is not from here; name a folder of its own" 2
fi
fetch "$dir"
if [ -z "$only_fetch" ]; then
  unpack "$dir"
  echo "LOCKSTEP_DEPS=$dir"
fi
