/* SPDX-License-Identifier: MIT */
/* Building programs, and what a strategy asks of its step; see resources.h and step.h. */
#include "impl/step/verbs/build.h"

#include "common/base/grow.h"

#include <stdlib.h>

/* ---- Building -------------------------------------------------------------------------------- */

void ls_step_fail(ls_step *s, ls_status status)
{
    ls_step_program_fail(s->program, status);
}

bool ls_step_can(ls_step *s, bool can, const char *verb, const char *why)
{
    if (!can && !s->program->status)
        ls_step_fail(
            s, ls_fail(LS_CODE_USAGE, "strategy", s->plan->strategy->name, "%s %s", verb, why));
    return !s->program->status;
}

static ls_step open_step(ls_resources *r, int kind, ls_step_program *program)
{
    const int batch_kind = kind == LS_EVALUATION ? LS_FULL : kind % LS_BATCHES;
    return (ls_step){.plan = r->plan,
                     .resources = r,
                     .kind = kind,
                     .batch_kind = batch_kind,
                     .batch = ls_replicated_batch(r->plan->job, batch_kind),
                     .program = program};
}

ls_status ls_build_step(ls_resources *r, int kind, ls_step_program *programs)
{
    const int kinds = ls_kinds_of_steps(r->plan->job);
    ls_step s = open_step(r, kind, &programs[kind]);
    s.before = &programs[kinds + LS_BEFORE];
    s.after = &programs[kinds + LS_AFTER];
    if (!s.batch)
        return LS_OK;
    LS_TRY(ls_allocate("step", &s.appended, (size_t)(r->plan->all * ls_job_chunks(r->plan->job)),
                       sizeof *s.appended));
    const size_t windows = (size_t)ls_replicas(&s) * (size_t)r->plan->parts.count *
                           (size_t)(r->plan->repeats.of ? ls_step_most_pieces(&s) : 0);
    ls_status status = ls_allocate("step", &s.in_windows, windows + 1, sizeof *s.in_windows);
    if (status)
        ls_step_fail(&s, status);
    r->plan->strategy->build(&s);
    ls_step_append_ends(&s);
    free(s.in_windows);
    free(s.appended);
    ls_step_close_order(&s);
    return s.program->status;
}

ls_status ls_build_evaluation(ls_resources *r, const int *pieces, ls_step_program *program)
{
    const ls_step_plan *plan = r->plan;
    const ls_graph *graph = plan->parts.count   ? plan->parts.whole
                            : plan->split.graph ? plan->split.graph
                                                : plan->job->model->graph;
    ls_step s = open_step(r, LS_EVALUATION, program);
    for (int n = 0; n < graph->count && !program->status; n++) {
        if (!ls_layer_predicts(graph->nodes[n].layer))
            continue;
        for (int place = 0; place < plan->mesh.places && plan->parameters.windows; place++)
            ls_step_gather_for(&s, place, n, LS_PASS_FORWARD);
        for (int d = 0; d < ls_replicas(&s); d++)
            if (pieces[d] >= 0 && plan->parts.count)
                ls_run_node(&s, d, (size_t)pieces[d], n, LS_PASS_FORWARD);
            else if (pieces[d] >= 0 && ls_step_replica(&s, d))
                ls_step_predict(&s, "predict", d, pieces[d], n, LS_NET_PREDICT);
    }
    return program->status;
}

ls_traffic ls_build_formula(ls_resources *r, int kind)
{
    const ls_step s = open_step(r, kind, NULL);
    const ls_strategy *strategy = r->plan->strategy;
    ls_traffic sum = strategy->witness.formula ? strategy->witness.formula(&s) : (ls_traffic){0};
    ls_traffic_add(&sum, ls_step_clip_traffic(&s), 1);
    return sum;
}

/* ---- Queries --------------------------------------------------------------------------------- */

ls_member *ls_step_member(const ls_step *s, int member)
{
    return &s->resources->members[member];
}

ls_replica *ls_step_replica(const ls_step *s, int member)
{
    return ls_step_member(s, member)->replica;
}

const ls_job *ls_step_job(const ls_step *s)
{
    return s->plan->job;
}

ls_range ls_step_due(const ls_step *s)
{
    const ls_job *job = ls_step_job(s);
    if (!job->update.period)
        return ls_all(s);
    return s->kind < LS_LAST ? (ls_range){0} : ls_job_fragment_range(job, s->kind / LS_LAST - 1);
}

int ls_replicas(const ls_step *s)
{
    return s->plan->mesh.replicas;
}

int ls_members(const ls_step *s)
{
    return s->plan->mesh.replicas * s->plan->mesh.places;
}

int ls_step_most_pieces(const ls_step *s)
{
    int most = 1;
    for (int r = 0; r < ls_replicas(s); r++) {
        const int pieces = ls_replicated_pieces(ls_step_job(s), r, s->batch_kind);
        most = pieces > most ? pieces : most;
    }
    return most;
}

int ls_holder(const ls_step *s)
{
    return s->plan->holder;
}

int ls_shadow(ls_step *s, int replica)
{
    const bool can = ls_step_can(s, s->plan->all > s->plan->total, "ls_shadow",
                                 "can be called only if the backward pass runs on another device "
                                 "than the forward pass; use --colocate-gradients no");
    return can ? s->plan->total + replica : replica;
}

int64_t ls_shards_of(const ls_job *job, int batch_kind)
{
    return ls_job_shards(job, ls_replicated_batch(job, batch_kind));
}

int64_t ls_step_shards(const ls_step *s)
{
    return ls_job_shards(ls_step_job(s), s->batch);
}

size_t ls_sums(const ls_step *s, int replica)
{
    return ls_slice_count_sums(ls_step_job(s), s->batch, replica, s->plan->mesh.replicas);
}

ls_range ls_all(const ls_step *s)
{
    return (ls_range){0, ls_step_job(s)->model->graph->variables.elements};
}

ls_span ls_own(ls_step *s, int member, int i, ls_range range)
{
    ls_span span = ls_parameters(s, member, range);
    const ls_replica *r = ls_step_replica(s, member);
    if (ls_step_can(s, i < ls_step_job(s)->update.owned, "ls_own",
                    "was called for a buffer that the strategy does not have; declare the buffer "
                    "in the strategy's .owns") &&
        r)
        span.memory = (char *)r->updated.state[LS_ARRAYS + i] +
                      ((char *)span.memory - (char *)ls_replica_trained(r));
    return span;
}

ls_span ls_parameters(const ls_step *s, int member, ls_range range)
{
    const ls_replica *r = ls_step_replica(s, member);
    if (!r)
        return (ls_span){member, NULL, range.count * sizeof(float)};
    const size_t real = r->kernels->table->real_bytes, first = ls_step_offset(s, member, range);
    return (ls_span){member, (char *)ls_replica_trained(r) + first * real, range.count * real};
}

/* ---- Buckets --------------------------------------------------------------------------------- */

int ls_step_set_of(const ls_step_plan *plan, int *b)
{
    int set = 0, end = plan->group_count ? ls_step_plan_parts(plan) : 1;
    while (end - set > 1) {
        const int middle = (set + end) / 2;
        *(plan->groups[middle].before <= *b ? &set : &end) = middle;
    }
    *b -= plan->groups[set].before;
    return set;
}

int ls_bucket_count(ls_step *s)
{
    if (!ls_step_can(s, s->plan->group_count, "ls_bucket_count", ls_no_buckets))
        return 0;
    const ls_planned_group *last = &s->plan->groups[ls_step_plan_parts(s->plan) - 1];
    return last->before + (int)last->buckets.count;
}

ls_range ls_bucket(const ls_step *s, int b)
{
    const ls_buckets *buckets = &s->plan->groups[ls_step_set_of(s->plan, &b)].buckets;
    const ls_range range = (size_t)b < buckets->count ? buckets->items[b] : ls_no_range;
    return ls_range_common(range, ls_step_due(s)).count ? range : ls_no_range;
}

ls_range ls_share(const ls_step *s, int member, int b)
{
    const ls_planned_group *g = ls_step_planned_group(s->plan, s->plan->members[member].place);
    const int at = b - g->before;
    if (at < 0 || at >= (int)g->buckets.count || !ls_bucket(s, b).count)
        return ls_no_range;
    return ls_step_plan_bucket_share(s->plan, member, (size_t)at);
}
