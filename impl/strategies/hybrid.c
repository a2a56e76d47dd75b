/* SPDX-License-Identifier: MIT */
/*
 * hybrid: D replicas of a model, each divided over M devices: model-parallel or a pipeline within a
 * replica, mirrored between replicas. Device number d M + m is place m of replica d.
 *
 * A replica runs its slice of the batch over its places. Place m all-reduces the gradients of its
 * variables with place m of the other replicas, each bucket as soon as backward has made it final,
 * and then updates them.
 *
 * Reduction order: in fast mode a replica's micro-batches in order, then the all-reduce algorithm's
 * own over replicas, place by place and bucket by bucket; in exact mode the tree. Leaves out:
 * all-reduces of libraries.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <string.h>

static void build(ls_step *s)
{
    const bool pipeline = ls_step_job(s)->microbatches > 0;
    for (int r = 0; r < ls_replicas(s); r++)
        (pipeline ? ls_stage_passes : ls_node_passes)(s, r);
    for (int place = 0; place < ls_places(s); place++)
        for (int b = 0; b < ls_buckets_of(s, place); b++)
            ls_all_reduce(s, place, b);
    for (int m = 0; m < ls_members(s); m++)
        for (int b = 0; b < ls_buckets_of(s, ls_place_of(s, m)); b++)
            ls_update(s, m, ls_bucket(s, ls_place_of(s, m), b));
    for (int r = 0; r < ls_replicas(s); r++)
        ls_share_values(s, r);
    for (int m = ls_members(s); m-- > 0;)
        ls_end(s, m);
}

static ls_traffic formula(const ls_step *s)
{
    const ls_traffic borders = ls_border_traffic(s), sums = ls_reduced_traffic(s);
    return (ls_traffic){borders.bytes_sent + sums.bytes_sent,
                        borders.messages_sent + sums.messages_sent};
}

static const ls_declared_option copies = {
    "hybrid-replicas", "D", "2", "replicas", "copies of the split model", .low = 1, .high = 1024};
enum { INNER_MODEL_PARALLEL, INNER_PIPELINE };
static const ls_declared_option inner = {
    "hybrid-inner",
    "model-parallel|pipeline",
    "model-parallel",
    "",
    "split of each replica",
    .type = LS_DECLARED_WORD,
    .words = (const char *const[]){"model-parallel", "pipeline", NULL}};

static bool has(const ls_declared_values *values, int ranks, const ls_declared_option *option)
{
    const bool pipeline = ls_declared_number(values, &inner) == INNER_PIPELINE;
    (void)ranks;
    return option == &copies || option == &inner ||
           (option == &ls_option_model_parallel_place) != pipeline;
}

static void resolve(ls_job *job, int ranks)
{
    job->split_replicas = (int)ls_declared_number(&job->options, &copies);
    if (has(&job->options, ranks, &ls_option_pipeline_microbatches))
        job->microbatches =
            (int)ls_declared_number(&job->options, &ls_option_pipeline_microbatches);
}

/* Lists the numbers of replicas that divide the devices evenly: "1, 2, 3, 6". */
static void list_divisors(int64_t devices, char *text, size_t size)
{
    size_t used = 0;
    *text = 0;
    for (int64_t d = 1; d <= devices && used + 24 < size; d++)
        if (devices % d == 0)
            used += (size_t)snprintf(text + used, size - used, "%s%lld", used ? ", " : "",
                                     (long long)d);
}

static ls_status check(const ls_outline *o)
{
    const int64_t devices = (int64_t)o->devices * o->ranks, replicas = o->job->split_replicas;
    char divisors[256];
    list_divisors(devices, divisors, sizeof divisors);
    if (devices % replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--hybrid-replicas",
                       "%lld replicas cannot share %lld devices evenly; %s can",
                       (long long)replicas, (long long)devices, divisors);
    const int64_t places = devices / replicas, here = (int64_t)o->devices;
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
    return ls_check_microbatches(o, (int)replicas, "replica");
}

const ls_strategy ls_strategy_hybrid = {
    .name = "hybrid",
    .help = "replicas of a model that is split over several devices each",
    .equivalent = true,
    .variables = LS_VARIABLES_PLACED,
    .replicated = true,
    .reduces = true,
    .options = (const ls_declared_option *const[]){&copies, &inner, &ls_option_model_parallel_place,
                                                   &ls_option_pipeline_microbatches,
                                                   &ls_option_pipeline_schedule, NULL},
    .has = has,
    .resolve = resolve,
    .check = check,
    .build = build,
    .formula = formula,
    .sum = ls_sum_by_algorithm,
};
