#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Each strategy's own page gives the tasks of the page of all (step/verbs/page.c): on each lane the same ones in one
# order, with the same operations, waits and memory, for full and smaller batches. By --print-step, in builds with
# hooks (LOCKSTEP_PAGE). No tolerance.
set -euo pipefail
source "${SOURCE_DIR:?}/bench/tests/lib.sh"
[ -x "$LOCKSTEP" ] && ! LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1 ||
    { echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"; exit 77; }

# Prints a listing's tasks by lane, and what each waits for by its place on its lane.
by_lane() {
    python3 - "$1" <<'PYTHON'
import re, sys
lanes, tasks, names = {}, [], {}
for line in open(sys.argv[1]):
    if line.startswith("A step of"):
        print(line.strip().split(":")[0])
        names = {}
    cells = re.split(r"  +", line.strip())
    if cells[0].isdigit() and len(cells) > 4:
        own = lanes.setdefault(cells[1], [])
        names[cells[0]] = f"{cells[1]} {len(own)}"
        own.append((cells[2], cells[3], " ".join(sorted(names.get(n, n) for n in re.findall(r"\w+", cells[4]))), cells[5:]))
for lane in sorted(lanes):
    for task in lanes[lane]:
        print(lane, *task)
PYTHON
}

data="--data synthetic:45 --batch 14 --epochs 2 --warmup 1"
deep="--model mlp:12-9-8-7-6-3 $data"
gpt="--model gpt:2-2-8-8-20 $data"
tasks=0
while read -r options; do
    # shellcheck disable=SC2086
    {
        lockstep_ok run ${options/deep/$deep} --print-step
        by_lane out >own
        LOCKSTEP_PAGE=1 lockstep_ok run ${options/deep/$deep} --print-step
        by_lane out >page
    }
    expect "$options: the page of all has the tasks of its own" diff own page
    tasks=$((tasks + $(wc -l <own)))
done <<CONFIGURATIONS
deep --strategy single
deep --strategy single --gradient-accumulation-steps 3 --clip 1
deep --bucket-bytes 256 --strategy mirrored --devices 3
deep --strategy mirrored --devices 3 --reduce exact --clip 1
deep --bucket-bytes 256 --strategy mirrored --devices 2 --gradient-accumulation-steps 3 --gradient-accumulation-exchange each
deep --bucket-bytes 256 --strategy zero --devices 3 --zero-stage 1
deep --bucket-bytes 256 --strategy zero --devices 3 --zero-stage 2 --gradient-accumulation-steps 2
deep --bucket-bytes 256 --strategy zero --devices 3 --zero-stage 2 --gradient-accumulation-steps 2 --zero-accumulation breadth
deep --bucket-bytes 256 --strategy zero --devices 3 --zero-stage 3 --clip 1
deep --bucket-bytes 256 --strategy zero --devices 3 --zero-stage 3 --gradient-accumulation-steps 2 --reduce exact
deep --bucket-bytes 256 --strategy zero --devices 3 --zero-stage 3 --zero-reshard no --precision bf16
deep --strategy model-parallel --devices 3 --gradient-accumulation-steps 2 --clip 1
deep --strategy pipeline --devices 3
deep --strategy pipeline --devices 2 --pipeline-schedule interleaved --pipeline-microbatches 4
deep --strategy pipeline --devices 3 --pipeline-schedule zb-h1 --reduce exact
$gpt --strategy model-parallel --devices 2 --recompute full
$gpt --strategy pipeline --devices 2 --pipeline-schedule 1f1b --clip 1
$gpt --strategy tensor-parallel --devices 2
$gpt --strategy tensor-parallel --devices 2 --tensor-parallel-sequence yes
$gpt --strategy context-parallel --devices 2
CONFIGURATIONS
expect "there were tasks: $tasks" [ "$tasks" -gt 500 ]
finish
