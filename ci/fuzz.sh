#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fuzzes each of the file readers, and what is made of rows (reports, tables, exports): ci/fuzz.sh [SECONDS [TARGET]]
# (default FUZZ_SECONDS, or 60; all of idx, safetensors, models, rows). Builds common/data/tests/fuzz_*.c and
# bench/tests/fuzz_*.c with clang, libFuzzer and the address and undefined-behaviour sanitizers into build/fuzz, and runs
# each from the corpus in the tree, if it has one, which does not change: new inputs go to build/fuzz/found-NAME, an
# input that crashes to build/fuzz/crash-*. Exit status: 0 none crashed, 1 one did, 77 there is no clang with libFuzzer.
# Libraries are searched in LOCKSTEP_DEPS and in the system.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-${FUZZ_SECONDS:-60}}
if ! [[ $seconds =~ ^[1-9][0-9]{0,5}$ ]]; then
    echo "fuzz.sh: '$seconds' is not a number of seconds; use a whole number of 1 or more" >&2
    exit 2
fi
only=${2:-}
if ! [[ $only =~ ^(|idx|safetensors|models|rows)$ ]]; then
    echo "fuzz.sh: '$only' is not a target; use idx, safetensors, models or rows" >&2
    exit 2
fi
out=build/fuzz
mkdir -p "$out"
flags=(-std=gnu17 -D_GNU_SOURCE -g -O1 -I. "-I$out/headers/generated" -fsanitize=fuzzer,address,undefined
       -fno-sanitize-recover=all)
if [[ -n ${LOCKSTEP_DEPS:-} ]]; then
    flags+=("-I$LOCKSTEP_DEPS/usr/include")
    for dir in "$LOCKSTEP_DEPS"/usr/lib/*-linux-gnu "$LOCKSTEP_DEPS/usr/lib"; do
        flags+=("-L$dir" "-Wl,-rpath,$dir")
    done
fi
probe='int LLVMFuzzerTestOneInput(const char *data, long size) { return !data && size; }'
if ! clang -fsanitize=fuzzer,address -x c - -o "$out/probe" <<< "$probe" 2> "$out/probe.log"; then
    echo "fuzz.sh: skipped: no clang with libFuzzer here; apt-get install clang libclang-rt-dev"
    exit 77
fi

# The headers that CMake writes.
mkdir -p "$out/headers/generated"
printf '%s\n' 'cmake_minimum_required(VERSION 3.22)' 'project(headers NONE)' "set(CMAKE_CURRENT_SOURCE_DIR [[$PWD]])" \
    "include([[$PWD/ci/cmake/EmbeddedTexts.cmake]])" > "$out/headers/CMakeLists.txt"
cmake -S "$out/headers" -B "$out/headers" > "$out/headers.log"
cmake -DSOURCE=. "-DOUT=$out/headers/generated/build_info.h" -DVERSION=0 -DTYPE=fuzz -DCOMPILER=clang -DFLAGS= \
    -P ci/cmake/WriteBuildInfo.cmake

cached=(env)
! command -v ccache >/dev/null || cached=(ccache)

# fuzz NAME LONGEST SOURCE...: builds a target, and runs it on inputs of at most LONGEST bytes.
failed=0
fuzz() {
    local name=$1 longest=$2 objects=() source
    [ "$name" = "${only:-$name}" ] || return 0
    shift 2
    for source; do
        objects+=("$out/$name-${source//\//-}.o")
        printf '%s\0%s\0' "${objects[-1]}" "$source"
    done > "$out/$name.list"
    xargs -0 -n 2 -P "$(nproc)" "${cached[@]}" clang "${flags[@]}" -c -o < "$out/$name.list"
    clang "${flags[@]}" "${objects[@]}" -o "$out/$name" -lz -lsqlite3 -lxxhash -ljansson -lfyaml -lm
    mkdir -p "$out/found-$name"
    local corpus=("$out/found-$name") tree
    for tree in "common/data/tests/corpus/$name" "datasets/$name"; do
        [ ! -d "$tree" ] || corpus+=("$tree")
    done
    echo "fuzz.sh: $name for $seconds s"
    "$out/$name" -max_total_time="$seconds" -max_len="$longest" -rss_limit_mb=1024 \
        -malloc_limit_mb=64 -timeout=10 -len_control=0 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$out/crash-$name-" "${corpus[@]}" \
        || { echo "fuzz.sh: $name: the fuzzer found an error; the lines above show it, and $out/crash-$name-* is the input" >&2; failed=1; }
}

for source in common/data/tests/fuzz_*.c; do
    name=$(basename "$source" .c)
    fuzz "${name#fuzz_}" 4096 "$source" common/data/{raw,idx,safetensors}.c \
        common/base/{escape,grow,log,numbers,status}.c
done

fuzz models 4096 bench/tests/fuzz_graph.c bench/case/{graph_file,graph_layer,yaml_file}.c \
    common/nn/{graph,layers,models,optimizer,variables}.c common/nn/models/*.c \
    $(find common/nn/layers -name 'layer_*.c' ! -name 'layer_split*.c' ! -name layer_exchange.c ! -name layer_sequence.c | sort) \
    common/data/{raw,safetensors,safetensors_write}.c common/base/{declared,digest,escape,grow,log,numbers,registry,status,whole_file}.c common/base/random/philox.c

fuzz rows 300 bench/tests/fuzz_rows.c bench/rows/{fields,row}.c bench/output/{,table/}*.c bench/regress/*.c \
    bench/report/{child,draw,pictures,report_rows,template}.c \
    bench/results/results_{answers,list}.c bench/statistics/*.c \
    bench/train/{interrupt,trial/noise}.c common/device/machine_limits.c \
    common/base/{clock,declared,digest,escape,grow,log,numbers,registry,status,whole_file}.c common/base/random/philox.c common/device/link.c \
    common/nn/optimizer.c
exit "$failed"
