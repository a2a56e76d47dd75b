/* SPDX-License-Identifier: MIT */
/*
 * One call of a collective as a program, to be replayed. Each rank replays its own program. Joint
 * ranks (ls_comm_is_joint: GPUs) of a process share one, captured from the first one's queue, which
 * the others join by an event and which waits for each at the end.
 */
#include "bench/micro/micro_comm.h"

/* If no all-reduce ends within this time, NCCL has failed. */
static const uint64_t longest_ns = 20000000000u;

static ls_status build_sendrecv(const ls_collective *c, const ls_micro_member *me, ls_op_list *ops)
{
    const int rank = me->comm->rank;
    const ls_exchange exchange = {.to = (rank + 1) % c->ranks,
                                  .send = me->input,
                                  .send_count = c->count,
                                  .from = (rank + c->ranks - 1) % c->ranks,
                                  .receive = me->data,
                                  .receive_count = c->count};
    ls_op *op;
    LS_TRY(ls_comm_exchange(me->comm, &exchange, &op));
    return ls_op_list_add(ops, op);
}

/* canonical: one shard per rank. */
static ls_status build_call(const ls_collective *c, ls_micro_member *me, ls_op_list *ops)
{
    const ls_allreduce_args args = {.data = me->data,
                                    .count = c->count,
                                    .scratch = me->scratch,
                                    .shards = c->ranks,
                                    .sums = &me->data,
                                    .sum_count = 1};
    if (c->algorithm)
        return c->half == LS_HALVES ? c->algorithm->build(me->comm, &args, ops)
                                    : c->algorithm->half(me->comm, c->half, &args, ops);
    if (ls_collective_is(c, "broadcast"))
        return ls_broadcast_build(me->comm, 0, me->data, c->count, ops);
    return build_sendrecv(c, me, ops);
}

/* Out of place: copies the rank's input to the buffer on which the call works. */
static ls_status enqueue_input(const ls_collective *c, const ls_micro_member *me)
{
    const int rank = me->comm->rank;
    size_t first = 0, count = c->count;
    if (c->half == LS_ALL_GATHER) {
        first = c->offsets[rank];
        count = c->counts[rank];
    }
    if (!c->out_of_place || ls_collective_is(c, "sendrecv") ||
        (ls_collective_is(c, "broadcast") && rank != 0))
        return LS_OK;
    return ls_queue_copy(me->queue, me->data + first, me->device, me->input + first, me->device,
                         count * sizeof(float));
}

static ls_status capture_alone(const ls_collective *c, ls_micro_member *me)
{
    LS_TRY(ls_program_begin(me->queue));
    ls_status status = enqueue_input(c, me);
    if (!status)
        status = ls_op_list_enqueue(&me->ops, me->queue);
    return ls_status_first(status, ls_program_end(me->queue, &me->program));
}

static ls_status enqueue_joint(const ls_collective *c)
{
    ls_comm *comms[1024];
    ls_comm_list lists[1024];
    ls_queue *first = c->members->queue;
    LS_TRY(ls_queue_record(first, c->begun));
    for (int r = 1; r < c->local; r++)
        LS_TRY(ls_queue_wait(c->members[r].queue, c->begun));
    for (int r = 0; r < c->local; r++) {
        comms[r] = c->members[r].comm;
        lists[r] = (ls_comm_list){&c->members[r].ops, c->members[r].queue};
        LS_TRY(enqueue_input(c, &c->members[r]));
    }
    LS_TRY(ls_comm_enqueue(comms, lists, c->local));
    for (int r = 1; r < c->local; r++) {
        LS_TRY(ls_queue_record(c->members[r].queue, c->members[r].left));
        LS_TRY(ls_queue_wait(first, c->members[r].left));
    }
    return LS_OK;
}

ls_status ls_collective_capture(ls_collective *c)
{
    for (int r = 0; r < c->local; r++)
        LS_TRY(build_call(c, &c->members[r], &c->members[r].ops));
    if (!ls_comm_is_joint(c->members->comm)) {
        for (int r = 0; r < c->local; r++)
            LS_TRY(capture_alone(c, &c->members[r]));
        return LS_OK;
    }
    LS_TRY(ls_event_open(c->members->device, &c->begun));
    for (int r = 1; r < c->local; r++)
        LS_TRY(ls_event_open(c->members[r].device, &c->members[r].left));
    LS_TRY(ls_program_begin(c->members->queue));
    const ls_status status = enqueue_joint(c);
    return ls_status_first(status, ls_program_end(c->members->queue, &c->members->program));
}

void ls_collective_clear(ls_collective *c)
{
    for (int r = 0; r < c->local; r++) {
        ls_micro_member *me = &c->members[r];
        ls_program_close(me->program);
        me->program = NULL;
    }
    for (int r = 0; r < c->local; r++) {
        ls_event_close(c->members[r].left);
        c->members[r].left = NULL;
        ls_op_list_clear(&c->members[r].ops);
    }
    ls_event_close(c->begun);
    c->begun = NULL;
}

/* Calls the library's own wait first, if it could otherwise make a queue wait for ever. */
static ls_status sync_all(const ls_collective *c)
{
    ls_status status = LS_OK;
    for (int r = 0; r < c->local; r++) {
        const ls_micro_member *me = &c->members[r];
        if (me->comm->backend->wait)
            status = ls_status_first(
                status, me->comm->backend->wait(me->comm, me->queue, me->queue, longest_ns));
        status = ls_status_first(status, ls_queue_sync(me->queue));
    }
    return status;
}

ls_status ls_collective_time(const ls_collective *c, uint64_t times, uint64_t *ns)
{
    const ls_bench *bench = c->bench;
    uint64_t stamps[2];
    for (int r = 1; r < c->local; r++)
        if (c->members[r].program)
            LS_TRY(ls_program_launch(c->members[r].program, times));
    LS_TRY(ls_queue_enqueue(bench->queue, bench->stamp[0]));
    LS_TRY(ls_program_launch(c->members->program, times));
    LS_TRY(ls_queue_enqueue(bench->queue, bench->stamp[1]));
    LS_TRY(sync_all(c));
    LS_TRY(ls_queue_read(bench->queue, stamps, bench->stamps, sizeof stamps));
    *ns = stamps[1] - stamps[0];
    return LS_OK;
}
