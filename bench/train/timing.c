/* SPDX-License-Identifier: MIT */
/* Timing of operations on a device's queue; see timing.h. */
#include "bench/train/timing.h"

#include "common/base/grow.h"
#include "common/base/random/philox.h"

/* A GPU's timer may have a resolution of 1 us, and launching a program takes several. */
static const double shortest_ns = 200e3, shortest_on_gpu_ns = 2e6;
enum { MOST_ROUNDS = 1000, COPIES_ON_GPU = 32 };

static bool on_gpu(const ls_bench *bench)
{
    return ls_device_describe(bench->device)->name.kind == LS_DEVICE_GPU;
}

ls_status ls_bench_open(ls_device *device, ls_math math, const ls_kernel_table *table,
                        ls_bench *out)
{
    void *stamps;
    *out = (ls_bench){.device = device};
    LS_TRY(ls_queue_open(device, "bench", &out->queue));
    LS_TRY(table ? table->open(device, &out->kernels)
                 : ls_kernels_open(device, math, &out->kernels));
    LS_TRY(ls_device_allocate(device, LS_MEMORY_WORKSPACE, 2 * sizeof *out->stamps, &stamps));
    out->stamps = stamps;
    for (int i = 0; i < 2; i++)
        LS_TRY(out->kernels->table->stamp(
            out->kernels, &(ls_stamp_args){.time_ns = &out->stamps[i]}, &out->stamp[i]));
    return LS_OK;
}

void ls_bench_close(ls_bench *bench)
{
    ls_queue_close(bench->queue);
    ls_op_free(bench->stamp[0]);
    ls_op_free(bench->stamp[1]);
    ls_bench_release(bench);
    if (bench->stamps)
        ls_device_release(bench->device, bench->stamps);
    if (bench->kernels)
        bench->kernels->table->close(bench->kernels);
    *bench = (ls_bench){0};
}

static ls_status time_replays(void *context, uint64_t times, double *ns)
{
    const ls_bench *bench = context;
    uint64_t stamps[2];
    LS_TRY(ls_queue_enqueue(bench->queue, bench->stamp[0]));
    LS_TRY(ls_program_launch(bench->program, times));
    LS_TRY(ls_queue_enqueue(bench->queue, bench->stamp[1]));
    LS_TRY(ls_queue_sync(bench->queue));
    LS_TRY(ls_queue_read(bench->queue, stamps, bench->stamps, sizeof stamps));
    *ns = (double)(stamps[1] - stamps[0]);
    return LS_OK;
}

ls_status ls_bench_sample(ls_status (*time)(void *context, uint64_t replays, double *ns),
                          void *context, double shortest, int each, int rounds, ls_statistics *out)
{
    uint64_t times = 1;
    double ns = 0, samples[MOST_ROUNDS];
    for (;;) { /* also warms up: doubles until a sample is long enough */
        LS_TRY(time(context, times, &ns));
        if (ns >= shortest || times > UINT64_MAX / 4)
            break;
        times *= 2;
    }
    int n = rounds < MOST_ROUNDS ? rounds : MOST_ROUNDS;
    for (int i = 0; i < n; i++) {
        LS_TRY(time(context, times, &ns));
        samples[i] = ns / (double)times / each;
    }
    ls_statistics_compute(samples, (size_t)n, out);
    return LS_OK;
}

static ls_status capture(ls_bench *bench, ls_op *const *ops, size_t count)
{
    ls_status status = LS_OK;
    LS_TRY(ls_program_begin(bench->queue));
    for (size_t i = 0; i < count * (size_t)bench->copies && !status; i++)
        status = ls_queue_enqueue(bench->queue, ops[i % count]);
    return ls_status_first(status, ls_program_end(bench->queue, &bench->program));
}

static void close_program(ls_bench *bench)
{
    ls_program_close(bench->program);
    bench->program = NULL;
}

/* How many copies of the operations a program holds: one if they take long. */
static ls_status choose_copies(ls_bench *bench, ls_op *const *ops, size_t count)
{
    double ns = 0;
    bench->copies = 1;
    if (!on_gpu(bench))
        return LS_OK;
    ls_status status = capture(bench, ops, count);
    for (int i = 0; i < 2 && !status; i++) /* the first run warms up */
        status = time_replays(bench, 1, &ns);
    close_program(bench);
    bench->copies = ns < shortest_on_gpu_ns ? COPIES_ON_GPU : 1;
    return status;
}

ls_status ls_bench_time(ls_bench *bench, ls_op *const *ops, size_t count, int rounds,
                        ls_statistics *out)
{
    const double shortest = on_gpu(bench) ? shortest_on_gpu_ns : shortest_ns;
    LS_TRY(choose_copies(bench, ops, count));
    ls_status status = capture(bench, ops, count);
    if (!status)
        status = ls_bench_sample(time_replays, bench, shortest, bench->copies, rounds, out);
    close_program(bench);
    return status;
}

ls_status ls_bench_time_made(ls_bench *bench, ls_status made, ls_op **op, int rounds,
                             ls_statistics *out)
{
    const ls_status status = made ? made : ls_bench_time(bench, op, 1, rounds, out);
    ls_op_free(*op);
    *op = NULL;
    return status;
}

ls_status ls_bench_take(ls_bench *bench, size_t bytes, void **out)
{
    if (bench->held == LS_BENCH_MEMORY)
        return ls_fail_memory("measurement", bytes);
    LS_TRY(ls_device_allocate(bench->device, LS_MEMORY_WORKSPACE, bytes, out));
    bench->memory[bench->held++] = *out;
    return LS_OK;
}

void ls_bench_release(ls_bench *bench)
{
    while (bench->held > 0)
        ls_device_release(bench->device, bench->memory[--bench->held]);
}

ls_status ls_bench_floats(ls_bench *bench, size_t count, float **out)
{
    void *memory;
    ls_auto float *host = NULL;
    LS_TRY(ls_allocate("bench", &host, count, sizeof *host));
    ls_random_fill(ls_random_stream(1, "bench"), 0, count, -0.5f, 0.5f, host);
    LS_TRY(ls_bench_take(bench, count * sizeof *host, &memory));
    *out = memory;
    return ls_queue_write(bench->queue, memory, host, count * sizeof *host);
}
