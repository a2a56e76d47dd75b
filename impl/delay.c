/* SPDX-License-Identifier: MIT */
/* Injected delays; see delay.h. CPU devices only: the queue's thread sleeps. */
#include "impl/delay.h"

#include "common/base/clock.h"
#include "common/base/grow.h"

typedef struct delay_op {
    ls_op op;
    uint64_t ns;
} delay_op;

static ls_status run_delay(ls_op *op, ls_queue *queue)
{
    (void)queue;
    ls_clock_sleep(((delay_op *)op)->ns);
    return LS_OK;
}

ls_status ls_delay_open(uint64_t ns, ls_op **out)
{
    delay_op *delay;
    LS_TRY(ls_allocate("delay", &delay, 1, sizeof *delay));
    *delay = (delay_op){.op = {.name = "delay", .run = run_delay, .use = LS_TIME_DELAY}, .ns = ns};
    *out = &delay->op;
    return LS_OK;
}
