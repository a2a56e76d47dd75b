#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fuzzes each of the file readers: ci/fuzz.sh [SECONDS] (default FUZZ_SECONDS, or 60). Builds
# common/data/tests/fuzz_*.c with clang, libFuzzer and the address and undefined-behaviour sanitizers into build/fuzz,
# and runs each from the corpus in the tree, which does not change: new inputs go to build/fuzz/found-NAME, an input
# that crashes to build/fuzz/crash-*. Exit status: 0 none crashed, 1 one did, 77 there is no clang with libFuzzer.
# Libraries are searched in LOCKSTEP_DEPS and in the system.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

seconds=${1:-${FUZZ_SECONDS:-60}}
if ! [[ $seconds =~ ^[1-9][0-9]{0,5}$ ]]; then
    echo "fuzz.sh: '$seconds' is not a number of seconds; a whole number from 1 works" >&2
    exit 2
fi
out=build/fuzz
mkdir -p "$out"
flags=(-std=gnu17 -D_GNU_SOURCE -g -O1 -I. -fsanitize=fuzzer,address,undefined
       -fno-sanitize-recover=all)
if [[ -n ${LOCKSTEP_DEPS:-} ]]; then
    flags+=("-I$LOCKSTEP_DEPS/usr/include")
    for dir in "$LOCKSTEP_DEPS"/usr/lib/*-linux-gnu "$LOCKSTEP_DEPS/usr/lib"; do
        flags+=("-L$dir" "-Wl,-rpath,$dir")
    done
fi
probe='int LLVMFuzzerTestOneInput(const char *data, long size) { return !data && size; }'
if ! clang -fsanitize=fuzzer,address -x c - -o "$out/probe" <<< "$probe" 2> "$out/probe.log"; then
    echo "fuzz.sh: skipped: no clang with libFuzzer here; apt-get install clang libclang-rt-14-dev"
    exit 77
fi

failed=0
for source in common/data/tests/fuzz_*.c; do
    name=$(basename "$source" .c)
    name=${name#fuzz_}
    clang "${flags[@]}" "$source" common/data/{raw,idx,safetensors}.c \
        common/base/{grow,numbers,status}.c -o "$out/$name" -lz -ljansson -lm
    mkdir -p "$out/found-$name"
    echo "fuzz.sh: $name for $seconds s"
    "$out/$name" -max_total_time="$seconds" -max_len=4096 -rss_limit_mb=1024 \
        -malloc_limit_mb=64 -timeout=10 -verbosity=0 -print_final_stats=1 \
        -artifact_prefix="$out/crash-$name-" "$out/found-$name" "common/data/tests/corpus/$name" \
        || { echo "fuzz.sh: $name failed" >&2; failed=1; }
done
exit "$failed"
