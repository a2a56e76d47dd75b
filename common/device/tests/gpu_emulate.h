/* SPDX-License-Identifier: MIT */
/*
 * The parts of CUDA C++ that C++ lacks, for running the kernels of the cuda table on a CPU:
 * replaces gpu_device.cuh. The threads of a block are fibers of one host thread; each runs until a
 * barrier or an exchange, and continues when all others have reached it. Blocks, warps and lanes
 * run in an order that differs from launch to launch, from the seed LS_FAKE_SEED, so that
 * dependence on it shows; before a launch's first block, and a block in eight, shared memory gets
 * bytes of 0xff. A barrier that some thread of the block, or an exchange that some lane of the
 * warp, never reaches ends the test; so does the launch of a kernel that was not loaded before.
 * Launches of several host threads take turns. Left out: the hardware's memory (caches, fences,
 * banks), and time.
 */
/* gpu_device.cuh's guard: that file is not read after this one. */
#ifndef LS_COMMON_DEVICE_CUDA_GPU_DEVICE_CUH
#define LS_COMMON_DEVICE_CUDA_GPU_DEVICE_CUH

#include <algorithm>
#include <functional>
#include <mutex>
#include <numeric>
#include <set>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <ucontext.h>
#include <vector>

#include "common/device/fake/fake.h"
#include "common/device/fake/fake_random.h"

#define __global__
#define __device__
#define __shared__ static __attribute__((section("ls_shared")))
#define __launch_bounds__(...)

struct emulated_size {
    unsigned x;
};
static emulated_size threadIdx, blockIdx, blockDim, gridDim;

enum { FIBERS = 1024, FIBER_STACK = 256 * 1024, FIBER_WARP = 32 };
enum fiber_state { FIBER_RUNS, FIBER_AT_BARRIER, FIBER_AT_EXCHANGE, FIBER_AT_FLAG, FIBER_ENDED };

struct fiber {
    ucontext_t start;
    jmp_buf place;
    bool begun;
    fiber_state state;
    uint64_t shown[2];   /* its values in exchanges, used alternately */
    float factors[2][4]; /* so are its elements of a factor, in products on tensor cores */
    unsigned exchanges;
};

static fiber fibers[FIBERS];
static jmp_buf scheduler;
static std::function<void()> kernel_body;
static std::set<void (*)()> kernels_loaded;
static uint64_t flags_raised; /* so often, by all blocks */
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

/* ---- Order, and what shared memory holds before ------------------------------------------------
 */

/* The numbers below `count`, each once: in equal steps from one of them on. */
struct order {
    unsigned first, step, count;
    explicit order(unsigned all) : first(fake_random(all)), step(1 + fake_random(all)), count(all)
    {
        while (std::gcd(step, count) != 1)
            step++;
    }
    unsigned at(unsigned i) const
    {
        return (unsigned)((first + (uint64_t)i * step) % count);
    }
};

extern "C" {
extern char __start_ls_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_ls_shared[] __attribute__((weak, visibility("hidden")));
}

/* Also between variables, which a sanitizer would refuse. */
__attribute__((no_sanitize("address", "undefined"))) static void poison_shared()
{
#ifdef __SANITIZE_ADDRESS__
    for (volatile char *at = __start_ls_shared; at < __stop_ls_shared; at++)
        *at = (char)0xff;
#else
    memset(__start_ls_shared, 0xff, (size_t)(__stop_ls_shared - __start_ls_shared));
#endif
}

/* ---- Fibers ----------------------------------------------------------------------------------
 */

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
static const void *outer_stack;
static size_t outer_bytes;
#define LEAVE_STACK(to, bytes)                                                                     \
    void *kept = nullptr;                                                                          \
    __sanitizer_start_switch_fiber(&kept, to, bytes)
#define BACK_ON_STACK()  __sanitizer_finish_switch_fiber(kept, nullptr, nullptr)
#define FIRST_ON_STACK() __sanitizer_finish_switch_fiber(nullptr, &outer_stack, &outer_bytes)
#else
#define LEAVE_STACK(to, bytes) (void)0
#define BACK_ON_STACK()        (void)0
#define FIRST_ON_STACK()       (void)0
#endif

/* Switches from the current fiber, until the scheduler resumes it. */
static void leave(fiber_state state)
{
    fiber &self = fibers[threadIdx.x];
    self.state = state;
    LEAVE_STACK(outer_stack, outer_bytes);
    if (!_setjmp(self.place))
        _longjmp(scheduler, 1);
    BACK_ON_STACK();
}

static void fiber_main()
{
    FIRST_ON_STACK();
    for (;;) {
        kernel_body();
        leave(FIBER_ENDED);
    }
}

static void resume(unsigned thread)
{
    fiber &f = fibers[thread];
    if (!f.begun)
        f.start.uc_stack.ss_sp = malloc(FIBER_STACK);
    LEAVE_STACK(f.start.uc_stack.ss_sp, FIBER_STACK);
    if (_setjmp(scheduler)) {
        BACK_ON_STACK();
        return;
    }
    threadIdx.x = thread;
    f.state = FIBER_RUNS;
    if (f.begun)
        _longjmp(f.place, 1);
    f.begun = true;
    void *const stack = f.start.uc_stack.ss_sp;
    getcontext(&f.start);
    f.start.uc_stack.ss_sp = stack;
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
    const order lanes(last - first);
    do {
        for (unsigned i = 0; i < last - first; i++)
            resume(first + lanes.at(i));
    } while (last - first == FIBER_WARP && all_are(first, last, FIBER_AT_EXCHANGE));
    for (unsigned t = first; t < last; t++)
        if (fibers[t].state == FIBER_AT_EXCHANGE || fibers[t].state != fibers[first].state)
            emulation_fails("not all lanes of a warp came to an exchange or a barrier");
}

/* Runs all warps until each has ended or waits for all of its block; those that wait for a flag
 * again and again, while others raise flags or go on. */
static void run_warps(const order &warps)
{
    std::vector<bool> waits(warps.count, true);
    bool going = true;
    while (std::find(waits.begin(), waits.end(), true) != waits.end()) {
        if (!going)
            emulation_fails("a flag is never raised");
        const uint64_t raised = flags_raised;
        going = false;
        for (unsigned i = 0; i < warps.count; i++) {
            const unsigned warp = warps.at(i), start = warp * FIBER_WARP;
            if (!waits[warp])
                continue;
            run_warp(start, start + FIBER_WARP < blockDim.x ? start + FIBER_WARP : blockDim.x);
            waits[warp] = fibers[start].state == FIBER_AT_FLAG;
            going |= !waits[warp];
        }
        going |= flags_raised != raised;
    }
}

static void run_block()
{
    const unsigned threads = blockDim.x;
    const order warps((threads + FIBER_WARP - 1) / FIBER_WARP);
    do
        run_warps(warps);
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

static void run_blocks(unsigned blocks, unsigned threads, std::function<void()> body)
{
    const std::lock_guard<std::mutex> turn(one_at_a_time);
    kernel_body = std::move(body);
    gridDim.x = blocks;
    blockDim.x = threads;
    const order all(blocks);
    for (unsigned b = 0; b < blocks; b++) {
        blockIdx.x = all.at(b);
        if (!b || !fake_random(8))
            poison_shared();
        run_block();
    }
}

/* On a fake GPU (common/device/fake) the blocks run when its stream comes to them. */
template <typename Body>
static int put_blocks(void *stream, unsigned blocks, unsigned threads, const Body &body)
{
#ifdef LOCKSTEP_FAKE_GPU
    struct launch {
        unsigned blocks, threads;
        Body body;
    } now = {blocks, threads, body};
    ls_fake_work work = {"a kernel", nullptr, nullptr, &now, sizeof now, 0};
    work.run = [](void *context) {
        const launch *at = (const launch *)context;
        run_blocks(at->blocks, at->threads, at->body);
    };
    return ls_fake_enqueue(stream, &work);
#else
    (void)stream;
    run_blocks(blocks, threads, body);
    return 0;
#endif
}

template <typename... Parameters, typename... Arguments>
static int ls_gpu_launch(void *stream, unsigned blocks, unsigned threads,
                         void (*kernel)(Parameters...), Arguments... arguments)
{
    enum { INVALID_CONFIGURATION = 9 }; /* as CUDA numbers it */
    if (!blocks || !threads || threads > FIBERS)
        return INVALID_CONFIGURATION;
    {
        const std::lock_guard<std::mutex> turn(one_at_a_time);
        if (!kernels_loaded.count((void (*)())kernel))
            emulation_fails(
                "its kernel was not loaded before: on a GPU that could be in a capture");
        counted.launches++;
        if (counted.only)
            return 0;
    }
    return put_blocks(stream, blocks, threads, [=]() { kernel(arguments...); });
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

static inline void ls_gpu_sync_warp()
{
    leave(FIBER_AT_EXCHANGE);
}

#include "common/device/tests/gpu_emulate_cores.h"

static inline unsigned ls_gpu_anew(unsigned value)
{
    return value;
}

/* Copies that a thread has begun: made when it waits for them. */
struct copy_ahead {
    float *to;
    const float *from;
    size_t bytes;
};
static std::vector<copy_ahead> copies_ahead[FIBERS];

template <int BYTES> static inline void ls_gpu_copy_ahead(float *to, const float *from, bool there)
{
    if ((uintptr_t)to % BYTES || (there && (uintptr_t)from % BYTES))
        emulation_fails("a copy to shared memory is not aligned");
    memset(to, 0xff, BYTES); /* what was there may be gone from now on */
    copies_ahead[threadIdx.x].push_back({to, there ? from : nullptr, BYTES});
}

static inline void ls_gpu_await_copies()
{
    for (const copy_ahead &c : copies_ahead[threadIdx.x])
        c.from ? (void)memcpy(c.to, c.from, c.bytes) : (void)memset(c.to, 0, c.bytes);
    copies_ahead[threadIdx.x].clear();
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
