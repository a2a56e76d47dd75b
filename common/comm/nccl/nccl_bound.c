/* SPDX-License-Identifier: MIT */
/* Calls in a thread with a time limit; see nccl_bound.h. The last of thread and waiter frees it. */
#include "common/comm/nccl/nccl_bound.h"

#include "common/base/signal.h"

#include <pthread.h>
#include <stdlib.h>

typedef struct bound_call {
    ls_signal over; /* the call has returned */
    ls_status (*call)(void *context);
    void *context;
    ls_status status;
    atomic_bool left; /* one of the two has finished with it */
} bound_call;

static void leave(bound_call *c)
{
    if (!atomic_exchange(&c->left, true))
        return;
    ls_status_free(c->status);
    free(c);
}

static void *run(void *context)
{
    bound_call *c = context;
    c->status = c->call(c->context);
    ls_signal_post(&c->over, 1);
    leave(c);
    return NULL;
}

ls_status ls_nccl_bound(ls_status (*call)(void *context), void *context, uint64_t longest_ns,
                        bool *done)
{
    pthread_t thread;
    bound_call *c = aligned_alloc(64, sizeof *c);
    *done = true;
    if (!c)
        return ls_fail_memory("NCCL", sizeof *c);
    *c = (bound_call){.call = call, .context = context};
    if (pthread_create(&thread, NULL, run, c) != 0) {
        free(c);
        return ls_fail(LS_CODE_MISSING, "NCCL", NULL,
                       "a thread could not be started; raise the limit on threads (ulimit -u)");
    }
    pthread_detach(thread);
    *done = ls_signal_wait_for(&c->over, 1, 0, longest_ns);
    ls_status status = LS_OK;
    if (*done) {
        status = c->status;
        c->status = LS_OK;
    }
    leave(c);
    return status;
}
