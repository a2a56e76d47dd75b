#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A build with CUDA needs nothing of it to start: no library of CUDA is linked in, and without a
# driver the program works, says so, and refuses a GPU in one line. With a GPU: the same where
# CUDA_VISIBLE_DEVICES hides it. Leaves out: anything on a GPU (test_gpu_*).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
export CUDA_VISIBLE_DEVICES=

# refused WORD ARGUMENT...: one line with the word, exit status 3.
refused() {
    local word=$1
    shift
    lockstep "$@"
    expect "refused in one line" one_line "$word"
    expect "exit status 3" [ "$code" -eq 3 ]
}

if ldd "$LOCKSTEP" | grep -E 'libcuda|libcublas|libcudnn|libnccl'; then
    wrong "the program is linked to a library of CUDA"
fi
lockstep_ok --version
built=$(sed -n 's/^  CUDA  *//p' "$work/out")
lockstep_ok devices
reason=$(sed -n 's/^gpu  *//p' "$work/out")
case "$built/$reason" in
"not in this build/none: this build has no CUDA") ;;
[0-9]*/"no driver" | [0-9]*/"driver too old: "* | [0-9]*/"no GPU: "*) reason=${reason%%;*} ;;
*) wrong "CUDA is '$built', and devices says '$reason'" ;;
esac
refused "device: gpu:0: does not exist here (${reason:0:20}" run --model poly --results none --devices gpu:0
refused "device: gpu:0/0: does not exist here" run --model poly --results none \
    --strategy mirrored --devices gpu:0/0+gpu:0/1
lockstep_ok run --model poly --steps 20 --results none --format jsonl # a CPU is the default
rows "on a CPU" "r['case']['devices'] == ['cpu:0'] and r['case']['memory'] == 'growth'"
finish
