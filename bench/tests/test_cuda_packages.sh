#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# cuBLAS, cuDNN and NCCL whose headers and libraries exist only in Python's nvidia-* packages: sources that include
# them compile, and everything else of CUDA is the toolkit's, although the packages have some of its headers, too.
# Uses a toolkit of links without the three, and a fake site-packages. Leaves out running any of it.
set -euo pipefail
. "$(dirname "$0")/lib.sh"
folder=$(sed -n 's/^CUDAToolkit_BIN_DIR:PATH=//p; s/^CMAKE_CUDA_COMPILER:[A-Z]*=\(.*\)\/nvcc$/\1/p' \
    "$(dirname "$LOCKSTEP")/CMakeCache.txt" | head -n 1)
[ -x "$folder/nvcc" ] || { echo "skipped: no nvcc in the build under test"; exit 77; }
toolkit=$(cd "$folder/.." && pwd -P)
libraries=$(find -L "$toolkit" -maxdepth 4 -name 'libcublasLt.so*' -print -quit)
headers=$(find -L "$toolkit" -maxdepth 4 -name cublasLt.h -print -quit)
[ -e "$libraries" ] && [ -e "$headers" ] || { echo "skipped: the toolkit here has no cuBLAS"; exit 77; }
libraries=$(dirname "$libraries")
headers=$(dirname "$headers")

# links FROM TO NAME...: creates links in TO to FROM's files of these names.
links() {
    local from=$1 to=$2
    shift 2
    mkdir -p "$to"
    (cd "$from" && find . -mindepth 1 -maxdepth 1 "$@" -printf '%P\0') |
        (cd "$to" && xargs -0 -I{} ln -s "$from/{}" .)
}
three=(-name 'cublas*' -o -name 'cudnn*' -o -name 'nccl*' -o -name 'libcublas*' -o -name 'libcudnn*' -o -name 'libnccl*')
links "$toolkit/bin" "$work/cuda/bin"
links "$headers" "$work/cuda/include" ! \( "${three[@]}" \)
links "$libraries" "$work/cuda/lib" ! \( "${three[@]}" \)
ln -s "$toolkit/nvvm" cuda/nvvm
ln -s lib cuda/lib64
mkdir -p "cuda/targets/$(uname -m)-linux"
ln -s ../../include ../../lib "cuda/targets/$(uname -m)-linux"
site=$work/site-packages
links "$headers" "$site/nvidia/cu13/include" -name 'cublas*'
links "$libraries" "$site/nvidia/cu13/lib" -name 'libcublas*'
for name in cudnn nccl; do
    links "$headers" "$site/nvidia/$name/include" -name "$name*"
    links "$libraries" "$site/nvidia/$name/lib" -name "lib$name*"
done
find "$site" -name '*.so' -delete # packages only have numbered names
for name in cuda_runtime_api.h cuda_fp16.h driver_types.h library_types.h cuComplex.h; do
    echo '#error "of the package, not of the toolkit"' >"$site/nvidia/cu13/include/$name"
done

# No folder on the default search paths may have those headers: neither /usr/local nor those next to PATH.
path=$(tr : '\n' <<<"$PATH" | grep -v -e "^$toolkit" -e /cuda | paste -sd :)
search=$(gcc -E -v -x c /dev/null 2>&1 >/dev/null | sed -n '/^#include </,/^End/s/^ //p' | grep -v ^/usr/local |
    sed 's/^/-isystem /' | paste -sd ' ')
code=0
env PATH="$path" CUDACXX="$work/cuda/bin/nvcc" CUDA_HOME="$work/cuda" PYTHONPATH="$site" CFLAGS="-nostdinc $search" \
    cmake -S "$SOURCE_DIR" -B with -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_TESTS=OFF -DLOCKSTEP_CUDA=ON \
    -DCMAKE_SYSTEM_IGNORE_PATH="/usr/local/include;/usr/local/lib" >log 2>&1 || code=$?
cp log err
expect "of the packages: configured" [ "$code" -eq 0 ]
expect "all three are found" grep -Eq 'cuBLAS [0-9]+\.[0-9]+\.[0-9]+, cuDNN [0-9.]+, NCCL [0-9.]+$' log
expect "in the packages" [ "$(grep -cE "LOCKSTEP_(CUBLAS|CUDNN|NCCL)_(INCLUDE_DIR|LIBRARY):[A-Z]*=$site/" \
    with/CMakeCache.txt)" -eq 6 ]
for name in kernel/cuda/cuda_blas kernel/cuda/conv/cuda_dnn comm/nccl/nccl_library device/cuda/cuda_device; do
    code=0 # alone, without its dependencies
    command=$(python3 -c '
import json, sys
print(next(c["command"] for c in json.load(open("with/compile_commands.json")) if c["file"].endswith(sys.argv[1])))' \
        "/common/$name.c")
    bash -c "mkdir -p '$work/with/CMakeFiles/liblockstep.dir/common/${name%/*}'; cd with && $command" 2>err || code=$?
    expect "$name.c compiles" [ "$code" -eq 0 ]
done
finish
