/* SPDX-License-Identifier: MIT */
/* Traffic of sums over replicas, by closed forms; see ls_moved_traffic. */
#include "common/comm/comm_wire.h"
#include "impl/step/verbs/build.h"

static uint64_t count_exchanges(const ls_step *s)
{
    return (uint64_t)ls_replicated_exchanges(ls_step_job(s), s->batch_kind);
}

/* How many backward passes of a stage must gather a bucket again, since its window no longer has
 * what the chunk's forward pass gathered. Without memory to count it is 0, and the sum is wrong. */
static uint64_t count_lost(const ls_step *s, const ls_windows *windows, int stage, int b)
{
    const ls_job *job = ls_step_job(s);
    const ls_schedule schedule = ls_replicated_schedule(job, 0, s->batch_kind);
    ls_schedule_most most;
    uint64_t lost = 0;
    if (!ls_step_is_staged(s) || !schedule.microbatches)
        return 0;
    ls_status status =
        ls_schedule_count(&schedule, stage, ls_bucket_chunk(windows->buckets, b), &most);
    for (int before = 0; before < LS_PASSES_BEFORE && !status; before++)
        if (ls_windows_lost(windows, b, (ls_pass_before)before))
            lost += (uint64_t)most.before[before];
    ls_status_free(status);
    return lost;
}

/* A bucket's all-gathers: in each forward pass, and in backward passes that do not find it in its
 * window. Once, if windows are as many as buckets, or parameters are whole between steps. */
static uint64_t count_gathers(const ls_step *s, int set, int b)
{
    const ls_windows *windows = &s->plan->groups[set].windows;
    const uint64_t all = count_exchanges(s);
    const int stage = set % ls_step_plan_parts(s->plan) / s->plan->mesh.size[LS_SLICE];
    if (!windows->buckets || s->plan->parameters.windows == LS_ALL_WINDOWS)
        return 1;
    return all + (ls_windows_twice(windows, b) ? all : 0) + count_lost(s, windows, stage, b);
}

/* The traffic of a bucket's reduce-scatters in a set of replicas: in exact mode one for each
 * exchange. */
static ls_traffic scatter_traffic(const ls_step *s, int set, ls_extent extent)
{
    const ls_job *job = ls_step_job(s);
    const int members = s->plan->mesh.size[LS_MEMBER], kept = ls_slice_kept(job);
    const int group = set / ls_step_plan_parts(s->plan), groups = s->plan->mesh.size[LS_GROUP];
    const int64_t shards = ls_step_shards(s);
    ls_traffic sum = {0};
    for (int e = 0; e < kept && shards; e++)
        ls_traffic_add(
            &sum,
            ls_canonical_scatter_formula((ls_rank_group){group * kept + e, groups * kept}, members,
                                         extent, shards),
            1);
    if (!shards)
        ls_traffic_add(&sum,
                       ls_gradient_sum(job)->half_formula(LS_REDUCE_SCATTER, members, extent, 0),
                       count_exchanges(s));
    return sum;
}

/* The traffic of a bucket's sums in a set, or of shares' sums between groups. Where members share
 * the update, or fold what several exchanges leave, a sum is reduce-scatters and all-gathers. */
static ls_traffic bucket_traffic(const ls_step *s, int set, int b)
{
    const ls_job *job = ls_step_job(s);
    const ls_planned_group *g = &s->plan->groups[set];
    const ls_extent extent = g->buckets.extents[b];
    const int *size = s->plan->mesh.size;
    const bool crosses = set >= ls_step_plan_sets(s->plan), shares = ls_step_plan_shares(s->plan);
    const int ranks = crosses ? size[LS_GROUP] : size[LS_MEMBER] * size[LS_POSITION];
    ls_traffic sum = {0};
    if (job->exchange.wire)
        return ls_wired_formula(job->exchange.wire, LS_HALVES, ranks, extent);
    if (crosses || !(shares || ls_step_folds(job))) {
        ls_traffic_add(&sum,
                       ls_gradient_sum(job)->formula(ranks, extent, ls_step_shards(s), g->layout),
                       crosses ? 1 : count_exchanges(s));
        return sum;
    }
    sum = scatter_traffic(s, set, extent);
    const ls_allreduce *gather =
        shares && ls_job_rounds(job) ? &ls_allreduce_stored : job->exchange.allreduce;
    ls_traffic_add(&sum, gather->half_formula(LS_ALL_GATHER, ranks, extent, 0),
                   count_gathers(s, set, b));
    return sum;
}

/* The traffic of all buckets that are exchanged in this step. */
static ls_traffic reduced_traffic(const ls_step *s)
{
    ls_traffic sum = {0};
    for (int k = 0; k < s->plan->group_count; k++) {
        const ls_buckets *buckets = &s->plan->groups[k].buckets;
        for (int b = 0; b < (int)buckets->count; b++)
            if (ls_range_common(buckets->items[b], ls_step_due(s)).count)
                ls_traffic_add(&sum, bucket_traffic(s, k, b), 1);
    }
    return sum;
}

ls_traffic ls_moved_traffic(const ls_step *s)
{
    ls_traffic sum = reduced_traffic(s);
    if (s->plan->context)
        ls_traffic_add(&sum, ls_step_all_to_all_traffic(s), 1);
    else if (s->plan->parts.count)
        ls_traffic_add(&sum, ls_step_border_traffic(s), 1);
    if (s->plan->parts.across > 1)
        ls_traffic_add(&sum, ls_step_sums_traffic(s), 1);
    return sum;
}
