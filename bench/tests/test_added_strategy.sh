#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A strategy that only the registry and its own file know (added_strategy.c) has all that others have. It has buffers,
# arithmetic and options of its own, real numbers: command line, help, plan, refusals, row and its schema, CSV, lists,
# --dry-run, predict, --print-step, the gate's replay, results, reports. No tolerance: texts, and numbers as written.
set -euo pipefail
source "${SOURCE_DIR:?}/bench/tests/lib.sh"

for strategy in $("$LOCKSTEP" list strategies | awk '/^  /{ print $1 }'); do
    expect "README.md has $strategy" grep -q "^|.*\`$strategy\`" "$SOURCE_DIR/README.md"
done
expect "a strategy that no cell names is compared" [ "$(python3 "$SOURCE_DIR/ci/compare_steps.py" --list "$LOCKSTEP" \
    "${ADDED:?path of lockstep_added}" | grep -c -e '--strategy added ')" = 1 ]

LOCKSTEP=$ADDED
quick="--model poly --devices 2 --steps 4 --warmup 1 --blocks 1"

lockstep_ok run --help
expect "help names the option" grep -q -e '--added-share X (default: 0.5)' out
lockstep_ok list strategies
expect "list has the strategy" grep -q '^ *added  ' out

for share in 0 -1 1.01 nan inf 0x1 1e400 0.5x; do
    lockstep run --strategy added "--added-share=$share" $quick --results none
    expect "$share is refused" one_line "option: --added-share: '$share' is not valid; use a number above 0 and at most 1"
    expect "$share: status" [ "$code" -eq 2 ]
done

lockstep run --strategy added --added-share 0.5,.50,5e-1,1 $quick --results none --format jsonl --quiet
rows "equal numbers are one case" '[r["case"]["added_share"] for r in rows] == [0.5, 1.0]'

lockstep_ok run --strategy added --added-share 0.25,0.3 $quick --results a.db --format jsonl --quiet
rows "the row has the numbers as given" '[r["case"]["added_share"] for r in rows] == [0.25, 0.3]'
rows "the gate replays it, whose replicas differ" 'all(r["equivalence"]["pass"] for r in rows)'
lockstep_ok verify --strategy added --devices 2,3 --model mlp:784-16-10 --data synthetic:60 --batch 14 --steps 8 \
    --clip 0.1 --precision float32,bf16
expect "replayed with several replicas, tails and bf16" [ "$(grep -c 'none *ok' out)" = 4 ]
lockstep_ok run --strategy added $quick --print-step --quiet --results none
expect "its arithmetic is listed" grep -q 'slow momentum  *1 .*slow momentum' out
lockstep run --strategy added $quick --reduce exact --results none
expect "exact mode is refused" one_line 'strategy: added: this strategy does not sum gradients, .*'
lockstep run --strategy added $quick --checkpoint saved --results none
expect "checkpoints are refused" one_line 'option: --checkpoint: cannot be used with --strategy added, .*'
lockstep_ok results list --results a.db --where added_share=0.3 --columns added_share --format csv
expect "CSV and --where" [ "$(sed 1d out)" = 0.3 ]
lockstep_ok results diff last~1 last --results a.db
expect "diff names it" grep -q '^case.added_share  *0.25  *0.3$' out
lockstep run --strategy added --added-share 0.25,0.3 $quick --results a.db --resume --quiet
expect "the same cases are resumed" [ "$code/$(wc -c <out)" = 0/0 ]

printf 'strategy: added\nadded-share: [0.3, 1]\nmodel: poly\ndevices: 2\n' >plan.yaml
lockstep run --plan plan.yaml --dry-run --results none --format jsonl
expect "the plan's key" [ "$code/$(wc -l <out)" = 0/2 ]
lockstep_ok predict --plan plan.yaml --platform flat:bandwidth=1GB/s --results none --format jsonl
rows "predict" '[r["case"]["added_share"] for r in rows] == [0.3, 1.0]'

lockstep_ok report --results a.db --out report
expect "a report's plan has it" grep -q -e 'added-share: *"\?0.3' report/report.yaml
finish
