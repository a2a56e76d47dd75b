#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A build with CUDA starts without CUDA: no library of CUDA is linked, and without a driver the program works, reports
# that, and refuses a GPU in one line. With a GPU, the same if CUDA_VISIBLE_DEVICES hides it. A driver that is too old
# or has no GPU is emulated; the program's run-time library calls it. Leaves out running on a GPU (test_gpu_*).
set -euo pipefail
. "$(dirname "$0")/lib.sh"
export CUDA_VISIBLE_DEVICES=

# refused [STATUS] WORDS ARGUMENT...: one line that matches the words; exit status 3 unless another is named.
refused() {
    local status=3 words
    [[ $1 != [0-9] ]] || { status=$1 && shift; }
    words=$1
    shift
    lockstep "$@"
    expect "refused in one line" one_line "$words"
    expect "exit status $status" [ "$code" -eq "$status" ]
}

if ldd "$LOCKSTEP" | grep -E 'libcuda|libcublas|libcudnn|libnccl'; then
    wrong "the program is linked to a library of CUDA"
fi
lockstep_ok --version
built=$(sed -n 's/^  CUDA  *//p' "$work/out")
lockstep_ok devices
reason=$(sed -n 's/^gpu  *//p' "$work/out")
case "$built/$reason" in
"not in this build/no GPU: this build has no CUDA") ;;
[0-9]*/"no GPU driver is installed" | [0-9]*/"the GPU driver is too old: "* | [0-9]*/"no GPU: "*) reason=${reason%%;*} ;;
*) wrong "CUDA is '$built', and devices says '$reason'" ;;
esac
refused "device: gpu:0: this device cannot be used (${reason:0:20}" run --model poly --results none --devices gpu:0
refused "device: gpu:0/0: this device cannot be used" run --model poly --results none \
    --strategy mirrored --devices gpu:0/0+gpu:0/1

# cuDNN and NCCL need GPUs; NCCL has one all-reduce with its own order. Without CUDA there are no GPUs to name.
convolutions="run --model cifar10 --data synthetic:64 --convolution cudnn"
lockstep_ok --version
case $(sed -n 's/^  cuDNN  *//p' out)/$built in
[0-9]*) refused 2 '--convolution: .*cudnn.*GPUs' $convolutions --devices cpu:0 ;;
*/[0-9]*) refused '--convolution: .*cudnn.*build' $convolutions ;;
*) refused 2 '--convolution: .*cudnn.*build' $convolutions ;;
esac
refused 'nccl' run --model poly --comm nccl
lockstep_ok list communicators
if grep -q '^ *nccl ' out; then
    refused 'cpu:0.*GPUs' run --strategy mirrored --devices 2 --comm nccl
    refused 2 '--comm.*nccl.*--reduce fast' run --strategy mirrored --devices 2 --comm nccl --reduce exact
    refused 2 '--comm.*nccl.*library' run --strategy mirrored --devices 2 --comm nccl --allreduce ring
fi

# An emulated driver that reports a version; every other call fails as without a GPU (CUDA_ERROR_NO_DEVICE, 100).
if [[ $built == [0-9]* ]] && command -v cc >/dev/null; then
    cat >driver.c <<'C'
#include <string.h>
static int version_of(int *version) { *version = VERSION; return 0; }
static int refuse(void) { return 100; }
int cuGetProcAddress_v2(const char *name, void **out, int version, unsigned long long flags, int *found)
{
    (void)version, (void)flags;
    *out = strcmp(name, "cuDriverGetVersion") == 0  ? (void *)version_of
           : strcmp(name, "cuGetProcAddress") == 0 ? (void *)cuGetProcAddress_v2
                                                    : (void *)refuse;
    if (found)
        *found = 0;
    return 0;
}
C
    for version in 12040 13020; do
        mkdir -p "driver$version"
        cc -shared -fPIC -w -DVERSION=$version -o "driver$version/libcuda.so.1" driver.c
    done
    export LD_LIBRARY_PATH=$work/driver12040
    lockstep_ok devices
    expect "an old driver is said to be so" grep -qx \
        'gpu  *the GPU driver is too old: it supports CUDA 12.4, but this build needs CUDA 13.0; driver: CUDA 12.4' out
    refused "device: gpu:0: this device cannot be used (the GPU driver is too old: it supports CUDA 12.4" run --model poly \
        --results none --devices gpu:0
    lockstep_ok run --model poly --steps 20 --results none --format jsonl
    rows "CPUs work beside an old driver" "r['result']['status'] == 'ok'"
    export LD_LIBRARY_PATH=$work/driver13020
    lockstep_ok devices
    expect "a driver without a GPU" grep -q '^gpu  *no GPU: no CUDA-capable device is detected' out
    refused "device: gpu:0: this device cannot be used (no GPU: no CUDA-capable device" micro copy --devices gpu:0
    unset LD_LIBRARY_PATH
else
    echo "no made-up driver: this build has no CUDA, or there is no cc"
fi
lockstep_ok run --model poly --steps 20 --results none --format jsonl # the default is a CPU
rows "on a CPU" "r['case']['devices'] == ['cpu:0'] and r['case']['memory'] == 'growth'"
finish
