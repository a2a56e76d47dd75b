#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every planted bug of checkpoints (impl/tests/hooks.txt) is detected, and nothing without one: a run that saves and one
# that goes on must end in the state of a run that does neither, every tensor of it; and whenever a manifest is there,
# the checkpoint must be complete. Each line of the table is a bug and what shows it. Prints what detected it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

if LOCKSTEP_PLANT='?' "$LOCKSTEP" --version >/dev/null 2>&1; then
    echo "skipped: $LOCKSTEP is not built with LOCKSTEP_HOOKS; ci/test.sh builds it (preset hooks)"
    exit 77
fi
mlp="--model mlp:20-16-8-3 --data synthetic:70 --batch 16 --warmup 1 --steps 5 --lr-schedule cosine"
cat >table <<'TABLE'
moments_zeroed --strategy single
moments_swapped --strategy mirrored --devices 2
step_restarts --strategy single
data_restarts --strategy mirrored --devices 2
lr_restarts --strategy single
average_not_saved --strategy zero --zero-stage 2 --devices 2 --model cifar10
bn_statistics_not_saved --strategy single --model resnet:8 --sync-bn yes
padding_saved --strategy zero --zero-stage 2 --devices 3 --bucket-bytes 0
stage_offset_lost --strategy pipeline --devices 2 --pipeline-microbatches 2
own_share_only_loaded --strategy zero --zero-stage 1 --devices 2
manifest_first --strategy mirrored --devices 2
TABLE

# watched: at any moment a folder with a manifest is a complete checkpoint.
watched() {
    python3 -B - "$1" "$$" <<'P' &
import json, os, sys, time
folder, end = sys.argv[1], time.time() + 60
while time.time() < end and not os.path.exists(f"{folder}.done"):
    for step in os.listdir(folder) if os.path.isdir(folder) else []:
        try:
            text = open(f"{folder}/{step}/manifest.json").read()
        except OSError:
            continue
        if not text.endswith("}") and os.path.exists(f"{folder}/{step}/manifest.json"):
            open(f"{folder}.early", "w").close()
            sys.exit()
P
    watcher=$!
}

# detect NAME OPTIONS: sets $found, "" if the two runs end in the same state.
detect() {
    local options="$mlp --results none --format jsonl --eval-samples 0 --reduce exact --waterfall no --blocks 1 --quiet"
    case $2 in
        *cifar10* | *resnet*)
            options="--data synthetic:32 --batch 8 --warmup 0 --steps 5 --micro-shards 2 --results none --format jsonl
                --eval-samples 0 --reduce exact --waterfall no --blocks 1 --quiet" ;;
    esac
    options="$options --gate-steps 1 $2"
    found=
    rm -rf whole saved on saved.early saved.done
    LOCKSTEP_PLANT= lockstep run $options --checkpoint whole
    local last=$(ls whole)
    watched saved
    LOCKSTEP_PLANT=$1 lockstep run $options --checkpoint saved --checkpoint-interval 4
    [ "$code" -eq 0 ] || found="when it saves: $code"
    : >saved.done
    wait "$watcher" || true
    [ ! -e saved.early ] || found="a manifest before its files"
    LOCKSTEP_PLANT=$1 lockstep run $options --resume-from-checkpoint saved/step-00000004 --checkpoint on
    case $code in
        0) ;;
        1) found=${found:-gate: $(sed 's/.*"reason":"\([^"]*\).*/\1/' out | head -c 60)} ;;
        *) found=${found:-refused: $(head -c 90 err)} ;;
    esac
    [ -n "$found" ] || found=$(python3 - "whole/$last" "on/$last" 2>&1 <<'P' || true
import json, sys
a, b = (json.load(open(f"{folder}/manifest.json"))["tensors"] for folder in sys.argv[1:])
print("".join([f"state: {n}" for n in sorted(a) if b.get(n, {}).get("digest") != a[n]["digest"]][:1]), end="")
P
    )
}

planted
finish
