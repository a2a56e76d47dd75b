/* SPDX-License-Identifier: MIT */
/* Team: bound OpenMP threads, through libgomp's ABI, that flush denormals; see team.h. */
#include "common/device/cpu/team.h"

#include "common/base/signal.h"
#include "common/device/affinity.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* libgomp's stable ABI; not every compiler finds omp.h. */
extern void GOMP_parallel(void (*body)(void *), void *data, unsigned threads, unsigned flags);
extern int omp_get_thread_num(void);
extern int omp_get_num_threads(void);
extern int omp_get_max_threads(void);
extern int omp_get_thread_limit(void);
extern int omp_get_max_active_levels(void);
extern int omp_get_dynamic(void);
extern int omp_in_parallel(void);
extern void omp_set_num_threads(int);
extern void omp_set_dynamic(int);
extern void omp_set_max_active_levels(int);

/* ThreadSanitizer does not see how libgomp starts and joins threads, so the calls below tell it. */
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

enum { TEAM_MOST = 64 }; /* cores of a device */

/* A thread of a team needs some 24 KiB for oneDNN's products; the rest is for what calls them. */
enum { LEAST_STACK_BYTES = 128 << 10 };

/* Of `threads` threads only `came` come: says why. */
static ls_status refuse_team(int threads, int came)
{
    char where[64];
    const char *why = "do not call lockstep from an OpenMP parallel region";
    if (omp_get_thread_limit() < threads)
        why = "unset OMP_THREAD_LIMIT, or use fewer --cores-per-device";
    else if (omp_get_max_active_levels() < 1)
        why = "unset OMP_MAX_ACTIVE_LEVELS";
    else if (omp_get_dynamic())
        why = "unset OMP_DYNAMIC";
    else if (omp_get_max_threads() != threads)
        why = "do not call omp_set_num_threads on a device's thread";
    snprintf(where, sizeof where, "team of %d threads", threads);
    return ls_fail(LS_CODE_MISSING, "OpenMP", where,
                   "OpenMP starts only %d of this device's threads; %s", came, why);
}

typedef struct team_call {
    void (*body)(void *context, int part, int parts);
    void *context;
    int threads;
    int came;         /* set by part 0 */
    char begun, done; /* addresses for ThreadSanitizer's annotations */
} team_call;

static void team_part(void *data)
{
    team_call *call = data;
    __tsan_acquire(&call->begun);
    const int part = omp_get_thread_num(), parts = omp_get_num_threads();
    if (part == 0)
        call->came = parts;
    if (parts == call->threads)
        call->body(call->context, part, parts);
    __tsan_release(&call->done);
}

ls_status ls_team_run(int threads, void (*body)(void *context, int part, int parts), void *context)
{
    if (threads <= 1) {
        body(context, 0, 1);
        return LS_OK;
    }
    team_call call = {.body = body, .context = context, .threads = threads};
    __tsan_release(&call.begun);
    GOMP_parallel(team_part, &call, (unsigned)threads, 0);
    __tsan_acquire(&call.done);
    return call.came == threads ? LS_OK : refuse_team(threads, call.came);
}

ls_status ls_team_check(int threads)
{
    if (omp_get_max_threads() != threads)
        return refuse_team(threads, omp_get_max_threads());
    if (threads > 1 && (omp_get_max_active_levels() < 1 || omp_get_dynamic() || omp_in_parallel() ||
                        omp_get_thread_limit() < threads))
        return refuse_team(threads, 1);
    return LS_OK;
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

/* ---- Setting up ------------------------------------------------------------------------------ */

typedef struct binding {
    const int *cores;
    int count;
    _Atomic bool unflushed;
    _Atomic(ls_status) failure; /* of binding, a part's */
} binding;

static void setup_part(void *context, int part, int parts)
{
    binding *b = context;
    (void)parts;
    if (part > 0) { /* part 0 is bound to all: threads that libgomp starts later inherit its
                       cores */
        ls_status none = LS_OK, status = ls_affinity_bind(&b->cores[part % b->count], 1);
        if (status && !atomic_compare_exchange_strong(&b->failure, &none, status))
            ls_status_free(status);
    }
    if (!ls_flush_denormals())
        b->unflushed = true;
}

ls_status ls_team_refuse_thread(int error)
{
    return ls_fail(LS_CODE_MISSING, "thread", NULL,
                   "a thread cannot be created: %s; raise the limit on threads (ulimit -u, the "
                   "control group's pids.max) or memory (ulimit -v), or use fewer --devices",
                   strerror(error));
}

static void *wait_for_end(void *end)
{
    ls_signal_wait(end, 1, 0);
    return NULL;
}

/* Whether as many threads can be made as the team needs: libgomp ends the process if one cannot. */
static ls_status try_threads(int threads)
{
    pthread_t made[TEAM_MOST];
    ls_signal end = {0};
    int count = 0, error = 0;
    while (count < threads && count < TEAM_MOST && !error) {
        error = pthread_create(&made[count], NULL, wait_for_end, &end);
        count += !error;
    }
    ls_signal_post(&end, 1);
    for (int i = 0; i < count; i++)
        pthread_join(made[i], NULL);
    return error ? ls_team_refuse_thread(error) : LS_OK;
}

static void note_thread(void *context, int part, int parts)
{
    (void)parts;
    ((pthread_t *)context)[part] = pthread_self();
}

/* Whether the team's stacks are large enough. Its threads only tell who they are: there may be no
 * room for more. (Under some 20 KiB libgomp itself ends in a segmentation fault.) */
static ls_status check_stacks(int threads)
{
    pthread_t team[TEAM_MOST];
    LS_TRY(ls_team_run(threads, note_thread, team));
    for (int i = 0; i < threads; i++) {
        char where[64];
        pthread_attr_t attributes;
        size_t bytes = SIZE_MAX;
        if (pthread_getattr_np(team[i], &attributes) == 0) {
            pthread_attr_getstacksize(&attributes, &bytes);
            pthread_attr_destroy(&attributes);
        }
        snprintf(where, sizeof where, "stack of a thread of %zu KiB", bytes >> 10);
        if (bytes < LEAST_STACK_BYTES)
            return ls_fail(LS_CODE_MISSING, "OpenMP", where,
                           "this stack is too small; unset OMP_STACKSIZE and GOMP_STACKSIZE, and "
                           "raise ulimit -s to %d KiB or more",
                           LEAST_STACK_BYTES >> 10);
    }
    return LS_OK;
}

ls_status ls_team_setup(const int *cores, int count, bool make_team, bool *flushes)
{
    binding b = {.cores = cores, .count = count};
    omp_set_dynamic(0);
    omp_set_num_threads(count);
    if (omp_get_max_active_levels() < 1)
        omp_set_max_active_levels(1);
    LS_TRY(ls_affinity_bind(cores, count));
    if (make_team)
        LS_TRY(try_threads(count - 1));
    LS_TRY(check_stacks(make_team ? count : 1));
    LS_TRY(ls_team_run(make_team ? count : 1, setup_part, &b));
    *flushes = !b.unflushed;
    return b.failure;
}
