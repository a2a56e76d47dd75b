#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checkpoints: saved under one layout and resumed under another, exact mode has the digest, the loss and the final state
# of single's unbroken run; fast mode, in the same layout, the unbroken run's bits. Files are read by a reader that has
# nothing of the program (read_checkpoint.py). What is refused; a signal. Leaves out kills and the matrix of all layouts
# and models (test_checkpoint_slow), processes (test_checkpoint_mpi).
set -euo pipefail
. "$(dirname "$0")/lib.sh"

once="--waterfall no --blocks 1 --gate-steps 2"
small="--model mlp:20-16-8-3 --data synthetic:70 --batch 16 --results none --format jsonl --eval-samples 0"
steps="--warmup 1 --steps 5"

read_checkpoint() { python3 -B "$library/read_checkpoint.py" "$@" >"$work/tensors"; }

# same_end WHAT: the last command has the digest, loss and last checkpoint's tensors of the run kept as `full`.
same_end() {
    rows "$1" 'r["equivalence"]["digest"] == old("full")[0]["equivalence"]["digest"]
        and r["train"]["loss_last"] == old("full")[0]["train"]["loss_last"] and r["result"]["status"] == "ok"'
}

# ---- A matrix: exact mode, Adam with a schedule, dropout, clip --------------------------------

exact="$small --reduce exact --lr-schedule cosine --lr-warmup-steps 2 --dropout 0.2 --clip 0.5"
layouts=(
    "--strategy single --gradient-accumulation-steps 2"
    "--strategy mirrored --devices 3"
    "--strategy zero --zero-stage 2 --devices 3"
    "--strategy zero --zero-stage 3 --devices 2"
    "--strategy pipeline --devices 2 --pipeline-microbatches 2"
    "--strategy ps --devices 2"
)
lockstep_ok run $exact $once $steps --save full.safetensors --checkpoint full
keep full
expect "the unbroken run's checkpoint has other parameters than --save" \
    read_checkpoint full/step-00000006 full.safetensors
for i in "${!layouts[@]}"; do
    lockstep_ok run $exact $once $steps ${layouts[i]} --checkpoint "saved$i" --checkpoint-interval 4
    same_end "a run with checkpoints differs: ${layouts[i]}"
    rows "group checkpoint: ${layouts[i]}" 'r["checkpoint"]["step"] == 6 and r["checkpoint"]["count"] == 2
        and r["checkpoint"]["bytes"] == 3 * 4 * r["case"]["parameters"] and r["checkpoint"]["blocked_ms"] > 0
        and "resumed_step" not in r["checkpoint"]'
    expect "files of ${layouts[i]}" read_checkpoint "saved$i/step-00000004"
done
for i in "${!layouts[@]}"; do
    from=$(((i + 2) % ${#layouts[@]}))
    lockstep_ok run $exact $once $steps ${layouts[i]} --resume-from-checkpoint "saved$from/step-00000004" \
        --checkpoint "on$i" --save on.safetensors
    same_end "saved by ${layouts[from]}, resumed by ${layouts[i]}"
    rows "resumed: group checkpoint" 'r["checkpoint"]["resumed_step"] == 4 and r["checkpoint"]["step"] == 6
        and r["case"]["steps"] == 2 and r["equivalence"]["steps"] == 2'
    expect "--save differs after ${layouts[i]}" cmp -s on.safetensors full.safetensors
    # the state, too: slots of all elements
    expect "final state differs after ${layouts[i]}" python3 - "on$i" full <<'P'
import json, sys
one, other = (json.load(open(f"{folder}/step-00000006/manifest.json")) for folder in sys.argv[1:])
for key in ("digest", "case", "step", "position"):
    assert one[key] == other[key], key
digests = [{name: (t["shape"], t["digest"]) for name, t in m["tensors"].items()} for m in (one, other)]
assert digests[0] == digests[1] and len(digests[0]) == 18
P
done
lockstep_ok verify $exact $steps --strategy mirrored --devices 2 --resume-from-checkpoint saved2/step-00000004
rows "verify goes on" 'r["equivalence"]["pass"] and r["equivalence"]["steps"] == 2
    and r["equivalence"]["digest"] == old("full")[0]["equivalence"]["digest"]'
lockstep_ok run $small --reduce exact --strategy zero --devices 2 --load saved3/step-00000004 --steps 0 --warmup 0 --save loaded
expect "--load of a folder" read_checkpoint saved3/step-00000004 loaded

# ---- Fast mode: the same layout has the unbroken run's bits ------------------------------------

for layout in "--strategy mirrored --devices 3" "--strategy zero --zero-stage 3 --devices 3"; do
    fast="$small $once --optimizer momentum:0.9 --epochs 2 --warmup 1 $layout"
    lockstep_ok run $fast --checkpoint fast --checkpoint-interval 3 --checkpoint-keep 2 # an epoch has 5 steps, one a tail
    keep full
    rows "epochs" 'r["checkpoint"]["step"] == 10 and r["checkpoint"]["count"] == 4'
    expect "--checkpoint-keep 2: $(ls fast)" test "$(ls fast | tr '\n' ' ')" = "step-00000009 step-00000010 "
    rm -r fast/step-00000010
    lockstep_ok run $fast --checkpoint fast --resume-from-checkpoint auto
    same_end "fast mode, $layout"
    rows "goes on in the second epoch" 'r["checkpoint"] == r["checkpoint"] and r["checkpoint"]["resumed_step"] == 9'
    lockstep_ok run $fast --checkpoint fast --resume-from-checkpoint auto # nothing is left
    rows "nothing left" 'r["result"]["status"] == "ok" and "time" not in r and r["checkpoint"] == {"resumed_step": 10}'
    rm -r fast
done

# ---- auto, leftovers, steps that a run has ------------------------------------------------------

mkdir -p begun/step-00000002 && : >begun/step-00000002/shard-00000.safetensors && : >begun/other
lockstep_ok run $small $steps --checkpoint begun --resume-from-checkpoint auto
rows "auto without a checkpoint begins" '"resumed_step" not in r["checkpoint"]'
expect "leftovers: $(ls begun)" test "$(ls begun | tr '\n' ' ')" = "other step-00000006 "
lockstep run $small $steps --checkpoint begun
expect "a folder with checkpoints" test "$code" -eq 2
expect "a folder with checkpoints" one_line "option --checkpoint: begun: this folder has a checkpoint already"
lockstep run $small --warmup 1 --steps 4 --resume-from-checkpoint begun
expect "beyond the end" test "$code" -eq 2
expect "beyond the end" one_line "option: --steps"

# ---- Refusals ------------------------------------------------------------------------------------

# refuse STATUS WORD OPTIONS..: of the run that `begun` has
refuse() {
    local status=$1 word=$2
    shift 2
    lockstep run $small $steps "$@"
    expect "status $status of: $*" test "$code" -eq "$status"
    expect "one line with '$word' of: $*" one_line "$word"
}
go="--resume-from-checkpoint begun"
refuse 2 'option: --seed' $go --seed 2
refuse 2 'option: --batch' $go --batch 8
refuse 2 'option: --lr:' $go --lr 0.5
refuse 2 'option: --clip' $go --clip 1
refuse 2 'option: --shuffle' $go --shuffle no
refuse 2 'option: --optimizer' $go --optimizer momentum
refuse 2 'option: --data' $go --data synthetic:71
refuse 2 'option: --model' $go --model mlp:20-16-9-3
refuse 2 'option: --dropout' $go --dropout 0.5
refuse 2 '--lr-schedule' $go --lr-schedule linear
refuse 2 'option: --checkpoint' --checkpoint no --strategy independent --devices 2
refuse 2 'option: --checkpoint' --checkpoint no --strategy local-sgd --devices 2
refuse 2 'option: --checkpoint' --checkpoint no --strategy gossip --devices 2
refuse 2 'option: --checkpoint' --checkpoint no --strategy ps --ps-mode async --devices 2
refuse 2 'option: --resume-from-checkpoint' $go --strategy gossip --devices 2
refuse 2 '--resume-from-checkpoint' --resume-from-checkpoint auto
refuse 2 '--checkpoint-interval' --checkpoint-interval 2
refuse 2 '--resume-from-checkpoint' $go --load full.safetensors
refuse 2 'option: --checkpoint' --checkpoint no --optimizer sgd,adam
refuse 3 'nothing' --resume-from-checkpoint nothing
refuse 3 'option --checkpoint' --checkpoint begun/other
expect "a refusal made a folder" test ! -e no
lockstep run $small --epochs 2 $go
expect "epochs after steps" one_line 'option: --epochs'
lockstep run $small --warmup 1 --steps 6 $go --lr-schedule constant
expect "another number of steps" test "$code" -eq 0
lockstep run $small $steps --lr-schedule linear --checkpoint falls
lockstep run $small --warmup 1 --steps 9 --lr-schedule linear --resume-from-checkpoint falls
expect "a schedule that ends elsewhere" one_line 'option --lr-schedule: linear: .*--lr-decay-steps 6'
lockstep_ok run $small --warmup 1 --steps 9 --lr-schedule linear --lr-decay-steps 6 --resume-from-checkpoint falls

# broken NAME PATTERN COMMAND: a copy of saved3 (a shard for each of two devices) that the command damages, from its
# folder, is refused with the file's name, and stays as it is.
broken() {
    rm -rf bad && cp -r saved3/step-00000004 bad
    (cd bad && bash -c "$3")
    cp -r bad kept_bad
    refuse 3 "$2" --dropout 0.2 --clip 0.5 --lr-schedule cosine --lr-warmup-steps 2 --resume-from-checkpoint bad
    expect "$1: the folder has changed" diff -r bad kept_bad
    rm -r kept_bad
}
edit() { echo "python3 -c 'import json; m = json.load(open(\"manifest.json\")); $1; json.dump(m, open(\"manifest.json\", \"w\"))'"; }
weight='m["tensors"]["exp_avg/dense0.weight"]'
broken "no manifest" 'option --resume-from-checkpoint: bad' 'rm manifest.json'
broken "cut manifest" 'bad/manifest.json: the manifest is not valid JSON' 'truncate -s -1 manifest.json'
broken "empty manifest" 'bad/manifest.json: the manifest.s format' 'echo {} >manifest.json'
broken "later version" 'bad/manifest.json: the checkpoint has version' "$(edit 'm["version"] = 2')"
broken "another step" 'bad/manifest.json: the checkpoint says that' "$(edit 'm["step"] += 1')"
broken "another position" 'bad/manifest.json: the checkpoint says that' "$(edit 'm["position"] += 1')"
broken "missing file" 'shard-00001.safetensors: is missing' 'rm shard-00001.safetensors'
broken "cut file" 'shard-00001.safetensors: this file is truncated' 'truncate -s -4 shard-00001.safetensors'
broken "longer file" 'shard-00000.safetensors: this file is longer' 'echo >>shard-00000.safetensors'
broken "changed file" 'shard-00000.safetensors: this file was changed' \
    'printf x | dd of=shard-00000.safetensors bs=1 seek=2000 conv=notrunc status=none'
broken "exchanged files" 'shard-0000[01].safetensors' \
    'mv shard-00000.safetensors x && mv shard-00001.safetensors shard-00000.safetensors && mv x shard-00001.safetensors'
broken "hole" 'exp_avg/dense0.weight.*do not cover' "$(edit "$weight[\"parts\"][0][\"count\"] -= 1")"
broken "overlap" 'exp_avg/dense0.weight.*overlap' "$(edit "$weight[\"parts\"] += $weight[\"parts\"]")"
broken "misshapen" 'exp_avg/dense0.weight.*shape' "$(edit "$weight[\"shape\"].reverse()")"
broken "missing tensor" 'exp_avg/dense0.weight.*missing' "$(edit "del $weight")"
broken "extra tensor" 'exp_avg/dense9.weight.*no tensor of this name' \
    "$(edit "m[\"tensors\"][\"exp_avg/dense9.weight\"] = $weight")"
broken "other digest" 'exp_avg/dense0.weight.*digest' "$(edit "$weight[\"digest\"] = \"0\" * 32")"
broken "other digest of all" 'manifest.json: the digest of the parameters differs' \
    "$(edit 'm["digest"] = "0" * 32')"
broken "a file elsewhere" 'the manifest names a file outside of the checkpoint.s folder' \
    "$(edit 'f = m["files"]; f["../x"] = f.pop("shard-00000.safetensors"); [p.update(file="../x") for t in m["tensors"].values() for p in t["parts"] if p["file"] == "shard-00000.safetensors"]')"

# ---- Failed writes -------------------------------------------------------------------------------

large="--model mlp:64-64-10 --data synthetic:70 --batch 16 --results none --format jsonl $once $steps"
(ulimit -f 16 && exec "$LOCKSTEP" run $large --checkpoint full_disk --checkpoint-interval 4 >out 2>err </dev/null) &&
    code=0 || code=$?
command_line="run --checkpoint full_disk, under ulimit -f 16"
expect "status of a failed write" test "$code" -eq 3
expect "leftovers of a failed write: $(ls full_disk)" test -z "$(ls full_disk)"
expect "a line on stderr" one_line 'shard-00000.safetensors: cannot be written: File too large'
rows "its row" 'r["result"]["status"] == "error" and "shard-00000.safetensors" in r["result"]["reason"]
    and "File too large" in r["result"]["reason"]'

# ---- A signal: the step ends and is written; the same line goes on -------------------------------

long="--model mlp:20-16-8-3 --data synthetic:70 --batch 16 --results none --format jsonl --eval-samples 0 --reduce exact
    $once --warmup 1 --steps 4000 --strategy mirrored --devices 2"
lockstep_ok run $long
keep full
for signal in INT TERM; do
    rm -rf stopped
    "$LOCKSTEP" run $long --checkpoint stopped --checkpoint-interval 10 --checkpoint-keep 2 >out 2>err </dev/null &
    program=$!
    until compgen -G 'stopped/*/manifest.json' >/dev/null || ! kill -0 "$program" 2>/dev/null; do sleep 0.02; done
    kill "-$signal" "$program"
    code=0
    wait "$program" || code=$?
    command_line="run --checkpoint stopped, SIG$signal"
    expect "status after SIG$signal" test "$code" -eq 130
    rows "the row after SIG$signal" 'r["result"]["status"] == "interrupted"
        and r["checkpoint"]["step"] == r["case"]["steps"] + r["case"]["warmup"] < 4001'
    expect "files after SIG$signal" read_checkpoint "$(ls -d stopped/* | tail -1)"
    lockstep_ok run $long --checkpoint stopped --resume-from-checkpoint auto
    same_end "after SIG$signal the same line goes on"
done
finish
