/* SPDX-License-Identifier: MIT */
/*
 * Sums of ranges on a GPU: a thread computes all steps of an element in order, so an element's bits
 * depend on the steps only and threads do not wait for each other. Steps are passed as launch
 * arguments, MOST per launch; launches on a stream stay in order. Leaves out vector loads, since
 * ranges begin anywhere, and keeping sums in registers between steps: accumulators are read from
 * the first-level cache. Numbers of a wire (comm_wire.h) are summed in the same way, MOST blocks
 * per launch.
 */
#include "common/comm/gpu_sums.h"

#include "common/base/bf16_inline.h"
#include "common/device/cuda/gpu_launch.cuh"

namespace
{

enum { MOST = 64 };

struct sum_steps {
    ls_sum_step step[MOST];
};

__global__ void __launch_bounds__(LS_GPU_THREADS)
    sums(sum_steps steps, int step_count, int64_t count)
{
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride())
        for (int s = 0; s < step_count; s++) {
            const ls_sum_step &now = steps.step[s];
            now.to[i] = now.b ? now.a[i] + now.b[i] : now.a[i];
        }
}

struct wire_blocks {
    const uint16_t *block[MOST];
};

__global__ void __launch_bounds__(LS_GPU_THREADS)
    wire(wire_blocks blocks, int count_blocks, bool begun, int64_t count, float *values,
         uint16_t *out)
{
    for (int64_t i = ls_gpu_first(); i < count; i += ls_gpu_stride()) {
        float value = begun ? values[i] : 0;
        for (int d = 0; d < count_blocks; d++) {
            const float more = ls_float_of_bf16(blocks.block[d][i]);
            value = begun || d ? value + more : more;
        }
        if (count_blocks)
            values[i] = value;
        if (out)
            out[i] = ls_bf16_of_float(value);
    }
}

__global__ void __launch_bounds__(1) pulse(unsigned *word)
{
    ls_gpu_tell_host(word, *(volatile unsigned *)word + 1);
}

} // namespace

int ls_gpu_load_sums(void)
{
    return ls_gpu_load(sums, wire, pulse);
}

int ls_gpu_pulse(void *stream, unsigned *word)
{
    return ls_gpu_launch(stream, 1, 1, pulse, word);
}

int ls_gpu_sums(void *stream, const ls_sum_step *steps, size_t step_count, size_t count)
{
    for (size_t done = 0; done < step_count && count; done += MOST) {
        const size_t left = step_count - done;
        const int now = left < MOST ? (int)left : MOST;
        sum_steps some;
        for (int s = 0; s < now; s++)
            some.step[s] = steps[done + (size_t)s];
        const int error = ls_gpu_launch(stream, ls_gpu_blocks((int64_t)count, LS_GPU_THREADS),
                                        LS_GPU_THREADS, sums, some, now, (int64_t)count);
        if (error)
            return error;
    }
    return 0;
}

int ls_gpu_wire(void *stream, const uint16_t *const *blocks, int ranks, size_t count, float *values,
                uint16_t *out)
{
    int error = 0, done = 0;
    do {
        const int now = ranks - done < MOST ? ranks - done : MOST;
        wire_blocks some;
        for (int d = 0; d < now; d++)
            some.block[d] = blocks[done + d];
        const bool begun = done > 0 || ranks == 0;
        done += now;
        if (count)
            error = ls_gpu_launch(stream, ls_gpu_blocks((int64_t)count, LS_GPU_THREADS),
                                  LS_GPU_THREADS, wire, some, now, begun, (int64_t)count, values,
                                  done == ranks ? out : nullptr);
    } while (done < ranks && !error);
    return error;
}
