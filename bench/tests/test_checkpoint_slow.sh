#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checkpoints, at length: 50 kills while checkpoints are written, each of which leaves a complete one with which the same
# line goes on to the digest of the unbroken run; and for each model the matrix of layouts that save and that resume,
# with one digest: Adam, AdamW, momentum, RMSprop, moving averages, batch statistics, tied and split variables, epochs
# with smaller batches, ragged lengths.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

always="--results none --format jsonl --eval-samples 0 --waterfall no --blocks 1 --gate-steps 1 --reduce exact --quiet"
same_end() {
    rows "$1" 'r["equivalence"]["digest"] == old("full")[0]["equivalence"]["digest"]
        and r["train"]["loss_last"] == old("full")[0]["train"]["loss_last"] and r["result"]["status"] == "ok"'
}

# ---- Kills ---------------------------------------------------------------------------------------

long="--model mlp:64-128-10 --data synthetic:70 --batch 16 $always --warmup 1 --steps 20000 --strategy zero
    --zero-stage 2 --devices 2 --capture yes"
lockstep_ok run $long
keep full
newest_of() { (cd killed 2>/dev/null && compgen -G 'step-*/manifest.json' | sort | tail -1 | cut -d/ -f1) || true; }
for ((kills = 0; kills < 50; kills++)); do
    before=$(newest_of)
    "$LOCKSTEP" run $long --checkpoint killed --checkpoint-interval 3 --checkpoint-keep 3 \
        --resume-from-checkpoint auto >out 2>err </dev/null &
    program=$!
    until [ "$(newest_of)" != "$before" ] || ! kill -0 "$program" 2>/dev/null; do sleep 0.01; done
    sleep "0.0$((RANDOM % 100))"
    kill -KILL "$program" 2>/dev/null || true
    wait "$program" 2>/dev/null || true
    newest=$(newest_of)
    command_line="run --checkpoint killed, kill $kills"
    expect "a newer checkpoint before kill $kills" test "$newest" != "$before"
    expect "the newest checkpoint after kill $kills" \
        python3 -B "$library/read_checkpoint.py" "killed/$newest" >"$work/tensors"
done
lockstep_ok run $long --checkpoint killed --resume-from-checkpoint auto
same_end "after 50 kills"
rows "they were not in vain" 'r["checkpoint"]["resumed_step"] > 50'
expect "leftovers of kills: $(ls killed)" test -z "$(for f in killed/*; do [ -f "$f/manifest.json" ] || echo "$f"; done)"

# ---- Matrices ------------------------------------------------------------------------------------

# matrix NAME INTERVAL OPTIONS [LAYOUT]..: each layout goes on from what each has saved after INTERVAL steps.
matrix() {
    local name=$1 interval=$2 options="$always $3" from to folder
    shift 3
    lockstep_ok run $options
    keep full
    for from in "$@"; do
        folder=$(mktemp -d -p "$work")
        lockstep_ok run $options $from --checkpoint "$folder" --checkpoint-interval "$interval"
        same_end "$name, saved by $from: the run itself"
        for to in "$@"; do
            lockstep_ok run $options $to --resume-from-checkpoint "$folder/step-$(printf %08d "$interval")"
            same_end "$name, saved by $from, resumed by $to"
        done
        rm -r "$folder"
    done
}
replicated=("--strategy single" "--strategy mirrored --devices 3" "--strategy towers --devices 2"
    "--strategy zero --zero-stage 1 --devices 3" "--strategy zero --zero-stage 2 --devices 2"
    "--strategy zero --zero-stage 3 --devices 3" "--strategy hybrid --hybrid-inner zero --zero-stage 3 --devices 4"
    "--strategy ps --devices 2" "--strategy ps --ranks 4 --ps-servers 2"
    "--strategy mirrored --devices 2 --gradient-accumulation-steps 2")
placed=("--strategy model-parallel --devices 2" "--strategy pipeline --devices 2 --pipeline-microbatches 2"
    "--strategy hybrid --hybrid-inner pipeline --devices 4 --pipeline-microbatches 2")
matrix mlp 3 "--model mlp:784-24-16-10 --data synthetic:200 --batch 32 --warmup 2 --steps 6 --optimizer momentum:0.9" \
    "${replicated[@]}" "${placed[@]}"
matrix epochs 4 "--model mlp:784-24-16-10 --data synthetic:70 --batch 32 --warmup 1 --epochs 3 --optimizer rmsprop" \
    "${replicated[@]}"
matrix averages 2 "--model cifar10 --data synthetic:64 --batch 8 --warmup 0 --steps 3 --micro-shards 4" \
    "--strategy single" "--strategy zero --zero-stage 3 --devices 2" "${placed[1]}"
matrix statistics 2 "--model resnet:8 --data synthetic:64 --batch 8 --warmup 0 --steps 3 --micro-shards 4 --sync-bn yes" \
    "--strategy single" "--strategy mirrored --devices 2" "--strategy zero --zero-stage 2 --devices 2"
matrix gpt 3 "--model gpt:2-2-16-8-32 --data synthetic:64 --batch 8 --warmup 1 --steps 5 --micro-splits 2 --clip 1
    --lr-schedule cosine --lr-warmup-steps 2 --dropout 0.1 --lengths ragged" \
    "--strategy single" "--strategy zero --zero-stage 3 --devices 2" "--strategy tensor-parallel --devices 2" "${placed[1]}" \
    "--strategy hybrid --hybrid-inner tensor-parallel --devices 4 --hybrid-outer zero --zero-stage 3" \
    "--strategy hybrid --hybrid-inner tensor-parallel --hybrid-replicas 1 --hybrid-stages 2 --devices 4"
finish
