/* SPDX-License-Identifier: MIT */
/* Towers whose backward runs on the variable device; see towers_apart.h. */
#include "impl/towers_apart.h"

#include <stdlib.h>

static ls_status open_events(const ls_replicated *run, int number, ls_apart *out, int which)
{
    const ls_slice *slice = run->members[number].slice[which];
    const ls_slice_part *part;
    size_t pieces = 0;
    for (size_t i = 0; slice && (part = ls_slice_part_at(slice, i)); i++)
        pieces += part->net != NULL;
    out->pieces[which] = calloc(pieces + 1, sizeof *out->pieces[which]);
    if (!out->pieces[which])
        return ls_fail_memory("towers", pieces * sizeof *out->pieces[which]);
    out->count[which] = pieces;
    for (size_t i = 0; i < pieces; i++) {
        LS_TRY(ls_event_open(run->members[number].replica->device, &out->pieces[which][i].handed));
        LS_TRY(ls_event_open(out->shadow.replica->device, &out->pieces[which][i].used));
    }
    return LS_OK;
}

ls_status ls_apart_open(const ls_replicated *run, int number, ls_apart *out)
{
    const ls_replica *tower = run->members[number].replica;
    const ls_replica *holder = run->members[run->holder].replica;
    const ls_replica_options place = {.job = run->base.job,
                                      .device = holder->device,
                                      .number = number,
                                      .rows = run->base.job->batch,
                                      .sums = tower->sums,
                                      .no_optimizer = true,
                                      .variables_of = holder};
    LS_TRY(ls_replica_open(&place, &out->shadow.replica));
    LS_TRY(ls_replicated_open_slices(run->base.job, number, &out->shadow));
    LS_TRY(open_events(run, number, out, LS_FULL));
    return open_events(run, number, out, LS_TAIL);
}

void ls_apart_close(ls_apart *apart)
{
    for (int b = 0; b < LS_BATCHES; b++) {
        for (size_t i = 0; i < apart->count[b]; i++) {
            ls_event_close(apart->pieces[b][i].handed);
            ls_event_close(apart->pieces[b][i].used);
        }
        free(apart->pieces[b]);
    }
    ls_member_close(&apart->shadow);
}

/* Copies what backward reads from the tower's net to the shadow's. */
static ls_status hand_over(const ls_replica *tower, const ls_replica *shadow,
                           const ls_net *const nets[2], ls_traffic *sent)
{
    void *from, *to;
    size_t bytes;
    for (size_t i = 0; ls_net_kept(nets[0], i, &from, &bytes); i++) {
        ls_net_kept(nets[1], i, &to, &bytes);
        LS_TRY(ls_queue_copy(tower->queue, to, shadow->device, from, tower->device, bytes));
        sent->messages_sent++;
        sent->bytes_sent += bytes;
    }
    return LS_OK;
}

/* Piece number `at`: pieces take turns with the shadow's memory. */
static ls_status put_piece(ls_apart *apart, const ls_replica *tower, ls_net *const nets[2],
                           struct ls_apart_piece *at, ls_traffic *sent)
{
    const ls_replica *shadow = apart->shadow.replica;
    LS_TRY(ls_net_forward(nets[0], tower->queue));
    if (at != apart->pieces[LS_FULL] && at != apart->pieces[LS_TAIL])
        LS_TRY(ls_queue_wait(tower->queue, at[-1].used));
    LS_TRY(hand_over(tower, shadow, (const ls_net *const[]){nets[0], nets[1]}, sent));
    LS_TRY(ls_queue_record(tower->queue, at->handed));
    LS_TRY(ls_queue_wait(shadow->queue, at->handed));
    LS_TRY(ls_net_backward(nets[1], shadow->queue, NULL, NULL));
    return ls_queue_record(shadow->queue, at->used);
}

ls_status ls_apart_put(ls_apart *apart, const ls_member *tower, int which, ls_traffic *sent)
{
    const ls_slice_part *part;
    struct ls_apart_piece *next = apart->pieces[which];
    LS_TRY(ls_slice_put_delay(tower->slice[which]));
    for (size_t i = 0; (part = ls_slice_part_at(tower->slice[which], i)); i++) {
        const ls_slice_part *behind = ls_slice_part_at(apart->shadow.slice[which], i);
        if (part->net) {
            LS_TRY(ls_op_list_put(&part->ops, tower->replica->queue));
            LS_TRY(put_piece(apart, tower->replica, (ls_net *const[]){part->net, behind->net},
                             next++, sent));
            continue;
        }
        LS_TRY(ls_op_list_put(&part->loss, tower->replica->queue));
        LS_TRY(ls_op_list_put(&behind->ops, apart->shadow.replica->queue));
    }
    return ls_slice_put_fault(apart->shadow.slice[which]);
}

ls_traffic ls_apart_formula(const ls_apart *apart)
{
    const ls_slice_part *part;
    ls_traffic sum = {0};
    void *memory;
    size_t bytes;
    for (size_t i = 0; (part = ls_slice_part_at(apart->shadow.slice[LS_FULL], i)); i++) {
        for (size_t k = 0; part->net && ls_net_kept(part->net, k, &memory, &bytes); k++) {
            sum.messages_sent++;
            sum.bytes_sent += bytes;
        }
    }
    return sum;
}

void ls_apart_memory(const ls_apart *apart, ls_memory_formula *formula)
{
    ls_memory_formula own = ls_replica_memory(apart->shadow.replica);
    for (int b = 0; b < LS_BATCHES; b++)
        if (apart->shadow.slice[b])
            ls_slice_memory(apart->shadow.slice[b], &own);
    for (int use = 0; use < LS_MEMORY_USES; use++)
        formula->bytes[use] += own.bytes[use];
}
