#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `cmake --install` gives a program that runs and a library that another project finds, compiles
# against and links.
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
mkdir "$dir/consumer"
cat >"$dir/consumer/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES C)
find_package(lockstep REQUIRED)
add_executable(consumer consumer.c)
target_link_libraries(consumer PRIVATE lockstep::liblockstep)
add_executable(example impl/examples/seed02_make_parallel.c impl/examples/parallel.c impl/examples/parallel_graph.c)
target_include_directories(example PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(example PRIVATE lockstep::liblockstep)
C
# An example of the sources, and nothing else of them.
mkdir -p "$dir/consumer/impl"
cp -r "$SOURCE_DIR/impl/examples" "$dir/consumer/impl"
cat >"$dir/consumer/consumer.c" <<'C'
#include <impl/strategy.h>
#include <stdio.h>

int main(void)
{
    const ls_strategy *strategy;
    ls_status status = ls_strategy_find("single", &strategy);
    puts(status ? ls_status_text(status) : strategy->help);
    return status != LS_OK;
}
C
{ cmake -S "$dir/consumer" -B "$dir/out" -DCMAKE_PREFIX_PATH="$dir/prefix" &&
  cmake --build "$dir/out"; } >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
"$dir/out/consumer" | grep -q reference
"$dir/out/example" | grep -q '^ok$'
# A library that is not there is named, with the package that brings it.
if cmake -S "$SOURCE_DIR" -B "$dir/missing" -DLOCKSTEP_TESTS=OFF -Ddnnl_LIBRARY=dnnl_LIBRARY-NOTFOUND \
  -DCMAKE_SYSTEM_IGNORE_PATH="/usr/include;/usr/local/include" >"$dir/log" 2>&1; then
  echo "configured without oneDNN's header"
  exit 1
fi
grep -q 'apt-get install libdnnl-dev' "$dir/log" || { cat "$dir/log"; exit 1; }
# So is a prefix given as LOCKSTEP_DEPS searched first.
mkdir -p "$dir/deps/include"
echo '#error "LOCKSTEP_DEPS was searched"' >"$dir/deps/include/zlib.h"
cmake -S "$SOURCE_DIR" -B "$dir/deps-build" -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_DEPS="$dir/deps" >"$dir/log" 2>&1 ||
  { cat "$dir/log"; exit 1; }
grep -q "zlib_INCLUDE_DIR:PATH=$dir/deps/include" "$dir/deps-build/CMakeCache.txt" ||
  { echo "LOCKSTEP_DEPS is not searched first"; exit 1; }
