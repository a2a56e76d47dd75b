/* SPDX-License-Identifier: MIT */
/* Fast mode's reduction order as a sequence of additions, which the gate's oracle replays; see
 * ls_strategy_witness.sum. */
#include "common/comm/comm_wire.h"
#include "impl/step/plan/plan.h"
#include "impl/step/step.h"
#include "impl/strategies.h"

/* ---- Members of one group -------------------------------------------------------------------- */

/* The order of sums in the job's all-reduce, or a half of it, and where a wire rounds. */
static ls_status order_of(const ls_job *job, ls_half half, int ranks, ls_extent extent,
                          const ls_layout *layout, ls_sum_order *out)
{
    LS_TRY(job->exchange.allreduce->oracle(ranks, extent, layout, out));
    return ls_wired_order(job->exchange.gradient_wire, half, out);
}

/* What members of a set do with a bucket's gradients. */
static ls_half half_of(const ls_job *job)
{
    return job->state.on[LS_MEMBER] == LS_SHARE ? LS_REDUCE_SCATTER : LS_HALVES;
}

/* Appends the additions of one bucket. */
static ls_status sum_bucket(const ls_job *job, const ls_layout *layout, const bool *has, int count,
                            const ls_range *bucket, ls_extent extent, ls_sum_order *out)
{
    ls_sum_order steps = {0};
    ls_status status = order_of(job, half_of(job), count, extent, layout, &steps);
    for (size_t i = 0; i < steps.count && !status; i++) {
        ls_order_step step = steps.steps[i];
        step.first += bucket->first;
        if (step.input >= 0 && !has[step.input])
            step.input = LS_SUM_ZEROS;
        status = ls_sum_order_add(out, &step);
    }
    ls_sum_order_close(&steps);
    return status;
}

/* Appends the sum of `count` parts, each [elements], bucket by bucket; has[d] false if part d is
 * zeros. */
static ls_status sum_group(const ls_job *job, const ls_graph_part *part, int place, const bool *has,
                           int count, ls_sum_order *out)
{
    int hosts[LS_JOB_REPLICAS];
    ls_layout own_layout;
    ls_buckets buckets;
    LS_TRY(ls_step_plan_buckets(job, part, &buckets));
    const ls_layout *layout = ls_step_plan_layout(job, place, hosts, &own_layout);
    ls_status status = LS_OK;
    for (size_t b = 0; b < buckets.count && !status; b++)
        status = sum_bucket(job, layout, has, count, &buckets.items[b], buckets.extents[b], out);
    ls_buckets_close(&buckets);
    return status;
}

/* ---- Groups of replicas that share the update ------------------------------------------------ */

/* A share's sum: over the replicas of each group, then over groups. */
typedef struct share_sum {
    const ls_sum_order *inside; /* over a group's, of the whole bucket */
    ls_range bucket;
    const bool *has; /* [replicas, pieces] */
    int size;        /* replicas of a group */
    int replicas;    /* of all groups */
    int pieces;      /* exchanged one by one within the group */
    int above;       /* number of the first sum over a group's */
    ls_sum_order *out;
} share_sum;

/* Visits for a group: an order visits no input more than twice. */
static size_t visits_of(const share_sum *p)
{
    return 2 * (size_t)p->size * (size_t)p->pieces;
}

/* Whether any replica has samples for a piece. */
static bool has_piece(const share_sum *p, int replicas, int piece)
{
    for (int d = 0; d < replicas; d++)
        if (p->has[d * p->pieces + piece])
            return true;
    return false;
}

/* Appends a step whose input is a group: the sum over its replicas, of the step's elements. */
static ls_status add_set(const share_sum *p, const ls_order_step *step)
{
    ls_order_step fold = *step;
    bool begun = false;
    for (int piece = 0; piece < p->pieces; piece++) {
        if (!has_piece(p, p->replicas, piece))
            continue;
        const size_t before = step->visit * visits_of(p) + 2 * (size_t)(p->size * piece);
        const int above = p->above + begun;
        ls_order_step add = {.visit = before + 2 * (size_t)p->size - 1,
                             .input = LS_SUM_OTHER,
                             .from = above,
                             .into = p->above,
                             .first = p->bucket.first + step->first,
                             .count = step->count};
        for (size_t i = 0; i < p->inside->count; i++) {
            ls_order_step each = p->inside->steps[i];
            const ls_range both = ls_range_common((ls_range){each.first, each.count},
                                                  (ls_range){step->first, step->count});
            each.first = p->bucket.first + both.first;
            each.count = both.count;
            each.visit += before;
            each.into += above;
            each.from += above;
            if (each.input >= 0)
                each.input = (each.input + step->input * p->size) * p->pieces + piece;
            if (each.input >= 0 && !p->has[each.input])
                each.input = LS_SUM_ZEROS;
            LS_TRY(ls_sum_order_add(p->out, &each));
        }
        if (begun)
            LS_TRY(ls_sum_order_add(p->out, &add));
        begun = true;
    }
    fold.first += p->bucket.first;
    fold.input = LS_SUM_OTHER;
    fold.from = p->above;
    fold.visit = (step->visit + 1) * visits_of(p) - 1;
    return ls_sum_order_add(p->out, &fold);
}

/* Appends the additions of a share of the bucket, elements `share` of it. */
static ls_status sum_share(const ls_job *job, share_sum p, ls_range share)
{
    ls_sum_order across = {0};
    ls_status status =
        order_of(job, LS_HALVES, job->mesh.size[LS_GROUP], ls_elements(share.count), NULL, &across);
    p.above = across.sums;
    for (size_t i = 0; i < across.count && !status; i++) {
        ls_order_step step = across.steps[i];
        step.first += share.first;
        if (step.input >= 0) {
            status = add_set(&p, &step);
            continue;
        }
        step.first += p.bucket.first;
        step.visit = (step.visit + 1) * visits_of(&p) - 1;
        status = ls_sum_order_add(p.out, &step);
    }
    ls_sum_order_close(&across);
    return status;
}

static ls_status sum_shares(const ls_job *job, const bool *has, int count, int pieces,
                            ls_sum_order *out)
{
    const int size = count / pieces / job->mesh.size[LS_GROUP];
    ls_buckets buckets;
    LS_TRY(ls_step_plan_buckets(job, NULL, &buckets));
    ls_status status = LS_OK;
    for (size_t b = 0; b < buckets.count && !status; b++) {
        ls_sum_order inside = {0};
        status = order_of(job, LS_REDUCE_SCATTER, size, buckets.extents[b], NULL, &inside);
        const share_sum p = {&inside, buckets.items[b], has, size, count / pieces, pieces, 0, out};
        for (int q = 0; q < size && !status; q++) {
            ls_range share = ls_bucket_share(&buckets, b, q, size);
            share.first -= buckets.items[b].first;
            if (share.count)
                status = sum_share(job, p, share);
        }
        ls_sum_order_close(&inside);
    }
    ls_buckets_close(&buckets);
    return status;
}

/* ---- Places of replicas ---------------------------------------------------------------------- */

/* What a sum is of: a place's variables, or all. */
typedef struct place_sum {
    const ls_graph_part *part; /* NULL means of a model that is not divided */
    int place;
    bool copied; /* a place before has what is in no slice, too */
    ls_sum_order *out;
} place_sum;

/* Appends a step over the place's elements as steps over the whole model's elements. */
static ls_status add_step(const place_sum *p, ls_order_step step)
{
    const ls_range range = {step.first, step.count};
    if (!p->part)
        return ls_sum_order_add(p->out, &step);
    for (size_t v = 0; v < p->part->graph->variables.count; v++) {
        const ls_variable *variable = &p->part->graph->variables.items[v];
        const ls_range both = ls_range_common(range, (ls_range){variable->offset, variable->count});
        const bool again = p->copied && p->part->split && !ls_graph_slice(p->part->graph, v);
        step.first =
            (p->part->split ? p->part->at[v] : p->part->whole[v]) + both.first - variable->offset;
        step.count = both.count;
        if (both.count && !again) /* what all places have is summed once */
            LS_TRY(ls_sum_order_add(p->out, &step));
    }
    return LS_OK;
}

/* ---- Pieces --------------------------------------------------------------------------------- */

/* Part `piece` of unit `u`: of a replica or, where places have parts of the positions, of one of
 * its `places`. */
static int part_of(int u, int piece, int pieces, int places)
{
    return (u / places * pieces + piece) * places + u % places;
}

/* The sum over units: whole replicas, their parts of the positions, or their parts of a place. */
static ls_status sum_units(const ls_job *job, const place_sum *of, const bool *has, int count,
                           ls_sum_order *out)
{
    return !of->part && job->mesh.size[LS_GROUP] > 1
               ? sum_shares(job, has, count, 1, out)
               : sum_group(job, of->part, of->place, has, count, out);
}

/* Appends an order over units as one over their pieces: each unit's input is their sum, in order,
 * in the sum behind the order's. */
static ls_status add_pieces(const place_sum *of, const ls_sum_order *units, const bool *has,
                            int pieces, int places)
{
    for (size_t i = 0; i < units->count; i++) {
        ls_order_step fold = units->steps[i], each = fold;
        fold.visit = (fold.visit + 1) * (size_t)pieces - 1;
        each.into = units->sums;
        each.begins = true;
        each.rounds = false; /* what is sent is the sum of pieces */
        for (int p = 0; p < pieces && fold.input >= 0; p++) {
            each.input = part_of(fold.input, p, pieces, places);
            each.visit = units->steps[i].visit * (size_t)pieces + (size_t)p;
            if (!has[each.input])
                continue;
            LS_TRY(add_step(of, each));
            each.begins = false;
        }
        if (fold.input >= 0) {
            fold.input = LS_SUM_OTHER;
            fold.from = units->sums;
        }
        LS_TRY(add_step(of, fold));
    }
    return LS_OK;
}

/* Pieces whose sums are exchanged once. */
static ls_status sum_pieces(const ls_job *job, const place_sum *of, const bool *has, int pieces,
                            int count)
{
    const int units = count / pieces, places = ls_job_mesh(job).size[LS_POSITION];
    bool any[LS_JOB_REPLICAS] = {false};
    for (int u = 0; u < units; u++)
        for (int p = 0; p < pieces; p++)
            any[u] |= has[part_of(u, p, pieces, places)];
    ls_sum_order order = {0};
    ls_status status = sum_units(job, of, any, units, &order);
    if (!status)
        status = add_pieces(of, &order, has, pieces, places);
    ls_sum_order_close(&order);
    return status;
}

/* Pieces that are exchanged one by one: each one's sum over the units, and the sums in order.
 * An order visits no input more than twice. */
static ls_status sum_exchanges(const ls_job *job, const place_sum *of, const bool *has, int pieces,
                               int count)
{
    const int places = ls_job_mesh(job).size[LS_POSITION], units = count / pieces;
    const size_t elements = of->part ? of->part->owned : job->model->graph->variables.elements;
    const size_t visits = 2 * (size_t)units;
    bool begun = false;
    ls_status status = LS_OK;
    for (int p = 0; p < pieces && !status; p++) {
        const size_t before = (size_t)p * visits;
        bool member_of[LS_JOB_REPLICAS], any = false;
        ls_sum_order order = {0};
        for (int u = 0; u < units; u++)
            any |= member_of[u] = has[part_of(u, p, pieces, places)];
        if (any)
            status = sum_units(job, of, member_of, units, &order);
        for (size_t i = 0; i < order.count && !status; i++) {
            ls_order_step step = order.steps[i];
            step.visit += before;
            step.input = step.input < 0 ? step.input : part_of(step.input, p, pieces, places);
            step.into += begun; /* behind the sum of earlier pieces */
            step.from += begun;
            status = add_step(of, step);
        }
        if (begun && any && !status)
            status = add_step(of, (ls_order_step){.visit = before + visits - 1,
                                                  .input = LS_SUM_OTHER,
                                                  .from = 1,
                                                  .count = elements});
        begun |= any;
        ls_sum_order_close(&order);
    }
    return status;
}

static ls_status sum_whole(const ls_job *job, const bool *has, int count, ls_sum_order *out)
{
    const int pieces = count < ls_job_parts(job) ? 1 : ls_job_pieces(job);
    const ls_accumulation *a = &job->accumulation;
    const place_sum all = {.out = out};
    if (pieces == 1)
        return sum_units(job, &all, has, count, out);
    if (!a->each || a->breadth)
        return sum_pieces(job, &all, has, pieces, count);
    return job->mesh.size[LS_GROUP] > 1 ? sum_shares(job, has, count, pieces, out)
                                        : sum_exchanges(job, &all, has, pieces, count);
}

ls_status ls_sum_by_algorithm(const ls_job *job, const bool *has, int count, ls_sum_order *out)
{
    const int pieces = ls_job_pieces(job);
    ls_graph_parts parts;
    ls_graph_part split;
    ls_status status = ls_divide(job, &split, &parts);
    if (!status && !parts.count)
        status = sum_whole(job, has, count, out);
    for (int p = 0; p < ls_graph_parts_places(&parts) && !status; p++) {
        const place_sum of = {ls_graph_parts_at(&parts, p), p, p % parts.across != 0, out};
        status = ls_slice_exchanges(job) > 1 ? sum_exchanges(job, &of, has, pieces, count)
                                             : sum_pieces(job, &of, has, pieces, count);
    }
    ls_graph_parts_close(&parts);
    ls_graph_part_close(&split);
    return status;
}

ls_status ls_sum_in_order(const ls_job *job, const bool *has, int count, ls_sum_order *out)
{
    const int replicas = count < ls_job_parts(job) ? count : ls_job_replicas(job);
    const int units = replicas > 1 ? replicas : count, pieces = count / units;
    const place_sum all = {.out = out};
    ls_sum_order order = {0}, *to = pieces > 1 ? &order : out;
    ls_status status = LS_OK;
    for (int u = 0; u < units && !status; u++) {
        ls_order_step step = {.visit = (size_t)u,
                              .input = u,
                              .begins = !to->count,
                              .count = job->model->graph->variables.elements};
        for (int i = u * pieces; i < (u + 1) * pieces; i++)
            if (has[i]) {
                status = ls_sum_order_add(to, &step);
                break;
            }
    }
    if (!status && pieces > 1)
        status = add_pieces(&all, &order, has, pieces, 1);
    ls_sum_order_close(&order);
    return status;
}
