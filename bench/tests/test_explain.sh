#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What bounds a row, by `results show`: planted causes, each most of the step on any machine, of which at most one
# may be missed in three tries; in the fast tier one of each cause. Four need a program with hooks that slow down operations (LOCKSTEP_SLOW). Prints the lines shown for
# each.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
unset LOCKSTEP_SLOW
slow=yes
! LOCKSTEP_SLOW='?' "$LOCKSTEP" --version >/dev/null 2>&1 || slow=no

named=0
planted=0
declare -A seen=()
cause() { # CAUSE EVIDENCE OPTION SLOW OPTIONS: the words expected in the second and third line
    local cause=$1 evidence=$2 option=$3 slowed=$4
    shift 4
    if [ -n "$slowed" ] && [ $slow = no ]; then
        printf '%-28s not planted: this program has no LOCKSTEP_SLOW\n' "$cause"
        return
    fi
    thorough || [ -z "${seen[$cause]:-}" ] || return 0
    seen[$cause]=yes
    planted=$((planted + 1))
    # shellcheck disable=SC2086
    [[ " $* " == *" --data "* ]] || set -- --data synthetic:2000 --steps 10 "$@"
    for _ in 1 2 3; do
        ${slowed:+env LOCKSTEP_SLOW=$slowed} "$LOCKSTEP" run --warmup 3 --gate-steps 0 --quiet --results rows.db "$@" >out 2>err ||
            wrong "$cause: cannot run"
        lockstep_ok results show last --results rows.db
        ! grep -q "^Bound by $cause: " out || break
    done
    expect "$cause: lines of 80 columns" [ "$(sed '/^row /q' out | awk 'length > 80')" = "" ]
    # joins the lines that were wrapped
    awk '/^    [^ ]/ { printf " %s", substr($0, 5); next } { printf "%s%s", (NR > 1 ? "\n" : ""), $0 } END { print "" }' out |
        sed -n '/^Bound by/,/^Try/p' >said
    expect "$cause: three lines" [ "$(grep -cE '^(Bound by |Evidence: |Try -)' said)" -eq 3 ]
    printf '%-28s %s\n' "$cause" "$(head -n 1 said)"
    if grep -q "^Bound by $cause: [0-9]*% of the mean step" said; then
        named=$((named + 1))
        expect "$cause: its evidence" grep -qE "^Evidence: .*$evidence.*\.$" said
        expect "$cause: its option" grep -qE "^Try $option" said
    fi
}

large="--model mlp:784-4096-10"
# shellcheck disable=SC2086
{
    cause "a slow link" "links of latency=50us,bandwidth=20MB/s" "--batch 1024" "" \
        --strategy mirrored --devices 2 --link latency=50us,bandwidth=20MB/s
    cause "a small batch" "a device has 1 of the batch" "--batch 8" "" --model mlp --batch 1 --optimizer sgd
    cause "a slow rank" "rank 1 \(cpu:1\) waits .*--inject delay=1:15ms" "--strategy ps --ps-backup-workers 1" "" \
        --strategy mirrored --devices 2 --inject delay=1:15ms
    cause "a slow rank" "rank 1 \(cpu:1\) waits" "--strategy ps --ps-backup-workers 1" "" \
        --strategy ps --ranks 3 --inject delay=1:15ms
    cause "a slow rank" "rank 1 \(cpu:1\) waits .*--inject delay=1:15ms" "--strategy ps --ps-backup-workers 1" "" \
        --strategy independent --devices 2 --inject delay=1:15ms
    cause "one server" "while 2 workers wait" "--ps-servers 2" "" $large --strategy ps --ranks 3 --ps-servers 1 --batch 4
    cause "a slow rank" "rank 2 \(cpu:2\) waits" "--strategy ps --ps-backup-workers 1" "" \
        --strategy mirrored --cpu-devices 4 --devices 4 --inject delay=2:15ms
    cause "a slow link" "links of latency=20ms" "--batch 1024" "" --strategy ps --ranks 3 --link latency=20ms
    cause "a slow link" "links of latency=5ms" "--strategy mirrored" "" --strategy pipeline --devices 2 --link latency=5ms
    cause "a slow rank" "rank 1 \(cpu:1\) waits" "--strategy ps --ps-backup-workers 1" "" \
        --strategy mirrored --devices 2 --link bandwidth=100GB/s --inject delay=1:15ms
    cause "oversubscription" "8 devices share" "--devices [0-9]" "" \
        --model mlp:784-512-10 --strategy mirrored --cpu-devices 8 --devices 8
    cause "the loader" "gathering" "--shuffle no" gather:12ms --strategy mirrored --devices 2
    cause "the loader" "gathering" "--shuffle no" gather:12ms --strategy towers --devices 2
    cause "the loader" "gathering" "--shuffle no" gather:12ms --strategy pipeline --devices 2
    cause "the optimizer on one device" "variable device alone" "--strategy mirrored" optimizer:12ms --strategy towers --devices 2
    cause "the pipeline's bubble" "with 1 micro-batches for 3 stages" "--pipeline-microbatches 4" "" \
        --model mlp:784-512-512-512-10 --strategy pipeline --devices 3 --pipeline-microbatches 1
    cause "copies of towers" "fetch the variables" "--towers-staged yes" "" \
        $large --strategy towers --devices 2 --variable-device cpu:2 --cpu-devices 3 --batch 2 --optimizer sgd
    cause "exact mode" "times as long as in fast mode" "--reduce fast" "" --batch 64 --strategy single --reduce exact --micro-shards 64
    cause "small micro-batches" "a micro-batch has 2 samples, stages hand 128" "--pipeline-microbatches 8" "" \
        --strategy pipeline --devices 2 --batch 256 --pipeline-microbatches 128
    cause "parts of the model in turns" "2 devices have a part of the model each" "--strategy pipeline" dense_forward:12ms \
        --strategy model-parallel --devices 2
    cause "backward on one device" "the variable device alone goes backward, for 2 towers" "--colocate-gradients yes" \
        dense_backward:12ms --strategy towers --devices 2 --colocate-gradients no
    cause "the harness" "are no operation's" "--capture yes" "" --model poly --data synthetic --steps 500 --capture no
    cause "memory bandwidth" "MiB of parameters" "--batch 32" "" --model mlp:784-2048-2048-10 --batch 4 --optimizer sgd
}
lockstep_ok run --data synthetic:2000 --steps 4 --strategy towers --devices 2 --link latency=50us --waterfall no --results rows.db
lockstep_ok results show last --results rows.db
expect "no cause where it is not known where time went" eval '! grep -q "^Bound by" out'
# A replica's micro-batches share its slice of the batch, not the batch. The times are made up.
lockstep_ok run --data synthetic:2000 --steps 2 --gate-steps 0 --strategy hybrid --hybrid-inner pipeline --devices 4 \
    --cpu-devices 4 --batch 256 --pipeline-microbatches 32 --results none --format jsonl
python3 - <<'EOF' >made.jsonl
import json
row = json.loads(open("out").readline())
row["waterfall"] = dict.fromkeys(row["waterfall"], 0.0) | {"compute_ms": 1.0}
row["pipeline"] = {"bubble": 0.2, "bubble_equal": 0.1}
row["time"]["mfu"] = 0.01
row["provenance"]["oversubscribed"] = False
row.pop("device_load", None)
print(json.dumps(row))
EOF
lockstep_ok results import made.jsonl --results made.db
lockstep_ok results show last --results made.db
expect "micro-batches of a replica" eval 'tr -s "\n " " " <out | grep -q "a micro-batch has 4 samples, .*Try --pipeline-microbatches 8"'
# Whether fewer bytes pay: of made-up losses, times and bytes, over 20 steps, those of a tenth of mirrored's bytes and
# half its time a step: mirrored's last loss, 1.0, is reached at step 15; never; or at once, for more time than its own.
lockstep_ok run --data synthetic:2000 --steps 20 --gate-steps 0 --strategy mirrored --devices 2 --link bandwidth=1GB/s \
    --verbose --results none --format jsonl
cp out mirrored.jsonl
lockstep_ok run --data synthetic:2000 --steps 20 --gate-steps 0 --strategy local-sgd --devices 2 --link bandwidth=1GB/s \
    --local-sgd-outer sgd --verbose --results none --format jsonl
python3 - <<'EOF'
import json
def made(file, name, losses, time, sent):
    row = json.loads(open(file).readline())
    row["id"] = "20260101T000000Z-" + name
    row["train"]["losses"], row["time"]["step_ms"]["mean"], row["traffic"]["bytes_sent"] = losses, time, sent
    return json.dumps(row)
rows = [made("mirrored.jsonl", "00000000000a", [2.0] * 10 + [1.0] * 10, 10.0, 1000.0),
        made("out", "00000000000b", [2.0] * 5 + [1.0] * 15, 5.0, 100.0),
        made("out", "00000000000c", [2.0] * 19 + [0.5], 5.0, 100.0), made("out", "00000000000d", [1.0] * 20, 30.0, 100.0)]
open("pays.jsonl", "w").write("".join(row + "\n" for row in rows))
EOF
lockstep_ok results import pays.jsonl --results pays.db
while IFS='|' read -r row said; do
    lockstep_ok results show "$row" --results pays.db
    expect "pays: $row" eval 'tr -s "\n " " " <out | grep -qF " pays $said, next to row 20260101T000000Z-00000000000a"'
done <<'EOF'
20260101T000000Z-00000000000b|yes: mirrored's last loss 1.0000 in 0.38 of its time and 0.0750 of its bytes
20260101T000000Z-00000000000c|not within 20 steps: loss 1.8500 after 0.50 of the time, and mirrored ends at 1.0000
20260101T000000Z-00000000000d|no: mirrored's last loss 1.0000 in 1.50 of its time and 0.0500 of its bytes
EOF
echo "$named of $planted are named"
expect "all, or one less" [ "$named" -ge $((planted - 1)) ]
expect "causes were planted" [ "$planted" -ge 11 ]
finish
