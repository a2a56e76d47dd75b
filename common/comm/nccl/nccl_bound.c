/* SPDX-License-Identifier: MIT */
/* Calls in a thread that is waited for a while; see nccl_bound.h. Who is the last to leave the call
 * behind, thread or waiter, frees it. */
#include "common/comm/nccl/nccl_bound.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

typedef struct bound_call {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    ls_status (*call)(void *context);
    void *context;
    ls_status status;
    bool over, left; /* it is back; nobody waits for it */
} bound_call;

static void free_call(bound_call *c)
{
    pthread_mutex_destroy(&c->mutex);
    pthread_cond_destroy(&c->changed);
    free(c);
}

static void *run(void *context)
{
    bound_call *c = context;
    ls_status status = c->call(c->context);
    pthread_mutex_lock(&c->mutex);
    c->status = status;
    c->over = true;
    const bool left = c->left;
    pthread_cond_signal(&c->changed);
    pthread_mutex_unlock(&c->mutex);
    if (left) {
        ls_status_free(status);
        free_call(c);
    }
    return NULL;
}

/* The time of the system's clock after so many nanoseconds. */
static struct timespec after(uint64_t ns)
{
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    const uint64_t sum = (uint64_t)at.tv_nsec + ns;
    at.tv_sec += (time_t)(sum / 1000000000);
    at.tv_nsec = (long)(sum % 1000000000);
    return at;
}

ls_status ls_nccl_bound(ls_status (*call)(void *context), void *context, uint64_t longest_ns,
                        bool *done)
{
    pthread_t thread;
    const struct timespec end = after(longest_ns);
    bound_call *c = calloc(1, sizeof *c);
    *done = true;
    if (!c)
        return ls_fail_memory("NCCL", sizeof *c);
    *c = (bound_call){.call = call, .context = context};
    pthread_mutex_init(&c->mutex, NULL);
    pthread_cond_init(&c->changed, NULL);
    if (pthread_create(&thread, NULL, run, c) != 0) {
        free_call(c);
        return ls_fail(LS_CODE_MISSING, "NCCL", NULL, "no thread can be begun; see ulimit -u");
    }
    pthread_detach(thread);
    pthread_mutex_lock(&c->mutex);
    int error = 0;
    while (!c->over && !error)
        error = pthread_cond_timedwait(&c->changed, &c->mutex, &end);
    *done = c->over;
    c->left = !c->over;
    ls_status status = c->status;
    pthread_mutex_unlock(&c->mutex);
    if (*done)
        free_call(c);
    return status;
}
