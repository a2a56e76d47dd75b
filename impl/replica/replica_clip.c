/* SPDX-License-Identifier: MIT */
/*
 * The norm of a replica's gradient: sums of squares of its blocks, where they are in the whole
 * model, and what follows from all blocks' sums; see replica.h and square_sums in kernel.h.
 */
#include "common/base/grow.h"
#include "common/comm/comm_sums.h"
#include "impl/replica/replica.h"

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Whether it finds a norm: if it updates or, where gradients are applied alone, if it computes one.
 */
static bool clips(const ls_replica *r)
{
    const ls_job_update *update = &r->job->update;
    return update->clip > 0 && (update->own_mean ? r->graph->count > 0 : r->updates);
}

/* The variables of the whole model; its slices' if layers are split. */
static const ls_variables *whole_of(const ls_replica *r)
{
    return r->part && r->part->split ? &r->part->split->variables
                                     : &r->job->model->graph->variables;
}

static size_t count_blocks(const ls_variables *v)
{
    return ls_blocks_before(v, v->elements);
}

ls_status ls_replica_take_clip(ls_replica *r)
{
    const ls_memory_use use = LS_MEMORY_AS(LS_MEMORY_WORKSPACE, LS_MEMORY_OTHER);
    if (!clips(r))
        return LS_OK;
    LS_TRY(ls_replica_take(r, "squares", use, count_blocks(whole_of(r)) * sizeof *r->norm.squares,
                           &r->norm.squares));
    r->norm.own_squares = r->norm.squares;
    if (r->updated.shares.buckets && &r->graph->variables != whole_of(r))
        LS_TRY(ls_replica_take(r, "squares", use,
                               count_blocks(&r->graph->variables) * sizeof *r->norm.squares,
                               &r->norm.own_squares));
    return ls_replica_take(r, "clip", use, sizeof *r->norm.clip, &r->norm.clip);
}

/* ---- Operations ------------------------------------------------------------------------------ */

/* Variables whose blocks are next to each other in the whole model. */
typedef struct run_of {
    ls_update_range *items;
    int64_t count;
} run_of;

/* Where an element of variable number v of its part is in the whole. */
static size_t whole_at(const ls_replica *r, size_t v, size_t element)
{
    const size_t *in = !r->part ? NULL : r->part->split ? r->part->at : r->part->whole;
    const ls_variable *variable = &r->graph->variables.items[v];
    return (in ? in[v] : variable->offset) + element - variable->offset;
}

/* Appends the sums of a run of blocks that are next to each other in the whole model. */
static ls_status append_run(ls_replica *r, ls_replica_at at, const run_of *run, size_t block,
                            ls_op_list *ops)
{
    const ls_update_range *last = &run->items[run->count - 1];
    const size_t real = r->kernels->table->real_bytes;
    const ls_square_sums_args args = {.count = last->first + last->count,
                                      .gradient = (char *)r->gradients + at.gradients * real,
                                      .weight =
                                          (const char *)ls_replica_trained(r) + at.trained * real,
                                      .ranges = run->items,
                                      .range_count = run->count,
                                      .sums = r->norm.own_squares + block};
    ls_op *op;
    LS_TRY(r->kernels->table->square_sums(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

static ls_status append_squares(ls_replica *r, ls_range range, ls_decay_left decay,
                                ls_replica_at at, run_of *run, ls_op_list *ops)
{
    const ls_variables *variables = &r->graph->variables;
    size_t first = range.first, begin = 0, next = 0;
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        const ls_range both = ls_range_common((ls_range){v->offset, v->count}, range);
        if (!both.count)
            continue;
        const size_t block = r->norm.own_squares == r->norm.squares
                                 ? ls_blocks_before(whole_of(r), whole_at(r, i, both.first))
                                 : ls_blocks_before(variables, both.first);
        if (run->count && block != next) {
            LS_TRY(append_run(r, at, run, begin, ops));
            run->count = 0;
        }
        if (!run->count) {
            at.gradients += both.first - first;
            at.trained += both.first - first;
            first = both.first;
            begin = block;
        }
        run->items[run->count++] =
            (ls_update_range){.first = (int64_t)(both.first - first),
                              .count = (int64_t)both.count,
                              .decay = decay == LS_DECAY_TO_ADD ? v->decay : 0,
                              .keep = v->keep};
        next = block + (size_t)ls_square_blocks((int64_t)both.count);
    }
    return run->count ? append_run(r, at, run, begin, ops) : LS_OK;
}

ls_status ls_replica_square(ls_replica *r, ls_range range, ls_decay_left decay, ls_op_list *ops)
{
    ls_auto ls_update_range *items = NULL;
    ls_replica_at at;
    LS_TRY(ls_replica_find(r, range, &at));
    LS_TRY(ls_allocate("update", &items, r->graph->variables.count, sizeof *items));
    return append_squares(r, range, decay, at, &(run_of){.items = items}, ops);
}

ls_status ls_replica_place_squares(ls_replica *r, ls_op_list *ops)
{
    const ls_variables *variables = &r->graph->variables;
    for (size_t i = 0; i < variables->count && r->norm.own_squares != r->norm.squares; i++) {
        const ls_variable *v = &variables->items[i];
        const size_t floats =
            (size_t)ls_square_blocks((int64_t)v->count) * sizeof(double) / sizeof(float);
        const ls_sum_step copy = {
            (float *)(r->norm.squares + ls_blocks_before(whole_of(r), whole_at(r, i, v->offset))),
            (float *)(r->norm.own_squares + ls_blocks_before(variables, v->offset)), NULL};
        ls_op *op;
        if (v->offset >= r->updated.owned)
            break;
        LS_TRY(ls_sums_make(r->device, "square_sums.copy", &copy, 1, floats, &op));
        LS_TRY(ls_op_list_add(ops, op));
    }
    return LS_OK;
}

ls_status ls_replica_clip(ls_replica *r, ls_op_list *ops)
{
    const ls_clip_factor_args args = {.count = (int64_t)count_blocks(whole_of(r)),
                                      .sums = r->norm.squares,
                                      .most = r->job->update.clip,
                                      .clip = r->norm.clip};
    ls_op *op;
    LS_TRY(r->kernels->table->clip_factor(r->kernels, &args, &op));
    op->use = LS_TIME_OPTIMIZER;
    return ls_op_list_add(ops, op);
}

ls_status ls_replica_clip_all(ls_replica *r, ls_decay_left decay, ls_op_list *ops)
{
    if (!r->norm.clip)
        return LS_OK;
    LS_TRY(ls_replica_square(r, (ls_range){0, r->elements}, decay, ops));
    return ls_replica_clip(r, ops);
}
