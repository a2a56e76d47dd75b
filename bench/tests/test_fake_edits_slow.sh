#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fake GPUs (common/device/fake) find wrong edits of the CUDA back end. Each line of the list is a file and a sed command,
# applied to a copy, which is compiled and linked before the library has it; an edit is found if the unit test of devices
# or a case fails. Fails if an edit changes nothing, or more than 2 are not found. Needs the build of preset `fake`, in
# $BUILD, by Ninja.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${BUILD:-$PWD/build-fake}
[ -e "$build/build.ninja" ] || { echo "skipped: $build: not built; cmake --preset fake"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export XDG_CACHE_HOME=${XDG_CACHE_HOME:-$dir}
ninja -C "$build" -t commands lockstep test_gpu_device >"$dir/commands"

# compile FILE COPY: as the build does; edited.o
compile() {
    local line
    line=$(grep -- " -c $PWD/$1$" "$dir/commands" | head -n 1)
    line=${line/ -c $PWD\/$1/ -c $2}
    line=$(sed -E 's/ -o [^ ]+/ -o '"${dir//\//\\/}"'\/edited.o/; s/ -MF [^ ]+//; s/ -MT [^ ]+//; s/ -MD//; s/-Werror//' <<<"$line")
    (cd "$build" && eval "$line") 2>"$dir/err"
}
# link PROGRAM: with edited.o first, so that the library's own is not taken.
link() {
    local line
    line=$(grep -- " -o $1 " "$dir/commands" | tail -n 1)
    line=${line/ -o $1 / -o $dir/$1 $dir/edited.o }
    (cd "$build" && eval "$line") 2>"$dir/err"
}
small="verify --model mlp:784-16-10 --batch 32 --data synthetic:320 --steps 2 --warmup 1"
runs() { # all that must pass
    timeout -s KILL 60 "$dir/test_gpu_device" >"$dir/out" 2>&1 || return 1
    # shellcheck disable=SC2086
    timeout -s KILL 90 "$dir/lockstep" $small --strategy mirrored --reduce exact --devices gpu:0+gpu:1 >"$dir/out" 2>&1 ||
        return 1
    # shellcheck disable=SC2086
    timeout -s KILL 90 "$dir/lockstep" $small --strategy towers,mirrored --devices gpu:0+gpu:1 --capture no >"$dir/out" 2>&1
}
edits=0 missed=0
while IFS='	' read -r file edit; do
    [ -n "$file" ] || continue
    case "$file" in ${ONLY:-*}) ;; *) continue ;; esac
    edits=$((edits + 1))
    sed -zE "$edit" "$file" >"$dir/$(basename "$file")"
    ! cmp -s "$dir/$(basename "$file")" "$file" || { echo "changes nothing: $file: $edit"; exit 1; }
    compile "$file" "$dir/$(basename "$file")" || { head -n 5 "$dir/err"; exit 1; }
    for program in lockstep test_gpu_device; do link $program || { head -n 5 "$dir/err"; exit 1; }; done
    if runs; then
        missed=$((missed + 1))
        echo "not found: $file: $edit"
    else
        printf 'found: %s: %s\n    %s\n' "$file" "$edit" "$(grep -m1 -E 'fake GPU|gpu emulation|^lockstep|ERROR|gate' "$dir/out" | cut -c1-150)"
    fi
done <<'EDITS'
common/device/cuda/cuda_queue.c	s/(memcpy\(\(char \*\)host \+ done, queue->pinned->staging, now\);)/\1/; s/LS_TRY\(ls_cuda_queue_sync\(base\)\);(\s+memcpy\(\(char \*\)host)/\1/
common/device/cuda/cuda_queue.c	s/LS_TRY\(ls_cuda_queue_sync\(base\)\);(\s+done \+= now;\s+\}\s+return LS_OK;\s+\}\s+\/\* Reports)/\1/
common/device/cuda/cuda_queue.c	s/memcpy\(\(char \*\)host \+ done, queue->pinned->staging, now\)/memcpy((char *)host + done, (const char *)device + done, now)/
common/device/cuda/cuda_queue.c	s/LS_TRY\(exchange_mode\(where, &mode\)\);\s+cudaError_t error/cudaError_t error/
common/device/cuda/cuda_queue.c	s/cudaStreamSynchronize\(queue->stream\);\s+cudaStreamDestroy/cudaStreamDestroy/
common/device/cuda/cuda_queue.c	s/cudaMemcpyPeerAsync\(to, to_gpu, from, from_gpu,/cudaMemcpyPeerAsync(to, from_gpu, from, to_gpu,/
common/device/cuda/cuda_queue.c	s/cudaMemcpyDeviceToDevice/cudaMemcpyHostToDevice/
common/device/cuda/cuda_queue.c	s/LS_TRY\(ls_cuda_use\(base->device\)\);\s+LS_TRY\(ls_cuda_await_window/LS_TRY(ls_cuda_await_window/
common/device/cuda/cuda_queue.c	s/queue->pinned->fault = LS_CUDA_FAULT_NONE;//
common/device/cuda/cuda_program.c	s/ls_status status = ls_cuda_use\(device\);/ls_status status = LS_OK;/
common/device/cuda/cuda_queue.c	s/cudaFreeHost\(queue->pinned\);/(void)0;/
common/device/cuda/cuda_device.c	s/return ls_cuda_check\(base->info\.text, "clear memory", cudaStreamSynchronize\(device->service\)\);/return LS_OK;/
common/device/cuda/cuda_device.c	s/return ls_cuda_check\(base->info\.text, "select the device", cudaSetDevice\(device->gpu\)\);/return LS_OK;/
common/device/cuda/cuda_device.c	s/cudaSetDevice\(device->gpu\)\);/cudaSetDevice(0));/
common/device/cuda/cuda_device.c	s/cudaFree\(memory\);//
common/device/cuda/cuda_device.c	s/cudaMemsetAsync\(memory, 0, bytes,/cudaMemsetAsync(memory, 0, bytes + 1048576,/
common/device/cuda/cuda_device.c	s/cudaStreamSynchronize\(cudaStreamPerThread\)/cudaSuccess/
common/device/cuda/cuda_device.c	s/cudaMemsetAsync\(memory, 0, bytes, device->service\)/(cudaError_t)(memset(memory, 0, bytes) == NULL)/; s/#include <stdlib.h>/#include <stdlib.h>\n#include <string.h>/
common/device/cuda/cuda_program.c	s/cudaStreamWaitEvent\(\(\(cuda_queue \*\)base\)->stream, \(\(cuda_event \*\)base_event\)->event, 0\)/(cudaError_t)(base_event == NULL)/
common/device/cuda/cuda_program.c	s/cudaEventRecord\(\(\(cuda_event \*\)base_event\)->event, \(\(cuda_queue \*\)base\)->stream\)/(cudaError_t)(base_event == NULL)/
common/device/cuda/cuda_queue.c	s/ls_status status = op->run\(op, base\);/size_t a, b; cudaMemGetInfo(\&a, \&b); ls_status status = op->run(op, base);/
common/device/cuda/cuda_program.c	s/cudaStreamEndCapture\(queue->stream, &graph\);/(cudaError_t)(graph != NULL);/
common/device/cuda/cuda_program.c	s/cudaStreamSynchronize\(program->queue->stream\);//
common/device/cuda/cuda_program.c	s/if \(graph\)\s+cudaGraphDestroy\(graph\);/if (program) cudaGraphExecDestroy(program->graph);/
common/device/cuda/cuda_program.c	s/i < times; i\+\+/i + 1 < times; i++/
common/device/cuda/cuda_watch.c	s/while \(\(error = look\(wait\)\) == cudaErrorNotReady\)/while ((error = look(wait)) == cudaErrorNotReady \&\& false)/
common/device/cuda/cuda_watch.c	s/cudaGetLastError\(\); \/\* "not ready" is not a failure \*\///
common/device/cuda/cuda_watch.c	s/\|\| ls_cuda_queue_captured\(&queue->base\)//
common/device/cuda/cuda_program.c	s/LS_TRY\(ls_cuda_not_capturing\(queue, "a capture (ls_program_begin) has already begun on this queue; call ls_program_end first"\)\);//
EDITS
echo "$((edits - missed)) of $edits wrong edits were found"
[ -n "${ONLY:-}" ] || [ "$edits" -ge 25 ] && [ "$missed" -le 2 ]
