/* SPDX-License-Identifier: MIT */
/*
 * The parts of CUDA C++ that C++ lacks, for running the kernels of the cuda table on a CPU:
 * replaces gpu_device.cuh. The threads of a block are fibers of one host thread; each runs until a
 * barrier or an exchange, and continues when all others have reached it. Blocks and threads run
 * forwards in one launch and backwards in the next, so that dependence on their order shows. A
 * barrier that some thread of the block, or an exchange that some lane of the warp, never reaches
 * ends the test; so does the launch of a kernel that was not loaded before. Launches of several
 * host threads take turns. Left out: the hardware's memory (caches, fences, banks), and time.
 */
/* gpu_device.cuh's guard: that file is not read after this one. */
#ifndef LS_COMMON_DEVICE_CUDA_GPU_DEVICE_CUH
#define LS_COMMON_DEVICE_CUDA_GPU_DEVICE_CUH

#include <functional>
#include <mutex>
#include <set>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)

struct emulated_size {
    unsigned x;
};
static emulated_size threadIdx, blockIdx, blockDim, gridDim;

enum { FIBERS = 1024, FIBER_STACK = 64 * 1024, FIBER_WARP = 32 };
enum fiber_state { FIBER_RUNS, FIBER_AT_BARRIER, FIBER_AT_EXCHANGE, FIBER_ENDED };

struct fiber {
    ucontext_t start;
    jmp_buf place;
    bool begun;
    fiber_state state;
    uint64_t shown[2]; /* its values in exchanges, used alternately */
    unsigned exchanges;
};

static fiber fibers[FIBERS];
static jmp_buf scheduler;
static std::function<void()> kernel_body;
static bool backwards;
static std::set<void (*)()> kernels_loaded;
static std::mutex one_at_a_time;

/* Launches so far, and whether they are only counted: then no kernel runs. */
static struct {
    uint64_t launches;
    bool only;
} counted;

[[noreturn]] static void emulation_fails(const char *why)
{
    fprintf(stderr, "gpu emulation: block %u of %u: %s\n", blockIdx.x, gridDim.x, why);
    abort();
}

/* Switches from the current fiber, until the scheduler resumes it. */
static void leave(fiber_state state)
{
    fiber &self = fibers[threadIdx.x];
    self.state = state;
    if (!_setjmp(self.place))
        _longjmp(scheduler, 1);
}

static void fiber_main()
{
    for (;;) {
        kernel_body();
        leave(FIBER_ENDED);
    }
}

static void resume(unsigned thread)
{
    fiber &f = fibers[thread];
    if (_setjmp(scheduler))
        return;
    threadIdx.x = thread;
    f.state = FIBER_RUNS;
    if (f.begun)
        _longjmp(f.place, 1);
    f.begun = true;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = malloc(FIBER_STACK);
    f.start.uc_stack.ss_size = FIBER_STACK;
    makecontext(&f.start, fiber_main, 0);
    setcontext(&f.start);
}

static bool all_are(unsigned first, unsigned last, fiber_state state)
{
    for (unsigned t = first; t < last; t++)
        if (fibers[t].state != state)
            return false;
    return true;
}

/* Runs threads [first, last) until each has ended or waits for all of its block. */
static void run_warp(unsigned first, unsigned last)
{
    do {
        for (unsigned i = 0; i < last - first; i++)
            resume(backwards ? last - 1 - i : first + i);
    } while (last - first == FIBER_WARP && all_are(first, last, FIBER_AT_EXCHANGE));
    for (unsigned t = first; t < last; t++)
        if (fibers[t].state == FIBER_AT_EXCHANGE || fibers[t].state != fibers[first].state)
            emulation_fails("not all lanes of a warp came to an exchange or a barrier");
}

static void run_block()
{
    const unsigned threads = blockDim.x;
    do
        for (unsigned first = 0; first < threads; first += FIBER_WARP) {
            const unsigned start =
                backwards ? (threads - 1 - first) / FIBER_WARP * FIBER_WARP : first;
            run_warp(start, start + FIBER_WARP < threads ? start + FIBER_WARP : threads);
        }
    while (all_are(0, threads, FIBER_AT_BARRIER));
    if (!all_are(0, threads, FIBER_ENDED))
        emulation_fails("not all threads of a block came to a barrier");
}

static inline void __syncthreads()
{
    leave(FIBER_AT_BARRIER);
}

static inline void __threadfence()
{
}

template <typename T> static inline T atomicAdd(T *place, T value)
{
    const T before = *place;
    *place += value;
    return before;
}

template <typename... Parameters, typename... Arguments>
static int ls_gpu_launch(void *, unsigned blocks, unsigned threads, void (*kernel)(Parameters...),
                         Arguments... arguments)
{
    enum { INVALID_CONFIGURATION = 9 }; /* as CUDA numbers it */
    if (!blocks || !threads || threads > FIBERS)
        return INVALID_CONFIGURATION;
    const std::lock_guard<std::mutex> turn(one_at_a_time);
    if (!kernels_loaded.count((void (*)())kernel))
        emulation_fails("its kernel was not loaded before: on a GPU that could be in a capture");
    counted.launches++;
    if (counted.only)
        return 0;
    kernel_body = [=]() { kernel(arguments...); };
    gridDim.x = blocks;
    blockDim.x = threads;
    for (unsigned b = 0; b < blocks; b++) {
        blockIdx.x = backwards ? blocks - 1 - b : b;
        run_block();
    }
    backwards = !backwards;
    return 0;
}

template <typename... Parameters> static int ls_gpu_load_kernel(void (*kernel)(Parameters...))
{
    const std::lock_guard<std::mutex> turn(one_at_a_time);
    kernels_loaded.insert((void (*)())kernel);
    return 0;
}

template <typename T> static inline T ls_gpu_exchange(T value, int mask)
{
    const unsigned self = threadIdx.x, turn = fibers[self].exchanges++ % 2;
    memcpy(&fibers[self].shown[turn], &value, sizeof value);
    leave(FIBER_AT_EXCHANGE);
    memcpy(&value, &fibers[self ^ (unsigned)mask].shown[turn], sizeof value);
    return value;
}

static inline double ls_gpu_fetch(const double *from)
{
    return *from;
}

static inline void ls_gpu_tell_host(unsigned *word, unsigned value)
{
    *word = value;
}

static inline uint64_t ls_gpu_now()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
