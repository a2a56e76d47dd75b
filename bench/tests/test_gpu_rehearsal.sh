#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs ci/gpu.sh on fake GPUs (preset fake) or CPU devices: every part succeeds or says why it is left out; there is one
# archive and one summary, which has the tests that this build has. Without a GPU it refuses in one line. Leaves out the
# build (given here; test_gpu_pack_slow.sh does all of it), all figures, and what happens to a part that fails
# (test_gpu_script.sh). compute-sanitizer is made up.
set -euo pipefail
. "$(dirname "$0")/lib_gpu.sh"

gpu "$work/none"
expect "no GPU: status 3" [ "$code" -eq 3 ]
expect "no GPU: one line" grep -qx 'ci/gpu.sh: no GPU here: .*; --rehearse .*' err
expect "no GPU: no more than that" [ "$(wc -l <err)/$(wc -c <out)" = 1/0 ]
gpu --rehearse --only nope
expect "an unknown part: status 2, and the parts" eval '[ $code -eq 2 ] && grep -q "nope: unknown; parts are machine .*racecheck" err'

export LOCKSTEP_BUILD
LOCKSTEP_BUILD=$(dirname "$LOCKSTEP")
made_up compute-sanitizer <<'S'
while case "$1" in --*) [ "$1" = "${1#*=}" ] ;; *) false ;; esac; do shift 2; done
exec "$@"
S
gpu --rehearse "$work/all"
expect "all parts: status 0" [ "$code" -eq 0 ]
expect "two files, and no more" [ "$(ls all)" = $'SUMMARY.md\nresults.tar.gz' ]
expect "both are small" [ "$(cat all/* | wc -c)" -lt 1000000 ]
mkdir kept && tar -C kept -xzf all/results.tar.gz
expect "a state for each part" [ "$(cat kept/*.state | wc -l)" -eq 20 ]
expect "three are left out, with their reasons" [ "$(grep -hv '^ok' kept/{[!p],pr}*.state | cut -f 1,3)" = \
    $'left-out\ttest_fake_action rehearses it\nleft-out\tnothing of a rehearsal runs on a GPU\nleft-out\ttest_fake_nccl_mpi rehearses it' ]
expect "peers too, where they are not here" [ "$(grep -cE \
    '^(ok|left-out.*neither PyTorch nor JAX, with numpy, in this python3$)' kept/peers*.state)" = $'kept/peers-bf16.state:1\nkept/peers.state:1' ]
expect "the commit is said" grep -Eqx '[0-9a-f]{12}([+][0-9a-f]{8})?|unknown' kept/sources
expect "the summary says that it is no GPU's" grep -q "^# Rehearsal: nothing here is a GPU's, commit " all/SUMMARY.md
# A part that was interrupted goes on with the checkpoint that it has.
features=$LOCKSTEP_WORK/kept-rehearsal/features
rm "$features.state" "$(grep -l '"label": *"resumed"' "$(dirname "$features")"/rows/features/*.jsonl)"
gpu --rehearse --only features "$work/again"
expect "features: status 0" [ "$code" -eq 0 ]
expect "all but one case are done before" [ "$(grep -c 'done before' "$features.log")" -eq "$(($(grep -c '^+ lockstep' "$features.log") - 1))" ]
most=8 fake=
! grep -q '^gpu:0 ' <<<"$("$LOCKSTEP" devices)" || most=4 fake=yes
expect "what tells most comes first" eval 'sed -n 5,6p all/SUMMARY.md | paste -sd " " |
    grep -Eq "^- Gate: ([0-9]+) of \1 cases equal .*, on 1 to $most devices. - GPU against CPU: largest"'
words=('^| poly | pipeline | fast | yes | 1, 2 | bounded | equal |$' '^- mlp:784-16-10: [1-9][0-9]* exact rows, 1 digest(s)$'
    'GPU against CPU: largest relative difference' '^| large step / its products'
    '^| bf16-exact | .* | exact | ok |$' '^| launch | program |' '^| sendrecv | out of place, device |')
if [ -n "$fake" ]; then
    words+=('^| mlp:784-16-10 | towers | exact | yes | 1, 2 | exact | equal |$' '^| fraction=0.4 | 2 | gpu:0/0 |'
        '^test_gpu_device: passed' '^test_gpu_nccl: passed')
else
    words+=('poly, pipeline, devices [0-9,]*: .*placement: '
        '^| mlp:784-16-10 | towers | exact | yes | 1, 1, 2, 2, 4, 4, 8, 8 | exact | equal |$'
        '^| mlp:785-33-17-11 | pipeline | exact | yes | 1, 2, 4 | exact | equal |$'
        '^| mlp:785-33-17-11 | model-parallel | exact | yes | 1, 2, 4 | exact | equal |$'
        '^| small | mlp:784-128-10 | single | 1 | 24 | no |' '^| mlp | mlp:784-16-10 | 24 | ' '^| copy | from cpu:1 |'
        '^| allreduce | in place, device, direct | 4096 | 4 |' '^| fraction=0.4 | 8 | cpu:0 |')
    # Which tests there are, and how they end, depends on what is built.
    case $("$LOCKSTEP" --version | sed -n 's/^  CUDA  *//p') in
    [0-9]*) words+=('^test_gpu_device: skipped: no GPU here' '^test_cuda_blas: passed') ;;
    *) words+=('^test_cuda_blas: skipped: this build has no CUDA') ;;
    esac
    (cd "$LOCKSTEP_BUILD" && find test_gpu_* test_cuda_* -maxdepth 0 -type f -perm -u+x 2>/dev/null || true) | sort >built
    sed -nE 's/^(test_(gpu|cuda)_[a-z_]*): (passed|skipped): .*/\1/p' all/SUMMARY.md | sort >said
    expect "each test that is built has its line" cmp built said
fi
for word in "${words[@]}"; do
    expect "the summary has $word" grep -q -- "$word" all/SUMMARY.md
done
finish
