/* SPDX-License-Identifier: MIT */
/* Team: bound OpenMP threads, through libgomp's ABI, that flush denormals; see team.h. */
#include "common/device/cpu/team.h"

#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* libgomp's stable ABI; not every compiler finds omp.h. */
extern void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);
extern void omp_set_num_threads(int);
extern void omp_set_dynamic(int);

/* ThreadSanitizer does not see how libgomp starts and joins threads, so it is told. */
#if defined(__SANITIZE_THREAD__)
extern void __tsan_acquire(void *address);
extern void __tsan_release(void *address);
#else
static inline void __tsan_acquire(void *address)
{
    (void)address;
}
static inline void __tsan_release(void *address)
{
    (void)address;
}
#endif

typedef struct team_call {
    void (*body)(void *context, int part, int parts);
    void *context;
    char begun, done; /* addresses for ThreadSanitizer's annotations */
} team_call;

static void team_part(void *data)
{
    team_call *call = data;
    __tsan_acquire(&call->begun);
    call->body(call->context, omp_get_thread_num(), omp_get_num_threads());
    __tsan_release(&call->done);
}

void ls_team_run(int threads, void (*body)(void *context, int part, int parts), void *context)
{
    if (threads <= 1) {
        body(context, 0, 1);
        return;
    }
    team_call call = {.body = body, .context = context};
    __tsan_release(&call.begun);
    GOMP_parallel(team_part, &call, (unsigned)threads, 0);
    __tsan_acquire(&call.done);
}

bool ls_flush_denormals(void)
{
#if defined(__x86_64__)
    _mm_setcsr(_mm_getcsr() | 0x8040u); /* FTZ (bit 15) and DAZ (bit 6) */
    return true;
#elif defined(__aarch64__)
    uint64_t control;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("msr fpcr, %0" : : "r"(control | (UINT64_C(1) << 24)));
    return true;
#else
    return false;
#endif
}

typedef struct binding {
    const int *cores;
    int count;
    _Atomic bool flushed;
} binding;

static void bind_to(const int *cores, int count)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < count; i++)
        if (cores[i] >= 0 && cores[i] < CPU_SETSIZE)
            CPU_SET((size_t)cores[i], &set);
    if (CPU_COUNT(&set))
        sched_setaffinity(0, sizeof set, &set);
}

static void setup_part(void *context, int part, int parts)
{
    binding *b = context;
    (void)parts;
    /* Part 0 is the queue's own thread: threads that libgomp starts later inherit its cores. */
    if (part == 0)
        bind_to(b->cores, b->count);
    else
        bind_to(&b->cores[part % b->count], 1);
    if (!ls_flush_denormals())
        b->flushed = false;
}

bool ls_team_setup(const int *cores, int count, bool make_team)
{
    binding b = {cores, count, true};
    omp_set_dynamic(0);
    omp_set_num_threads(count);
    if (make_team) {
        ls_team_run(count, setup_part, &b);
    } else {
        bind_to(cores, count);
        b.flushed = ls_flush_denormals();
    }
    return b.flushed;
}
