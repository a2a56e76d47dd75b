#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# ci/gpu.sh, on CPU devices: every part goes well or says why it is left out, rows and summary are
# there, a part that fails is reported and the others go on, and what is done is not done again.
# Without a GPU it refuses in one line. Leaves out: configuring and building (the build is given),
# and every figure.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
script=$SOURCE_DIR/ci/gpu.sh
export LOCKSTEP_PROGRAM_BUILT=yes

# gpu ARGUMENT...: the script's status in $code, what it says in out and err.
gpu() {
    command_line="(ci/gpu.sh) $*"
    code=0
    timeout 100 "$script" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

mkdir bin broken
printf '#!/bin/sh\nexit 9\n' >bin/nvidia-smi
chmod +x bin/nvidia-smi
PATH=$work/bin:$PATH gpu "$work/none"
expect "no GPU: status 3" [ "$code" -eq 3 ]
expect "no GPU: one line" grep -qx 'ci/gpu.sh: no GPU here: .*; --rehearse .*' err
expect "no GPU: no more than that" [ "$(wc -l <err)/$(wc -c <out)" = 1/0 ]
gpu --rehearse --only nope
expect "an unknown part: status 2, and the parts" eval '[ $code -eq 2 ] && grep -q "nope: unknown; parts are machine .*sanitizer" err'

LOCKSTEP_BUILD=$(dirname "$LOCKSTEP") gpu --rehearse "$work/all"
expect "all parts: status 0" [ "$code" -eq 0 ]
expect "a state for each part" [ "$(cat all/*.state | wc -l)" -eq 12 ]
expect "one is left out, with its reason" [ "$(grep -hv '^ok' all/[!p]*.state | cut -f 1,3)" = \
    $'left-out\tnothing of a rehearsal runs on a GPU' ]
expect "peers too, where they are not here" grep -Eq \
    '^(ok|left-out.*neither PyTorch nor JAX, with numpy and safetensors, in this python3$)' all/peers.state
expect "the summary says that it is no GPU's" grep -q '^# Rehearsal on CPU devices' all/SUMMARY.md
for words in '^| mlp:784-16-10 | towers | exact | yes | 1, 2, 4, 8 | exact | equal |$' \
    '^| poly | pipeline | fast | yes | 1, 2 | bounded | equal |$' \
    '^- mlp:784-16-10: [1-9][0-9]* exact rows, 1 digest(s)$' 'GPU against CPU: largest relative difference' \
    'poly, pipeline, devices [0-9,]*: .*placement: ' '^| small | mlp:784-128-10 | single | 1 | 24 | no |' \
    '^| large step / its products' '^| copy | from cpu:1 |' '^| launch | program |' \
    '^| allreduce | in place, device, direct | 4096 | 4 |' '^| sendrecv | out of place, device |' '^| fraction=0.4 | cpu:0 |' 'test_gpu_device'; do
    expect "the summary has $words" grep -q -- "$words" all/SUMMARY.md
done
expect "the folder is small" [ "$(tar -C all -cz . | wc -c)" -lt 1000000 ]

# A program whose gate fails; the parts after it run, and once it is mended only that one is redone.
printf '#!/bin/sh\n[ "$1" != verify ] || exit 1\nexec "%s" "$@"\n' "$LOCKSTEP" >broken/lockstep
chmod +x broken/lockstep
LOCKSTEP_BUILD=$work/broken gpu --rehearse --only devices,verify,memory "$work/part"
expect "a part failed: status 1" [ "$code" -eq 1 ]
expect "it is the failed one" grep -q '^failed.*not equal, or could not run: poly/single' part/verify.state
expect "the next one ran" grep -q '^ok' part/memory.state
expect "the summary counts it" grep -q '^1 of 3 parts failed or were cut' part/SUMMARY.md
# Mended, but slow from the third command on: what is cut is kept so far, and the summary is written,
# also where the script itself is told to end.
printf '#!/bin/sh\n[ "$1" != verify ] || { echo >>"%s/calls"; [ "$(wc -l <"%s/calls")" -lt 3 ] || sleep 60; }\nexec "%s" "$@"\n' \
    "$work" "$work" "$LOCKSTEP" >broken/lockstep
LOCKSTEP_GPU_SECONDS=8 LOCKSTEP_BUILD=$work/broken gpu --rehearse --only devices,verify,memory "$work/part"
expect "cut: status 1" [ "$code" -eq 1 ]
expect "cut: it says so" grep -q '^cut.*cut short after its .* goes on from there' part/verify.state
expect "cut: rows so far are there" [ "$(wc -l <part/verify.jsonl)" -ge 2 ]
rm part/verify.log
LOCKSTEP_BUILD=$work/broken "$script" --rehearse --only verify "$work/part" >out 2>err </dev/null &
child=$!
until grep '^+ lockstep' part/verify.log 2>/dev/null | grep -qv 'done before$'; do sleep 0.1; done
kill -TERM "$child"
code=0
wait "$child" || code=$?
expect "told to end: status 1" [ "$code" -eq 1 ]
expect "told to end: it says so, and sums up" eval 'grep -q "^cut.*told to end" part/verify.state && grep -q "^1 of 3 parts" out'
printf '#!/bin/sh\nexec "%s" "$@"\n' "$LOCKSTEP" >broken/lockstep
LOCKSTEP_BUILD=$work/broken gpu --rehearse --only devices,verify,memory "$work/part"
expect "what a cut part had done is not done again" [ "$(grep -c 'done before' part/verify.log)" -ge 1 ]
expect "and no row is there twice" [ "$(wc -l <part/verify.jsonl)" -eq "$(python3 -c '
import json; print(len({json.loads(line)["id"] for line in open("part/verify.jsonl")}))')" ]
expect "mended: status 0" [ "$code" -eq 0 ]
expect "what was done is not done again" [ "$(grep -c 'done before' err)" -eq 2 ]
printf '#!/bin/sh\nexit 3\n' >broken/lockstep
LOCKSTEP_BUILD=$work/broken gpu --rehearse --only devices,memory "$work/gone"
expect "a program that sees no device: status 3" [ "$code" -eq 3 ]
expect "what cannot be done says so" grep -q "^failed.*the part 'devices' failed" gone/memory.state
LOCKSTEP_GPU_SECONDS=1 LOCKSTEP_BUILD=$work/broken gpu --rehearse --only machine "$work/late"
expect "no time: status 1, and it says so" eval '[ $code -eq 1 ] && grep -q "^cut.*no time was left" late/machine.state'
finish
