#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `cmake --install` installs a program that runs, and a library that another project can find, compile against and
# link: public headers, a CMake package and lockstep.pc.
set -euo pipefail
build=$(dirname "$LOCKSTEP")
if grep -q 'LOCKSTEP_SANITIZE:STRING=.' "$build/CMakeCache.txt"; then
  echo "skipped: a consumer would have to be built with the same sanitizer"
  exit 77
fi
export CMAKE_GENERATOR=Ninja # make may not be there
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake --install "$build" --prefix "$dir/prefix" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
"$dir/prefix/bin/lockstep" --version | grep -q '^lockstep ' || { echo "the installed program does not run"; exit 1; }
# Manual page and completion cover the option table; the Debian package contains them, and runs.
for name in man/man1/lockstep.1.gz bash-completion/completions/lockstep zsh/vendor-completions/_lockstep; do
  zgrep -q -e strategy "$dir/prefix/share/$name" || { echo "$name: has no options"; exit 1; }
done
bash -n "$dir/prefix/share/bash-completion/completions/lockstep"
# shellcheck source=/dev/null
source "$dir/prefix/share/bash-completion/completions/lockstep"
completes() { # completes TO WORD...: how bash completes the last word
  local to=$1
  shift
  COMP_WORDS=(lockstep "$@") COMP_CWORD=$#
  _lockstep
  [ "${COMPREPLY[*]}" = "$to" ] || { echo "bash completes '$*' to '${COMPREPLY[*]}', not '$to'"; exit 1; }
}
completes --against report --ag
completes 'model-parallel' run --strategy mo
completes single,towers verify --strategy single,to
completes 'fast exact' run --reduce = # bash splits --reduce= like this
completes 'jsonl json' micro --format = js
completes auto micro --allreduce au
completes '' run --results '' # a file name
if command -v zsh >/dev/null; then # in a terminal, with Tab: names of a command, an option, values
  cat >"$dir/type.zsh" <<Z
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PS1=; fpath=($dir/prefix/share/zsh/vendor-completions \$fpath); autoload -Uz compinit; compinit -u -D'
zpty -w z 'lockstep() { print -r -- ran "\$*" }'
zpty -w -n z \$'lockstep reg\t --fail\t'; sleep 2; zpty -w -n z \$'\n'; sleep 1
zpty -w -n z \$'lockstep run --strategy single,mirr\t --format m\t'; sleep 1; zpty -w -n z \$'\n'; sleep 1
while zpty -r -t z line; do print -r -- "\$line"; done
Z
  zsh -f "$dir/type.zsh" >"$dir/log" 2>&1
  for line in 'ran regress --fail-on' 'ran run --strategy single,mirrored --format md'; do
    grep -q "^$line" "$dir/log" || { echo "zsh has not '$line'"; cat "$dir/log"; exit 1; }
  done
fi
if command -v dpkg-shlibdeps >/dev/null; then
  (cd "$build" && cpack -B "$dir/package") >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
  dpkg-deb -f "$dir"/package/lockstep_*.deb Depends | grep -q libhwloc || { echo "no libraries in Depends"; exit 1; }
  if command -v lintian >/dev/null; then
    lintian --fail-on error,warning "$dir"/package/lockstep_*.deb >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
  fi
  dpkg-deb -x "$dir"/package/lockstep_*.deb "$dir/unpacked"
  "$dir/unpacked/usr/bin/lockstep" --version | grep -q '^lockstep ' || { echo "the packaged program does not run"; exit 1; }
fi
# Installs the public headers, no more and no less.
diff <(cd "$dir/prefix/include/lockstep" && find . -type f | sed 's:^\./::' | sort) \
  <(grep -oE '(common|impl)/[a-z0-9_/]+\.h' "$SOURCE_DIR/ci/cmake/PublicHeaders.cmake" | sort) ||
  { echo "installed (<) are not the public headers (>)"; exit 1; }

# An external project: the examples' sources, and nothing else of this repository. All of them compile as plain C17;
# the CMake package and pkg-config build those that cover most: functions over batches; a training loop of a strategy
# on two devices and a third for the variables.
mkdir -p "$dir/outside/impl"
cp -r "$SOURCE_DIR/impl/examples" "$dir/outside/impl"
cd "$dir/outside"
cat >CMakeLists.txt <<'C'
cmake_minimum_required(VERSION 3.24)
project(outside LANGUAGES C)
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_EXTENSIONS OFF)
find_package(lockstep REQUIRED)
file(GLOB shared impl/examples/p*.c)
file(GLOB examples impl/examples/seed*.c)
add_library(shared OBJECT ${shared})
target_include_directories(shared PUBLIC ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(shared PUBLIC lockstep::liblockstep)
foreach(source ${examples})
  get_filename_component(name ${source} NAME_WE)
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE shared)
endforeach()
C
trained=(seed02_make_parallel seed17_cifar10_towers)
says_ok() { "$1" >"$dir/log" 2>&1 && grep -q '^ok$' "$dir/log" || { echo "$1: failed"; cat "$dir/log"; exit 1; }; }
{ cmake -S . -B cmake -DCMAKE_PREFIX_PATH="$dir/prefix" && cmake --build cmake --target "${trained[@]}"; } >"$dir/log" 2>&1 ||
  { cat "$dir/log"; exit 1; }
for name in "${trained[@]}"; do says_ok "cmake/$name"; done

package=$(find "$dir/prefix" -name lockstep.pc)
PKG_CONFIG_PATH=$(dirname "$package")
export PKG_CONFIG_PATH
[ "$(pkg-config --modversion lockstep)" = "$("$dir/prefix/bin/lockstep" --version | sed -n 's/^lockstep //p')" ] ||
  { echo "lockstep.pc: not the program's version"; exit 1; }
# shellcheck disable=SC2046
cc -std=c17 -fsyntax-only -Wall -Wextra -Werror -I. $(pkg-config --cflags lockstep) impl/examples/*.c
for name in "${trained[@]}"; do
  # shellcheck disable=SC2046
  cc -std=c17 -I. $(pkg-config --cflags lockstep) -o "$name" "impl/examples/$name.c" impl/examples/p*.c \
    $(pkg-config --libs lockstep) >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
  says_ok "./$name"
done
cd "$SOURCE_DIR"

# A missing library is named, with the package that provides it.
fewest=(-DLOCKSTEP_TESTS=OFF -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_MPI=OFF)
if cmake -S "$SOURCE_DIR" -B "$dir/missing" "${fewest[@]}" -Ddnnl_LIBRARY=dnnl_LIBRARY-NOTFOUND \
  -DCMAKE_SYSTEM_IGNORE_PATH="/usr/include;/usr/local/include" >"$dir/log" 2>&1; then
  echo "configured without oneDNN's header"
  exit 1
fi
grep -q 'apt-get install libdnnl-dev' "$dir/log" || { cat "$dir/log"; exit 1; }
# A prefix given as LOCKSTEP_DEPS is searched first.
mkdir -p "$dir/deps/include"
echo '#error "LOCKSTEP_DEPS was searched"' >"$dir/deps/include/zlib.h"
cmake -S "$SOURCE_DIR" -B "$dir/deps-build" "${fewest[@]}" -DLOCKSTEP_DEPS="$dir/deps" >"$dir/log" 2>&1 ||
  { cat "$dir/log"; exit 1; }
grep -q "zlib_INCLUDE_DIR:PATH=$dir/deps/include" "$dir/deps-build/CMakeCache.txt" ||
  { echo "LOCKSTEP_DEPS is not searched first"; exit 1; }
