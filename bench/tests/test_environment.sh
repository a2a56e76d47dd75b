#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What libraries take from the environment: standard output has what the command prints, whatever a library prints; rows
# say what was set, also if it is no text; and rows of another instruction set are of another class of machine.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

# As a user who looks at what oneDNN does would have it, and with a value that is no text.
strange() {
    ONEDNN_VERBOSE=1 ONEDNN_DEFAULT_FPMATH_MODE=BF16 UCX_ODD=$'\xff\e[1m"<&,' lockstep "$@"
}
small="--model mlp:784-16-10 --data synthetic:200 --batch 50 --steps 3 --warmup 0"

# ---- Standard output ----------------------------------------------------------------------------

lockstep_ok run $small --results r.db --format jsonl
rows "where nothing is set there is no group" "'environment' not in r['provenance']"
mv out plain.jsonl
for command in "run $small --results r.db" "verify $small --results none" \
    "micro layers --model mlp:784-16-10 --batch 16"; do
    strange $command --format jsonl
    expect "status 0 with a library that prints" [ "$code" -eq 0 ]
    expect "rows and nothing else" [ "$(grep -c '^{"schema":1,.*}$' out)" -eq "$(wc -l <out)" ]
    expect "the library prints to stderr" grep -Eq '^onednn_verbose,(v1,primitive,)?exec,' err
    expect "arithmetic is float32 all the same" eval '! grep -q "fpmath_mode_\(bf16\|f16\|any\)" err'
    rows "rows say what was set" "all(x['provenance']['environment'] == {'ONEDNN_DEFAULT_FPMATH_MODE': 'BF16',
        'ONEDNN_VERBOSE': '1', 'UCX_ODD': '\\\\xff\\\\x1b[1m\"<&,'} for x in rows)"
    [[ $command != run* ]] || cp out strange.jsonl
done
expect "a roof that was measured so is not that of others" \
    grep -qE '"[^"|]+\|[^"]*oneDNN [0-9.]+ [^"]*\|environment [0-9a-f]{16}":' "$XDG_CACHE_HOME/lockstep/roofs.json"
strange results list --results r.db --format csv
expect "CSV has one column for them" grep -q 'ONEDNN_DEFAULT_FPMATH_MODE=BF16+ONEDNN_VERBOSE=1+UCX_ODD=' out
strange results list --results r.db --format jsonl --columns id
ids=$(sed 's/.*"id":"\([^"]*\)".*/\1/' out)
strange results diff $ids --results r.db
expect "results diff names the variable" grep -q '^provenance.environment.ONEDNN_VERBOSE  *1' out
strange results show "${ids##*$'\n'}" --all --results r.db
expect "so does results show" grep -q '^  environment.ONEDNN_VERBOSE  *1' out
strange regress "$LOCKSTEP" "$LOCKSTEP" $small --max-time 1s --quiet --format json
expect "regress of programs reads their rows" python3 -c "
import json; assert json.load(open('out'))['cases'][0]['name']"
for name in /dev/stdout /proc/self/fd/1; do
    lockstep run $small --results none --save=$name
    expect "a file on standard output: status 2" [ "$code" -eq 2 ]
    expect "and one line says so" one_line "$name.*name a file"
done

# ---- Another class of machine -------------------------------------------------------------------

isa=$(sed 's/.*"library_isa":"\([^"]*\)".*/\1/' plain.jsonl)
if [[ $isa != *schema* && $isa != sse41 ]]; then # not all processors have sets that oneDNN names
    DNNL_MAX_CPU_ISA=SSE41 lockstep verify $small --results none --format jsonl
    rows "the row has the set that the library uses, and our loops" "
        r['provenance']['library_isa'] == 'sse41' and r['provenance']['loops_isa'] == 'portable' and
        r['provenance']['environment'] == {'DNNL_MAX_CPU_ISA': 'SSE41'}"
    sed "s/\"library_isa\":\"$isa\"/\"library_isa\":\"sse41\"/" plain.jsonl >slow.jsonl
    lockstep regress plain.jsonl slow.jsonl
    expect "regress: status 3" [ "$code" -eq 3 ]
    expect "regress says why" one_line "different kinds of machines: library_isa is $isa in this file, but sse41"
    sed 's/"library_isa":"[^"]*",//' plain.jsonl >older.jsonl # versions that did not tell
    lockstep_ok regress plain.jsonl older.jsonl
fi
lockstep regress plain.jsonl strange.jsonl
expect "another environment is another class" \
    one_line "different kinds of machines: environment is none in this file, but ONEDNN_DEFAULT_FPMATH_MODE=BF16+"
lockstep run $small --results r.db --resume --dry-run --format jsonl
expect "--resume takes the row of this environment" [ ! -s out ]
DNNL_MAX_CPU_ISA=SSE41 lockstep run $small --results r.db --resume --dry-run --format jsonl
rows "but not that of another" "len(rows) == 1"

# ---- Sources ------------------------------------------------------------------------------------

prints='(^|[^a-z_])(printf|puts|putchar)\(|[ (]stdout[,)]'
expect "the program prints to ls_output() alone" eval \
    '! grep -rnE "$prints" "$SOURCE_DIR/bench" --include="*.c" --exclude-dir=tests --exclude=standard_output.c'

finish
