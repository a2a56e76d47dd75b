/* SPDX-License-Identifier: MIT */
/*
 * The norm of the gradient over all variables, each once, and what follows from it
 * (job.update.clip); see ls_clip_gradients. A block's sum of squares is computed where its
 * variables are updated, and has the same bits everywhere, as has the sum over all blocks
 * (square_sums, clip_factor of kernel.h). So only sums of blocks are sent: 8 bytes for up to 1,024
 * elements.
 */
#include "common/base/grow.h"
#include "impl/step/verbs/build.h"

#include <stdlib.h>

/* ---- Which blocks a member has --------------------------------------------------------------- */

/* Consecutive blocks of the whole model. */
typedef struct runs {
    ls_range *items;
    size_t count;
} runs;

static void close(runs *r)
{
    free(r->items);
}

static ls_status add_run(const ls_variables *whole, size_t first, size_t count, runs *out)
{
    const size_t block = ls_blocks_before(whole, first);
    const size_t blocks = (size_t)ls_square_blocks((int64_t)count);
    ls_range *last = out->count ? &out->items[out->count - 1] : NULL;
    if (last && last->first + last->count == block) {
        last->count += blocks;
        return LS_OK;
    }
    LS_TRY(ls_grow("step", &out->items, out->count, sizeof *out->items));
    out->items[out->count++] = (ls_range){block, blocks};
    return LS_OK;
}

/* All variables: of slices, if layers are split. */
static const ls_variables *whole_of(const ls_step *s)
{
    const ls_graph *split = s->plan->split.graph;
    return split ? &split->variables : &ls_step_job(s)->model->graph->variables;
}

/* Whether another place sends the blocks of a variable that a place has, or each has them itself:
 * what is in no slice is on all places of a stage. */
static bool is_others(const ls_step *s, int place, const ls_graph *graph, size_t v)
{
    const int across = s->plan->parts.across;
    const bool everywhere = s->plan->mesh.size[LS_STAGE] == 1;
    return across > 1 && (everywhere || place % across) && !ls_graph_slice(graph, v);
}

/* The runs of blocks of an owner of ranges, or of a place. The owner has the blocks of variables
 * that several places use. */
static ls_status find_runs(const ls_step *s, int member, runs *out)
{
    const ls_variables *whole = whole_of(s);
    const ls_graph_part *part = ls_step_plan_part(s->plan, member);
    const ls_variables *own = part ? &part->graph->variables : whole;
    ls_range range = {0, part ? part->owned : whole->elements};
    for (size_t i = 0;
         s->plan->placed.elements ? ls_step_plan_owned_range(s->plan, member, i, &range) : !i; i++)
        for (size_t v = 0; v < own->count; v++) {
            const ls_range has = {own->items[v].offset, own->items[v].count};
            const ls_range both = ls_range_common(has, range);
            const size_t at = !part ? has.first : part->split ? part->at[v] : part->whole[v];
            if (both.count &&
                !(part && is_others(s, s->plan->members[member].place, part->graph, v)))
                LS_TRY(add_run(whole, at + both.first - has.first, both.count, out));
        }
    return LS_OK;
}

/* The members that send each other sums: together they have all blocks, once the members of a set
 * have exchanged theirs. */
static ls_range partners(const ls_step *s, int member)
{
    ls_spread squares = s->plan->state;
    if (squares.on[LS_MEMBER] == LS_SHARE)
        squares.on[LS_MEMBER] = LS_WHOLE;
    return ls_step_plan_copy(s->plan, &squares, member);
}

/* ---- Sums, factor ---------------------------------------------------------------------------- */

static bool can_clip(const ls_step *s, int member)
{
    const ls_replica *r = ls_step_replica(s, member);
    return !s->program->status && r && r->norm.clip;
}

static void append_squares(ls_step *s, int member, ls_range range)
{
    ls_op_list ops = {0};
    if (s->program->status || !range.count)
        return;
    const ls_range own = {ls_step_offset(s, member, range), range.count};
    const ls_status status =
        ls_replica_square(ls_step_replica(s, member), own, LS_DECAY_TO_ADD, &ops);
    ls_task_of(s->program, "squares", member, range, &ops, status);
}

/* What a member updates, range by range: as soon as a range's gradients are final. */
static void append_all_squares(ls_step *s, int member)
{
    ls_range range;
    const ls_planned_group *g = ls_step_planned_group(s->plan, s->plan->members[member].place);
    for (int b = 0; s->plan->group_count && b < (int)g->buckets.count; b++)
        append_squares(s, member, ls_share(s, member, g->before + b));
    for (size_t i = 0;
         !s->plan->group_count && ls_step_plan_owned_range(s->plan, member, i, &range); i++)
        append_squares(s, member, range);
}

static void append_factor(ls_step *s, int member)
{
    ls_op_list ops = {0};
    if (!can_clip(s, member))
        return;
    const ls_status status = ls_replica_clip(ls_step_replica(s, member), &ops);
    ls_task_of(s->program, "clip", member, ls_no_range, &ops, status);
}

/* ---- Exchange -------------------------------------------------------------------------------- */

static ls_span squares_at(const ls_step *s, int member, ls_range blocks)
{
    const ls_replica *r = ls_step_replica(s, member);
    return (ls_span){member, r ? r->norm.squares + blocks.first : NULL,
                     blocks.count * sizeof(double)};
}

/* Sends a member's sums to all that have the other variables. */
static void send_sums(ls_step *s, int member)
{
    const ls_range all = partners(s, member);
    ls_closing(close) runs own = {0};
    if (all.count > 1)
        ls_step_fail(s, find_runs(s, member, &own));
    for (int to = (int)all.first; to < (int)(all.first + all.count); to++)
        for (size_t i = 0; to != member && i < own.count && !s->program->status; i++)
            ls_message(s, squares_at(s, to, own.items[i]), squares_at(s, member, own.items[i]),
                       LS_REPLACE);
}

/* ---- Between members that share the update --------------------------------------------------- */

enum { HALVES_OF_DOUBLE = sizeof(double) / sizeof(float) };

/* A bucket's sums of squares, as floats: two a sum. */
typedef struct gathered {
    size_t first; /* of the member's */
    ls_extent extent;
} gathered;

/* What members with the same buckets have: the blocks are theirs. */
static gathered squares_of(const ls_step *s, int set, size_t b)
{
    const ls_buckets *buckets = &s->plan->groups[set].buckets;
    const ls_graph_part *part = ls_step_plan_part(s->plan, set % ls_step_plan_parts(s->plan));
    const ls_variables *own =
        part ? &part->graph->variables : &ls_step_job(s)->model->graph->variables;
    const size_t blocks = buckets->extents[b].blocks;
    return (gathered){HALVES_OF_DOUBLE * ls_blocks_before(own, buckets->items[b].first),
                      {.count = HALVES_OF_DOUBLE * blocks, .blocks = blocks}};
}

static ls_status bring(ls_step *s, const ls_call *c, int member, ls_brought *b, ls_op_list *ops)
{
    const gathered *of = c->of;
    (void)ops;
    b->args.data = (float *)ls_step_replica(s, member)->norm.own_squares + of->first;
    b->extent = of->extent;
    return LS_OK;
}

static void gather_squares(ls_step *s)
{
    for (int set = 0; set < ls_step_plan_sets(s->plan); set++)
        for (size_t b = 0; b < s->plan->groups[set].buckets.count; b++) {
            const gathered of = squares_of(s, set, b);
            ls_step_call(s, &(ls_call){.channel = LS_GROUPS + set,
                                       .algorithm = ls_step_job(s)->exchange.allreduce,
                                       .half = LS_ALL_GATHER,
                                       .bring = bring,
                                       .of = &of});
        }
}

static ls_traffic gathered_traffic(const ls_step *s)
{
    ls_traffic sum = {0};
    for (int set = 0; set < ls_step_plan_sets(s->plan); set++)
        for (size_t b = 0; b < s->plan->groups[set].buckets.count; b++)
            ls_traffic_add(&sum,
                           ls_step_job(s)->exchange.allreduce->half_formula(
                               LS_ALL_GATHER, s->plan->mesh.size[LS_MEMBER],
                               squares_of(s, set, b).extent, ls_step_shards(s)),
                           1);
    return sum;
}

/* Each sum goes to all others that have a part of the same variables; messages: a run each. */
ls_traffic ls_step_clip_traffic(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    const ls_range members = s->plan->owners;
    const uint64_t together = partners(s, (int)members.first).count;
    ls_traffic sum = {0};
    if (job->update.clip == 0 || job->update.own_mean)
        return sum;
    if (ls_step_plan_shares(s->plan))
        sum = gathered_traffic(s);
    const ls_variables *whole = whole_of(s);
    size_t blocks = ls_blocks_before(whole, whole->elements); /* whose sums are sent */
    for (size_t v = 0; v < whole->count; v++)
        if (is_others(s, 0, s->plan->split.graph, v)) /* of the first place */
            blocks -= (size_t)ls_square_blocks((int64_t)whole->items[v].count);
    sum.bytes_sent += members.count / together * (together - 1) * blocks * sizeof(double);
    for (size_t m = members.first; together > 1 && m < members.first + members.count; m++) {
        ls_closing(close) runs own = {0};
        ls_status_free(find_runs(s, (int)m, &own));
        sum.messages_sent += (together - 1) * own.count;
    }
    return sum;
}

/* ---- The verbs ------------------------------------------------------------------------------- */

static void clip_together(ls_step *s)
{
    const int total = s->plan->total;
    const ls_range members = s->plan->owners;
    for (int m = 0; m < total; m++)
        if (can_clip(s, m))
            append_all_squares(s, m);
    const bool shares = ls_step_plan_shares(s->plan);
    if (shares)
        gather_squares(s);
    for (int m = 0; m < total && shares; m++)
        if (can_clip(s, m)) {
            /* what members told each other goes to where it is in the whole model */
            ls_op_list ops = {0};
            const ls_status status = ls_replica_place_squares(ls_step_replica(s, m), &ops);
            if (ops.count || status)
                ls_task_of(s->program, "squares", m, ls_no_range, &ops, status);
        }
    for (size_t m = members.first; m < members.first + members.count; m++)
        send_sums(s, (int)m);
    for (int m = 0; m < total; m++)
        append_factor(s, m);
}

static void clip_alone(ls_step *s, int member)
{
    if (!can_clip(s, member) || !ls_sums(s, member))
        return;
    append_squares(s, member, ls_all(s));
    append_factor(s, member);
    if (!ls_step_replica(s, member)->updates) {
        /* Appends the scaling of a member's gradients, which another one applies. */
        const ls_replica *r = ls_step_replica(s, member);
        const ls_scale_args args = {
            .count = (int64_t)r->elements, .y = r->gradients, .clip = r->norm.clip};
        ls_op *op = NULL;
        const ls_status status =
            s->program->status ? LS_OK : r->kernels->table->scale(r->kernels, &args, &op);
        if (!s->program->status)
            ls_task_of_op(s->program, "scale", member, ls_all(s), op, status);
    }
}

void ls_clip_gradients(ls_step *s, int member)
{
    if (ls_step_job(s)->update.clip == 0)
        return;
    if (member == LS_TOGETHER)
        clip_together(s);
    else
        clip_alone(s, member);
}
