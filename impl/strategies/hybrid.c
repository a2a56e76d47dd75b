/* SPDX-License-Identifier: MIT */
/*
 * hybrid: D replicas of a model that is divided over M devices each: inside model-parallel or a
 * pipeline, outside mirrored. Device number d M + m is place m of replica d.
 *
 * Every replica takes its slice of the batch through its places; place m reduces the gradients of
 * what it owns with place m of the other replicas, bucket by bucket, each as soon as backward has
 * made it final, and updates it.
 *
 * Order of summation: fast mode a replica's micro-batches in order, then the all-reduce algorithm's
 * own over the replicas, place by place and bucket by bucket; exact mode the tree. Leaves out: the
 * all-reduce of a library.
 */
#include "impl/step/step.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <string.h>

static void take_pass(ls_step *s, int replica, const ls_pass *pass)
{
    if (pass->backward)
        ls_backward_stage(s, replica, pass->stage, pass->microbatch);
    else
        ls_forward_stage(s, replica, pass->stage, pass->microbatch);
}

static void go_through_stages(ls_step *s, int replica)
{
    const ls_schedule schedule = ls_schedule_of(s, replica);
    ls_pass pass;
    for (int tick = 0; tick < ls_schedule_ticks(&schedule); tick++)
        for (int stage = ls_places(s); stage-- > 0;)
            if (ls_schedule_at(&schedule, tick, stage, &pass))
                take_pass(s, replica, &pass);
}

static void go_through_nodes(ls_step *s, int replica)
{
    for (int p = 0; p < ls_pieces(s, replica); p++) {
        for (int n = 0; n < ls_nodes(s); n++)
            ls_forward_node(s, replica, p, n);
        for (int n = ls_nodes(s); n-- > 0;)
            ls_backward_node(s, replica, p, n);
    }
}

static void build(ls_step *s)
{
    const bool pipeline = ls_step_job(s)->microbatches > 0;
    for (int r = 0; r < ls_replicas(s); r++)
        (pipeline ? go_through_stages : go_through_nodes)(s, r);
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

const ls_strategy ls_strategy_hybrid = {
    .name = "hybrid",
    .help = "replicas of a model that is split over several devices each",
    .equivalent = true,
    .variables = LS_VARIABLES_PLACED,
    .replicated = true,
    .reduces = true,
    .check = check,
    .build = build,
    .formula = formula,
    .sum = ls_sum_by_algorithm,
};
