/* SPDX-License-Identifier: MIT */
/* Workers' requests to servers that serve as requests arrive, and the answers; see serve.h. */
#include "common/base/grow.h"
#include "impl/arrival/serve.h"

typedef struct request_op {
    ls_op op;
    ls_ps_client *client;
    int to; /* rank of the server */
    ls_ps_kind kind;
} request_op;

static void abandon_request(ls_op *op)
{
    ls_comm *control = ((request_op *)op)->client->control;
    control->backend->abandon(control);
}

/* `decides`: the operation sets whether the worker is late. */
static ls_status add_request(request_op make, bool decides, ls_op_list *ops)
{
    enum { READS = 2, DECIDES = 5 };
    ls_ps_client *w = make.client;
    const ls_access touched[] = {{w->state, sizeof *w->state, false},
                                 {w->control, sizeof *w->control, true},
                                 {&w->late, sizeof w->late, true},
                                 {&w->newest, sizeof w->newest, true},
                                 {w->took, w->job->records * sizeof *w->took, true}};
    request_op *request;
    LS_TRY(ls_allocate("ps", &request, 1, sizeof *request));
    *request = make;
    request->op.use = LS_TIME_COMMUNICATION;
    ls_status status = ls_op_touches(&request->op, touched, decides ? DECIDES : READS);
    if (status)
        ls_op_free(&request->op);
    return status ? status : ls_op_list_add(ops, &request->op);
}

static ls_status send_request(const request_op *request, ls_ps_message message)
{
    ls_comm *control = request->client->control;
    message.what = (ls_ps_event){(uint32_t)request->client->number, (uint32_t)request->kind};
    return control->backend->send(control, request->to, LS_PS_TAG, &message, sizeof message);
}

static ls_status run_request(ls_op *op, ls_queue *queue)
{
    const request_op *request = (const request_op *)op;
    ls_ps_message message = {.step = 0};
    (void)queue;
    if (request->kind != LS_PS_BYE) /* a BYE belongs to no step, and must not wait for one */
        message.step = request->client->state->step;
    return send_request(request, message);
}

/* ---- Backup workers -------------------------------------------------------------------------- */

static void set_late(ls_ps_client *w, bool late)
{
    w->late = late;
    w->took[w->state->step % w->job->records] = !late;
}

static ls_status run_begin(ls_op *op, ls_queue *queue)
{
    ls_ps_client *w = ((request_op *)op)->client;
    (void)queue;
    set_late(w, w->state->step < w->newest);
    return LS_OK;
}

static ls_status run_ask(ls_op *op, ls_queue *queue)
{
    const request_op *request = (const request_op *)op;
    ls_ps_client *w = request->client;
    const uint64_t step = w->state->step;
    uint64_t version;
    LS_TRY(send_request(request, (ls_ps_message){.step = step}));
    const uint64_t begin_ns = ls_queue_wait_begin(queue);
    LS_TRY(w->control->backend->receive(w->control, request->to, LS_PS_ANSWER, &version,
                                        sizeof version));
    ls_queue_wait_end(queue, begin_ns);
    if (version > step) {
        w->newest = version;
        set_late(w, true);
    }
    return LS_OK;
}

ls_status ls_ps_begin(ls_ps_client *w, ls_op_list *ops)
{
    return add_request((request_op){{.name = "ps.begin", .run = run_begin}, w, -1, LS_PS_PULL},
                       true, ops);
}

ls_status ls_ps_request(ls_ps_client *w, int server, ls_ps_kind kind, ls_op_list *ops)
{
    const bool asks = kind == LS_PS_PULL && w->job->ps.backups;
    const ls_op op = {.name = asks ? "ps.ask" : "ps.say",
                      .run = asks ? run_ask : run_request,
                      .abandon = abandon_request};
    return add_request((request_op){op, w, server, kind}, asks, ops);
}
