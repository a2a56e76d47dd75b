#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checkpoints of processes: their files are those of as many threads; any number of processes or threads goes on from
# them, in exact mode with the digest of single's unbroken run; a signal to the launcher is answered by a checkpoint,
# and a killed rank leaves the earlier ones.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if without_ranks; then exit 77; fi

always="--model mlp:20-16-8-3 --data synthetic:70 --batch 16 --results none --format jsonl --eval-samples 0"
exact="$always --waterfall no --blocks 1 --gate-steps 2 --reduce exact --warmup 1"

# ranks N OPTIONS..: a command of N processes, as `lockstep` of one.
ranks() {
    local count=$1
    shift
    command_line="$* (on $count ranks)"
    code=0
    timeout -k 5 300 "$launcher" "$count" "$LOCKSTEP" "$@" >out 2>err </dev/null 8>&- 9<&- || code=$?
    collect_rows
}
same_end() {
    rows "$1" 'r["equivalence"]["digest"] == old("full")[0]["equivalence"]["digest"]
        and r["train"]["loss_last"] == old("full")[0]["train"]["loss_last"] and r["result"]["status"] == "ok"'
}

lockstep_ok run $exact --steps 5
keep full
ranks 3 run $exact --steps 5 --strategy zero --zero-stage 3 --checkpoint processes --checkpoint-interval 4
same_end "three processes write"
lockstep_ok run $exact --steps 5 --strategy zero --zero-stage 3 --devices 3 --checkpoint threads --checkpoint-interval 4
for file in threads/step-00000004/shard-*; do
    expect "threads and processes write other files: $file" cmp -s "$file" "processes/${file#threads/}"
done
expect "files of processes" python3 -B "$library/read_checkpoint.py" processes/step-00000004 >"$work/tensors"
ranks 2 run $exact --steps 5 --strategy pipeline --pipeline-microbatches 2 --resume-from-checkpoint \
    processes/step-00000004 --checkpoint pipeline
same_end "a pipeline of two processes goes on"
ranks 2 run $exact --steps 5 --strategy mirrored --checkpoint pipeline --resume-from-checkpoint auto
rows "nothing is left" 'r["result"]["status"] == "ok" and r["checkpoint"] == {"resumed_step": 6}'
lockstep_ok run $exact --steps 5 --resume-from-checkpoint processes/step-00000004
same_end "a single device goes on"
# Each of two processes checks some of the three files: what is wrong in any is refused by both, in one line.
for shard in 2 0 1; do
    rm -rf changed && cp -r processes/step-00000004 changed
    printf x | dd of="changed/shard-0000$shard.safetensors" bs=1 seek=2000 conv=notrunc status=none
    ranks 2 run $exact --steps 5 --strategy mirrored --resume-from-checkpoint changed
    expect "status of changed file $shard" test "$code" -eq 3
    expect "changed file $shard" test "$(ours err | grep -c "shard-0000$shard.safetensors: this file was changed")" = 1
    thorough || break
done
# Of two processes each has a folder of its own, and one's is changed: the other's check does not stand for it.
mkdir one two
cp -r processes/step-00000004 one/c
cp -r processes/step-00000004 two/c
for shard in 1 0; do
    cp processes/step-00000004/shard-* two/c
    printf x | dd of="two/c/shard-0000$shard.safetensors" bs=1 seek=2000 conv=notrunc status=none
    apart=(run $exact --steps 5 --strategy mirrored --resume-from-checkpoint c)
    cd one
    ranks 2 "${apart[@]}" : env -C "$work/two" "$LOCKSTEP" "${apart[@]}"
    cd ..
    expect "status of a file changed on rank 1, $shard" test "$code" -eq 3
    expect "one line: $(ours one/err)" test "$(ours one/err | grep -c "shard-0000$shard.safetensors: this file was changed")" = 1
    thorough || break
done
truncate -s -4 processes/step-00000004/shard-00002.safetensors
ranks 2 run $exact --steps 5 --strategy mirrored --resume-from-checkpoint processes/step-00000004
expect "a cut file" test "$code" -ne 0
expect "a cut file, by rank 0 alone" test "$(ours err | grep -c 'shard-00002.safetensors: this file is truncated')" = 1

# ---- A killed rank, then a signal to the launcher ------------------------------------------------

long="$exact --steps 1000 --strategy mirrored"
lockstep_ok run $exact --steps 1000
keep full
ranks 2 run $long --checkpoint died --checkpoint-interval 100 --inject kill=1:350
expect "a killed rank" test "$code" -ne 0
expect "after a killed rank: $(ls died)" test -f died/step-00000300/manifest.json
ranks 2 run $long --checkpoint died --resume-from-checkpoint auto
same_end "after a killed rank the others go on"
rows "from its last checkpoint" 'r["checkpoint"]["resumed_step"] == 300'

"$launcher" 2 "$LOCKSTEP" run $long --checkpoint stopped --checkpoint-interval 10 --inject delay=1:5ms >out 2>err </dev/null &
program=$!
until compgen -G 'stopped/*/manifest.json' >/dev/null || ! kill -0 "$program" 2>/dev/null; do sleep 0.02; done
kill -TERM "$program"
wait "$program" || true
command_line="run --checkpoint stopped, SIGTERM to the launcher"
expect "files after a signal" python3 -B "$library/read_checkpoint.py" "$(ls -d stopped/* | tail -1)" >"$work/tensors"
ranks 3 run $long --checkpoint stopped --resume-from-checkpoint auto
same_end "after a signal three ranks go on"
finish
