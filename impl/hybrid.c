/* SPDX-License-Identifier: MIT */
/*
 * hybrid: D replicas of a model that is divided over M devices each: inside model-parallel or a
 * pipeline, outside mirrored. Device number d M + m is place m of replica d.
 *
 *     every replica takes its slice of the batch through its places (divided_step.c); place m
 *     reduces the gradients of what it owns with place m of the other replicas, in buckets, as soon
 *     as backward has made them final (mirror.h), and updates it
 *
 * Order of summation: fast mode a replica's micro-batches in order, then the all-reduce algorithm's
 * own over the replicas, place by place and bucket by bucket; exact mode the tree. Leaves out: the
 * all-reduce of a library.
 */
#include "impl/divided.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Numbers of replicas that so many devices can be dealt out to: "1, 2, 3, 6". */
static void list_divisors(int64_t devices, char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    for (int64_t d = 1; d <= devices && used + 24 < size; d++)
        if (devices % d == 0)
            used += (size_t)snprintf(text + used, size - used, "%s%lld", used ? ", " : "",
                                     (long long)d);
}

/* Every replica needs a sample (exact: a shard) for each micro-batch. */
static ls_status check_microbatches(const ls_outline *o)
{
    const int64_t shards = o->micro_shards < o->batch ? o->micro_shards : o->batch;
    const int64_t least = (o->exact ? shards : o->batch) / o->replicas;
    if (o->microbatches <= least || least < 1) /* too few for all replicas: told so later */
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, "option", "--pipeline-microbatches",
                   "%d micro-batches are more than the %lld %s of a replica; at most %lld work",
                   o->microbatches, (long long)least, o->exact ? "shards" : "samples",
                   (long long)least);
}

static ls_status check(const ls_outline *o)
{
    const int64_t devices = (int64_t)o->devices * o->ranks;
    char divisors[256];
    list_divisors(devices, divisors, sizeof divisors);
    if (devices % o->replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--hybrid-replicas",
                       "%d replicas cannot share %lld devices evenly; %s can", o->replicas,
                       (long long)devices, divisors);
    const int64_t places = devices / o->replicas, here = (int64_t)o->devices;
    if (here % places && places % here && strcmp(o->comm, "mpi") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--hybrid-replicas",
                       "replicas of %lld devices cannot be dealt out to processes of %lld; a "
                       "multiple or a part of these works",
                       (long long)places, (long long)here);
    if (strcmp(o->comm, "nccl") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--comm",
                       "nccl adds up whole models, and hybrid's are split; use auto");
    if (strcmp(o->allreduce, "library") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "library adds up whole models, and hybrid's are split; use direct, ring, "
                       "tree, halving-doubling, flat or auto");
    return check_microbatches(o);
}

static ls_status open_run(const ls_strategy *strategy, const ls_job *job, ls_run **out)
{
    return ls_divided_start(strategy, job, true, out);
}

/* ---- The gate's: sums in sequence ----------------------------------------------------------- */

/* A place's sums: those of its mirror, and above them what a replica's parts add up to. */
typedef struct place_sum {
    const ls_graph_part *part;
    const ls_variables *whole;
    const bool *has; /* [replicas, parts] */
    int parts;       /* of a replica */
    int above;       /* the sum of these */
    ls_sum_order *out;
} place_sum;

/* A step over elements of the place, as steps over the whole's. */
static ls_status add_step(const place_sum *p, ls_order_step step)
{
    const size_t first = step.first, last = step.first + step.count;
    for (size_t v = 0; v < p->part->graph->variables.count; v++) {
        const ls_variable *mine = &p->part->graph->variables.items[v];
        const size_t begin = first > mine->offset ? first : mine->offset;
        const size_t end = mine->offset + mine->count;
        if (begin >= (last < end ? last : end))
            continue;
        step.first = p->whole->items[p->part->variable[v]].offset + begin - mine->offset;
        step.count = (last < end ? last : end) - begin;
        LS_TRY(ls_sum_order_add(p->out, &step));
    }
    return LS_OK;
}

/* A replica's input is its parts, added up in order. */
static ls_status add_replica(const place_sum *p, const ls_order_step *step)
{
    const size_t first = (size_t)step->input * (size_t)p->parts;
    ls_order_step each = *step, fold = *step;
    each.into = fold.from = p->above;
    each.begins = true;
    for (int i = 0; i < p->parts; i++) {
        if (!p->has[first + (size_t)i])
            continue;
        each.input = (int)first + i;
        each.visit = step->visit * (size_t)p->parts + (size_t)i;
        LS_TRY(add_step(p, each));
        each.begins = false;
    }
    fold.input = each.begins ? LS_SUM_ZEROS : LS_SUM_OTHER;
    fold.visit = (step->visit + 1) * (size_t)p->parts - 1;
    return add_step(p, fold);
}

static ls_status sum_place(const ls_job *job, const ls_graph_parts *parts, int place,
                           const bool *has, ls_sum_order *out)
{
    const ls_graph_part *part = &parts->parts[place];
    const int n = ls_job_replicas(job);
    const ls_mirror_options options = {
        .job = job, .graph = part->graph, .elements = part->owned, .place = place};
    bool all[LS_JOB_REPLICAS];
    for (int d = 0; d < n; d++)
        all[d] = true; /* zeros are found out here */
    ls_sum_order mirror = {0};
    ls_status status = ls_mirror_sum(&options, all, n, &mirror);
    const place_sum p = {part, &parts->whole->variables, has, ls_job_parts(job) / n, mirror.sums,
                         out};
    for (size_t i = 0; i < mirror.count && !status; i++) {
        ls_order_step step = mirror.steps[i];
        if (step.input >= 0) {
            status = add_replica(&p, &step);
            continue;
        }
        step.visit = (step.visit + 1) * (size_t)p.parts - 1;
        status = add_step(&p, step);
    }
    ls_sum_order_close(&mirror);
    return status;
}

static ls_status sum(const ls_job *job, const bool *has, int count, ls_sum_order *out)
{
    ls_graph_parts parts = {0};
    (void)count;
    LS_TRY(ls_graph_parts_open(job->model->graph, job->place, ls_job_places(job), &parts));
    ls_status status = LS_OK;
    for (int p = 0; p < parts.count && !status; p++)
        status = sum_place(job, &parts, p, has, out);
    ls_graph_parts_close(&parts);
    return status;
}

/* ---- The strategy --------------------------------------------------------------------------- */

static void each_op(const ls_run *base, ls_op_visit visit, void *context)
{
    const ls_divided *me = (const ls_divided *)base;
    ls_replicated_each(base, visit, context);
    for (int p = 0; p < me->parts.count; p++)
        ls_mirror_each(&me->mirrors[p], visit, context);
}

static ls_status profile(ls_run *base, bool on)
{
    ls_divided *me = (ls_divided *)base;
    for (int p = 0; p < me->parts.count; p++)
        LS_TRY(ls_mirror_profile(&me->mirrors[p], on));
    return ls_replicated_profile(base, on);
}

static ls_time_profile times(const ls_run *base, size_t index)
{
    const ls_divided *me = (const ls_divided *)base;
    const size_t here = (size_t)me->shared.places;
    const ls_spread *spread = &me->spreads[index / here];
    const ls_mirror *mirror = &me->mirrors[(size_t)spread->first + index % here];
    const ls_time_profile own = ls_replicated_times(base, index);
    return mirror->count ? ls_reducer_times(&mirror->reducers[index / here], own) : own;
}

const ls_strategy ls_strategy_hybrid = {
    .name = "hybrid",
    .help = "replicas of a model that is split over several devices each",
    .equivalent = true,
    .divided = true,
    .replicated = true,
    .reduces = true,
    .check = check,
    .open = open_run,
    .load = ls_divided_load,
    .step = ls_replicated_step,
    .sync = ls_divided_sync,
    .mark = ls_replicated_mark,
    .records = ls_replicated_records,
    .gather = ls_divided_gather,
    .gather_replica = ls_divided_gather_replica,
    .evaluate = ls_divided_evaluate,
    .describe = ls_replicated_describe,
    .profile = profile,
    .times = times,
    .each_op = each_op,
    .memory = ls_divided_memory,
    .traffic = ls_divided_traffic,
    .sum = sum,
    .close = ls_divided_close,
};
