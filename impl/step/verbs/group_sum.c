/* SPDX-License-Identifier: MIT */
/*
 * Fast mode's reduction order as a sequence of additions, which the gate's oracle replays; see
 * ls_strategy_witness.sum. What is summed are parts of the batch: of each unit, a replica or a
 * place with a part of its positions, one for each piece. An order over units nests the order over
 * a unit's pieces, or the other way round, by when they are exchanged.
 */
#include "common/base/grow.h"
#include "common/comm/comm_wire.h"
#include "impl/step/plan/plan.h"
#include "impl/step/step.h"
#include "impl/strategies.h"

/* In the place of a piece: an order's inputs are units, or each piece is summed before the next. */
enum { OF_UNITS = -1, EACH = -2 };

/* What is summed, and of it what an order is over. */
typedef struct summed {
    const ls_job *job;
    const bool *has; /* [units x pieces] false if the part counts as zeros */
    int units, pieces, places;
    const ls_graph_part *part; /* a place's variables; NULL means all */
    int place;
    int piece, group;          /* of the units that the order is over */
    const ls_buckets *buckets; /* of them, number `bucket` */
    size_t bucket;
} summed;

/* Makes the order of a sum that is input number `input` of another one. */
typedef ls_status (*inner)(const summed *s, int input, ls_sum_order *out);

static size_t elements_of(const summed *s)
{
    return s->part ? s->part->owned : s->job->model->graph->variables.elements;
}

/* Whether shares of the sum over a group's units are then summed over groups. */
static bool has_groups(const summed *s)
{
    return !s->part && s->job->mesh.size[LS_GROUP] > 1;
}

static int part_of(const summed *s, int unit, int piece)
{
    return (unit / s->places * s->pieces + piece) * s->places + unit % s->places;
}

static bool has_part(const summed *s, int unit, int piece)
{
    return s->has[part_of(s, unit, piece)];
}

/* ---- Orders ---------------------------------------------------------------------------------- */

/* Appends an order whose inputs are sums themselves: each is in a sum behind the order's. `visits`:
 * of each input; an order visits none more than twice. */
static ls_status nest(const summed *s, const ls_sum_order *outer, size_t visits, inner make,
                      ls_sum_order *out)
{
    for (size_t i = 0; i < outer->count; i++) {
        ls_closing(ls_sum_order_close) ls_sum_order order = {0};
        ls_order_step fold = outer->steps[i];
        fold.visit = (fold.visit + 1) * visits - 1;
        if (fold.input >= 0) {
            LS_TRY(make(s, fold.input, &order));
            fold.input = order.count ? LS_SUM_OTHER : LS_SUM_ZEROS;
            fold.from = outer->sums;
        }
        for (size_t k = 0; k < order.count; k++) {
            ls_order_step step = order.steps[k];
            const ls_range both = ls_range_common((ls_range){step.first, step.count},
                                                  (ls_range){fold.first, fold.count});
            step.first = both.first;
            step.count = both.count;
            step.visit += outer->steps[i].visit * visits;
            step.into += outer->sums;
            step.from += outer->sums;
            LS_TRY(ls_sum_order_add(out, &step));
        }
        LS_TRY(ls_sum_order_add(out, &fold));
    }
    return LS_OK;
}

/* Appends an input to a sum in the order of inputs. */
static ls_status add_next(const summed *s, int number, int input, ls_sum_order *out)
{
    return ls_sum_order_add(out, &(ls_order_step){.visit = (size_t)number,
                                                  .input = input,
                                                  .begins = !out->count,
                                                  .count = elements_of(s)});
}

static ls_status sum_unit(const summed *s, int unit, ls_sum_order *out)
{
    for (int p = 0; p < s->pieces; p++)
        if (has_part(s, unit, p))
            LS_TRY(add_next(s, p, part_of(s, unit, p), out));
    return LS_OK;
}

/* Over the pieces for which any unit has samples, or over the units that have any. */
static ls_status sum_in_order(const summed *s, bool over_pieces, ls_sum_order *out)
{
    const int count = over_pieces ? s->pieces : s->units;
    const int others = over_pieces ? s->units : s->pieces;
    for (int i = 0; i < count; i++)
        for (int k = 0; k < others; k++)
            if (has_part(s, over_pieces ? k : i, over_pieces ? i : k)) {
                LS_TRY(add_next(s, i, i, out));
                break;
            }
    return LS_OK;
}

/* ---- Units ----------------------------------------------------------------------------------- */

/* The order of the job's all-reduce, or a half of it, of elements from `first` on, and where a wire
 * rounds. */
static ls_status sum_call(const ls_job *job, ls_half half, int ranks, ls_extent extent,
                          const ls_layout *layout, size_t first, ls_sum_order *out)
{
    LS_TRY(job->exchange.allreduce->oracle(ranks, extent, layout, out));
    LS_TRY(ls_wired_order(job->exchange.gradient_wire, half, out));
    for (size_t i = 0; i < out->count; i++)
        out->steps[i].first += first;
    return LS_OK;
}

/* Appends the sum of a bucket over a group's units. */
static ls_status sum_bucket(const summed *s, int units, const ls_layout *layout, ls_sum_order *out)
{
    ls_closing(ls_sum_order_close) ls_sum_order order = {0};
    const int half = ls_step_plan_move(LS_PARTIAL, ls_spread_held(&s->job->state));
    LS_TRY(sum_call(s->job, (ls_half)half, units, s->buckets->extents[s->bucket], layout,
                    s->buckets->items[s->bucket].first, &order));
    for (size_t i = 0; i < order.count; i++) {
        ls_order_step *step = &order.steps[i];
        if (step->input >= 0)
            step->input += s->group * units;
        if (step->input >= 0 && s->piece != OF_UNITS)
            step->input = has_part(s, step->input, s->piece) ? part_of(s, step->input, s->piece)
                                                             : LS_SUM_ZEROS;
        LS_TRY(ls_sum_order_add(out, step));
    }
    return LS_OK;
}

static ls_status sum_group(const summed *s, int group, ls_sum_order *out);

static ls_status sum_group_piece(const summed *s, int piece, ls_sum_order *out)
{
    summed of = *s;
    of.piece = piece;
    return sum_group(&of, s->group, out);
}

static ls_status sum_group(const summed *s, int group, ls_sum_order *out)
{
    const int units = s->units / s->job->mesh.size[LS_GROUP];
    ls_closing(ls_sum_order_close) ls_sum_order order = {0};
    summed of = *s;
    of.group = group;
    if (s->piece != EACH)
        return sum_bucket(&of, units, NULL, out);
    LS_TRY(sum_in_order(&of, true, &order));
    return nest(&of, &order, 2 * (size_t)units, sum_group_piece, out);
}

/* Over the members of each group, then each member's share over groups. */
static ls_status sum_shares(const summed *s, ls_sum_order *out)
{
    const int groups = s->job->mesh.size[LS_GROUP], units = s->units / groups;
    const int each = s->piece == EACH ? s->pieces : 1;
    for (int q = 0; q < units; q++) {
        ls_closing(ls_sum_order_close) ls_sum_order across = {0};
        const ls_range share = ls_bucket_share(s->buckets, s->bucket, q, units);
        LS_TRY(sum_call(s->job, LS_HALVES, groups, ls_elements(share.count), NULL, share.first,
                        &across));
        LS_TRY(nest(s, &across, 2 * (size_t)(units * each), sum_group, out));
    }
    return LS_OK;
}

/* The sum over all units, bucket by bucket. */
static ls_status sum_units(const summed *s, int piece, ls_sum_order *out)
{
    int hosts[LS_JOB_REPLICAS];
    ls_layout own_layout;
    ls_closing(ls_buckets_close) ls_buckets buckets = {0};
    summed of = *s;
    of.piece = piece;
    of.buckets = &buckets;
    LS_TRY(ls_step_plan_buckets(s->job, s->part, &buckets));
    const ls_layout *layout = ls_step_plan_layout(s->job, s->place, hosts, &own_layout);
    for (; of.bucket < buckets.count; of.bucket++)
        LS_TRY(has_groups(s) ? sum_shares(&of, out) : sum_bucket(&of, s->units, layout, out));
    return LS_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

/* Appends an order over a place's elements as one over the whole model's. What all places have is
 * summed once, by the first one. */
static ls_status add_place(const summed *s, const ls_sum_order *order, bool first,
                           ls_sum_order *out)
{
    const ls_graph_part *part = s->part;
    for (size_t i = 0; i < order->count; i++)
        for (size_t v = 0; v < part->graph->variables.count; v++) {
            const ls_variable *variable = &part->graph->variables.items[v];
            ls_order_step step = order->steps[i];
            const ls_range both = ls_range_common((ls_range){step.first, step.count},
                                                  (ls_range){variable->offset, variable->count});
            step.first =
                (part->split ? part->at[v] : part->whole[v]) + both.first - variable->offset;
            step.count = both.count;
            if (both.count && (first || !part->split || ls_graph_slice(part->graph, v)))
                LS_TRY(ls_sum_order_add(out, &step));
        }
    return LS_OK;
}

/* Pieces are exchanged one by one, or their sum once. */
static ls_status sum_all(const summed *s, ls_sum_order *out)
{
    ls_closing(ls_sum_order_close) ls_sum_order order = {0};
    const bool each = ls_slice_exchanges(s->job) > 1;
    if (s->pieces == 1)
        return sum_units(s, 0, out);
    if (each && has_groups(s))
        return sum_units(s, EACH, out);
    LS_TRY(each ? sum_in_order(s, true, &order) : sum_units(s, OF_UNITS, &order));
    return each ? nest(s, &order, 2 * (size_t)s->units, sum_units, out)
                : nest(s, &order, (size_t)s->pieces, sum_unit, out);
}

ls_status ls_sum_by_algorithm(const ls_job *job, const bool *has, int count, ls_sum_order *out)
{
    const int pieces = count < ls_job_parts(job) ? 1 : ls_job_pieces(job);
    ls_closing(ls_graph_parts_close) ls_graph_parts parts = {0};
    ls_closing(ls_graph_part_close) ls_graph_part split = {0};
    summed s = {.job = job,
                .has = has,
                .units = count / pieces,
                .pieces = pieces,
                .places = ls_job_mesh(job).size[LS_POSITION]};
    LS_TRY(ls_divide(job, &split, &parts));
    if (!parts.count)
        return sum_all(&s, out);
    for (; s.place < ls_graph_parts_places(&parts); s.place++) {
        ls_closing(ls_sum_order_close) ls_sum_order order = {0};
        s.part = ls_graph_parts_at(&parts, s.place);
        LS_TRY(sum_all(&s, &order));
        LS_TRY(add_place(&s, &order, s.place % parts.across == 0, out));
    }
    return LS_OK;
}

ls_status ls_sum_in_order(const ls_job *job, const bool *has, int count, ls_sum_order *out)
{
    const int replicas = count < ls_job_parts(job) ? count : ls_job_replicas(job);
    const int units = replicas > 1 ? replicas : count;
    const summed s = {.job = job, .has = has, .units = units, .pieces = count / units, .places = 1};
    ls_closing(ls_sum_order_close) ls_sum_order order = {0};
    LS_TRY(sum_in_order(&s, false, &order));
    return nest(&s, &order, (size_t)s.pieces, sum_unit, out);
}
