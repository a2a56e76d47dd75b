#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Packs a folder for a machine with a GPU that has neither Lockstep's libraries nor a network.
#
#   ci/gpu-pack.sh [--binaries] FOLDER
#
# FOLDER gets the sources that git tracks, as they are now; packed/commit, with the commit, whether anything was
# changed since, and a name for the tree; and packed/prefix.tar.xz, the unpacked Debian packages of the libraries and
# Fashion-MNIST. On the other machine, FOLDER/ci/gpu.sh does the rest. A folder packed before is replaced. More than
# MOST_MIB is refused, so that folder and checkout together fit 64 MiB. --binaries adds packed/build.tar.xz: the program
# and the tests of GPUs, built here for sm_80, sm_90 and later; the other machine then compiles nothing, if its C
# library is not older than this one's and it has CUDA's libraries of this major version. apt-get download gets the
# packages from this machine's sources, without root; apt-cache lists their dependencies. Left out: what a compiler
# includes (the C and C++ libraries, libgomp), MPI, and everything of CUDA.
set -euo pipefail
MOST_MIB=54
wanted=(libdnnl-dev libhwloc-dev libxxhash-dev libjansson-dev libsqlite3-dev libfyaml-dev
  zlib1g-dev libcmocka-dev dataset-fashion-mnist)
with_compiler='^(libc6|libc6-dev|libc-dev-bin|libgcc-s1|libstdc\+\+6|libgomp1|gcc-[0-9]+-base)$'
root=$(cd "$(dirname "$0")/.." && pwd)

fail() { # WHY STATUS
  echo "ci/gpu-pack.sh: $1" >&2
  exit "$2"
}

in_git() { git -c safe.directory='*' -c user.name=pack -c user.email=pack -C "$root" "$@"; }

# Copies the current sources, and writes what they are.
pack_sources() { # TO
  local head changed state=clean
  head=$(in_git rev-parse --verify HEAD 2>/dev/null) || fail "$root: git knows no commit of it; pack a checkout" 3
  changed=$(in_git stash create) || fail "git stash create: failed; the line above says why" 3
  [ -z "$changed" ] || state=changed
  in_git archive "${changed:-$head}" | tar -xC "$1" || fail "git archive: failed; the line above says why" 3
  mkdir -p "$1/packed"
  printf '%s\n%s\n%s\n' "$head" "$state" "$(in_git rev-parse "${changed:-$head}^{tree}")" >"$1/packed/commit"
}

# Prints the required packages and their dependencies, one per line.
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

# On the systems that these packages are for, /lib is a link to /usr/lib; absolute links would lead out of the prefix.
settle() {
  local prefix=$1 link target
  if [ -d "$prefix/lib" ]; then
    cp -a "$prefix/lib/." "$prefix/usr/lib/"
  fi
  find "$prefix/usr" -type l -lname '/*' | while read -r link; do
    target=$(readlink "$link")
    target=$prefix/usr${target#/usr}
    [ ! -e "$target" ] || ln -sfr "$target" "$link"
  done
  rm -rf "$prefix"/usr/share/{doc,man,lintian,bug,aclocal,libtool}
  find "$prefix/usr/lib" -name '*.a' -delete
}

pack_prefix() { # TO TEMPORARY
  local packages package
  command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null && command -v xz >/dev/null ||
    fail "apt-get, dpkg-deb, xz: missing; pack on a Debian machine with xz-utils" 3
  mkdir "$2/packages" "$2/prefix"
  mapfile -t packages < <(list_packages)
  if ! (cd "$2/packages" && apt-get download "${packages[@]}") >"$2/log" 2>&1; then
    fail "apt-get download: $(grep -m 1 '^E:' "$2/log" || tail -n 1 "$2/log"); run apt-get update, or add sources that have it" 3
  fi
  for package in "$2"/packages/*.deb; do
    dpkg-deb -x "$package" "$2/prefix" || fail "$package: cannot be unpacked" 3
  done
  settle "$2/prefix"
  tar -C "$2/prefix" --owner=0 --group=0 -cf - usr | xz -6 >"$1/packed/prefix.tar.xz"
}

# Builds what runs on a GPU from the packed sources. Libraries are found beside the build: those of the prefix, and
# CUDA's in a folder of links, which gpu.sh makes.
pack_build() { # TO TEMPORARY
  local arch test targets=(lockstep)
  arch=$(uname -m)-linux-gnu
  for test in "$1"/common/*/tests/test_{gpu,cuda}_*.c "$1"/common/*/cuda/tests/test_{gpu,cuda}_*.c; do
    [[ ! -e $test || $test == *_emulated.c ]] || targets+=("$(basename "$test" .c)")
  done
  if ! (cmake -S "$1" -B "$2/build" -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TESTS=ON -DLOCKSTEP_CUDA=ON -DLOCKSTEP_MPI=OFF \
    "-DCMAKE_BUILD_RPATH=\$ORIGIN/../prefix/usr/lib/$arch;\$ORIGIN/../libraries" \
    -DCMAKE_EXE_LINKER_FLAGS=-Wl,--disable-new-dtags &&
    cmake --build "$2/build" -j "$(nproc)" --target "${targets[@]}") >"$2/log" 2>&1; then
    fail "the build failed: $(grep -m 1 -E 'rror' "$2/log" || tail -n 1 "$2/log")" 1
  fi
  if cmake --build "$2/build" --target kernel_times >"$2/log" 2>&1; then # only if cupti.h is here
    targets+=(kernel_times.so)
  fi
  # The programs have the same kernels: a large dictionary.
  (cd "$2/build" && strip "${targets[@]}" && tar --owner=0 --group=0 -cf - "${targets[@]}") |
    xz --lzma2=preset=6,dict=128MiB >"$1/packed/build.tar.xz"
}

binaries=
if [ "${1:-}" = --binaries ]; then
  binaries=yes
  shift
fi
[ $# -eq 1 ] && [[ $1 != -* ]] || fail "usage: ci/gpu-pack.sh [--binaries] FOLDER" 2
if [ -e "$1" ] && [ ! -e "$1/packed/commit" ] && [ -n "$(ls -A "$1")" ]; then
  fail "$1: is not empty, and was not packed by this; name another folder" 2
fi
mkdir -p "$1" || fail "$1: cannot be made; name a folder that can" 3
folder=$(cd "$1" && pwd)
temporary=$(mktemp -d)
trap 'rm -rf "$temporary"' EXIT
mkdir "$temporary/all"
pack_sources "$temporary/all"
pack_prefix "$temporary/all" "$temporary"
[ -z "$binaries" ] || pack_build "$temporary/all" "$temporary"
bytes=$(du -sb "$temporary/all" | cut -f 1)
[ "$bytes" -le $((MOST_MIB << 20)) ] || fail "$bytes bytes, more than $MOST_MIB MiB; see what is large: du -a" 1
find "$folder" -mindepth 1 -delete
cp -a "$temporary/all/." "$folder/"
checkout=$(in_git ls-files -z | (cd "$root" && xargs -0 du -bc 2>/dev/null) | sed -n '$s/\t.*//p')
[ $((bytes + checkout)) -le $((64 << 20)) ] || echo "ci/gpu-pack.sh: $folder: this folder ($((bytes >> 20)) MiB) and the checkout ($((checkout >> 20)) MiB) are together larger than 64 MiB; pack without --binaries, or remove files" >&2
echo "$folder: $bytes bytes, commit $(head -n 2 "$folder/packed/commit" | paste -sd ' '); there: ci/gpu.sh OUT"
