/* SPDX-License-Identifier: MIT */
/* Workers' requests to servers that serve as requests arrive, and the answers; see ps_serve.h. */
#include "common/base/grow.h"
#include "impl/ps/ps_serve.h"

typedef struct say_op {
    ls_op op;
    ls_ps_speaker *speaker;
    int to; /* rank of the server */
    ls_ps_kind kind;
} say_op;

static void abandon_say(ls_op *op)
{
    ls_comm *control = ((say_op *)op)->speaker->control;
    control->backend->abandon(control);
}

/* `decides`: the operation sets whether the worker is late. */
static ls_status add_say(say_op make, bool decides, ls_op_list *ops)
{
    enum { SAYS = 2, DECIDES = 5 };
    ls_ps_speaker *w = make.speaker;
    const ls_access touched[] = {{w->state, sizeof *w->state, false},
                                 {w->control, sizeof *w->control, true},
                                 {&w->late, sizeof w->late, true},
                                 {&w->newest, sizeof w->newest, true},
                                 {w->took, w->job->records * sizeof *w->took, true}};
    say_op *say;
    LS_TRY(ls_allocate("ps", &say, 1, sizeof *say));
    *say = make;
    say->op.use = LS_TIME_COMMUNICATION;
    ls_status status = ls_op_touches(&say->op, touched, decides ? DECIDES : SAYS);
    if (status)
        ls_op_free(&say->op);
    return status ? status : ls_op_list_add(ops, &say->op);
}

static ls_status tell(const say_op *say, ls_ps_message message)
{
    ls_comm *control = say->speaker->control;
    message.what = (ls_ps_event){(uint32_t)say->speaker->number, (uint32_t)say->kind};
    return control->backend->send(control, say->to, LS_PS_TAG, &message, sizeof message);
}

static ls_status run_say(ls_op *op, ls_queue *queue)
{
    const say_op *say = (const say_op *)op;
    ls_ps_message message = {.step = 0};
    (void)queue;
    if (say->kind != LS_PS_BYE) /* a BYE belongs to no step, and must not wait for one */
        message.step = say->speaker->state->step;
    return tell(say, message);
}

/* ---- Backup workers -------------------------------------------------------------------------- */

static void set_late(ls_ps_speaker *w, bool late)
{
    w->late = late;
    w->took[w->state->step % w->job->records] = !late;
}

static ls_status run_begin(ls_op *op, ls_queue *queue)
{
    ls_ps_speaker *w = ((say_op *)op)->speaker;
    (void)queue;
    set_late(w, w->state->step < w->newest);
    return LS_OK;
}

static ls_status run_ask(ls_op *op, ls_queue *queue)
{
    const say_op *say = (const say_op *)op;
    ls_ps_speaker *w = say->speaker;
    const uint64_t step = w->state->step;
    uint64_t version;
    LS_TRY(tell(say, (ls_ps_message){.step = step}));
    const uint64_t begin_ns = ls_queue_wait_begin(queue);
    LS_TRY(
        w->control->backend->receive(w->control, say->to, LS_PS_ANSWER, &version, sizeof version));
    ls_queue_wait_end(queue, begin_ns);
    if (version > step) {
        w->newest = version;
        set_late(w, true);
    }
    return LS_OK;
}

ls_status ls_ps_begin(ls_ps_speaker *w, ls_op_list *ops)
{
    return add_say((say_op){{.name = "ps.begin", .run = run_begin}, w, -1, LS_PS_PULL}, true, ops);
}

ls_status ls_ps_say(ls_ps_speaker *w, int server, ls_ps_kind kind, ls_op_list *ops)
{
    const bool asks = kind == LS_PS_PULL && w->job->ps.backups;
    const ls_op op = {.name = asks ? "ps.ask" : "ps.say",
                      .run = asks ? run_ask : run_say,
                      .abandon = abandon_say};
    return add_say((say_op){op, w, server, kind}, asks, ops);
}
