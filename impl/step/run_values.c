/* SPDX-License-Identifier: MIT */
/* The variables of a run, and evaluation with them; see run.h. */
#include "common/base/grow.h"
#include "impl/step/run.h"
#include "impl/step/served.h"

#include <stdlib.h>

/* ---- Variables ------------------------------------------------------------------------------- */

/* The replica with a part in this process: sends each place's variables to the replica's other
 * processes. */
static ls_status gather_places(ls_step_run *me, float *parameters)
{
    const ls_step_plan *plan = &me->plan;
    const ls_job *job = plan->job;
    const int own = ls_step_plan_own(plan), first = own - own % plan->places;
    const ls_planned_member *members = &plan->members[first];
    LS_TRY(ls_comm_agree(job->comm, ls_resources_gather(&me->resources, first, plan->places,
                                                        LS_VALUES, parameters)));
    for (int p = 0; p < plan->places; p++) {
        const ls_graph_part *part = &plan->parts.parts[p];
        for (size_t v = 0; v < part->graph->variables.count; v++) {
            const ls_variable *its = &part->graph->variables.items[v];
            const ls_slab whole = {.rows = 1, .ranges = 1, .width = its->count};
            const ls_slab *slab = part->slabs ? &part->slabs[v] : &whole;
            for (size_t i = 0; i < slab->rows * slab->ranges && its->offset < part->owned; i++)
                LS_TRY(ls_broadcast(
                    job, members[p].process, members[0].process, members[plan->places - 1].process,
                    parameters + part->whole[v] + i / slab->ranges * slab->row_stride +
                        i % slab->ranges * slab->range_stride,
                    slab->width));
        }
    }
    return LS_OK;
}

/* Sends a member's share of a bucket from its process to all others; `packed` has room for it. */
static ls_status broadcast_share(const ls_step_plan *plan, int m, size_t b, float *packed,
                                 float *out)
{
    const ls_job *job = plan->job;
    const ls_graph_part *part = ls_step_plan_part(plan, m);
    const ls_range share =
        ls_bucket_share(&ls_step_planned_group(plan, plan->members[m].place)->buckets, b,
                        ls_step_plan_share(plan, m), plan->sharing);
    if (!share.count)
        return LS_OK;
    ls_graph_part_copy(part, share, packed, out, true);
    LS_TRY(
        ls_broadcast(job, plan->members[m].process, 0, job->comm->size - 1, packed, share.count));
    ls_graph_part_copy(part, share, packed, out, false);
    return LS_OK;
}

/* The shares of the variables, or of their averages, of the members that have them all: of all
 * places or, of several groups of replicas, of the first; all groups have the same. */
static ls_status gather_shares(ls_step_run *me, ls_values values, float *out)
{
    const ls_step_plan *plan = &me->plan;
    const ls_job *job = plan->job;
    const int count = plan->sharing * plan->places;
    float *packed;
    LS_TRY(ls_comm_agree(job->comm, ls_resources_gather(&me->resources, 0, count, values, out)));
    LS_TRY(
        ls_comm_agree(job->comm, ls_allocate("step", &packed, job->model->graph->variables.elements,
                                             sizeof *packed)));
    ls_status status = LS_OK;
    for (int m = 0; m < count && job->comm; m++) {
        const size_t buckets = ls_step_planned_group(plan, plan->members[m].place)->buckets.count;
        for (size_t b = 0; b < buckets && !status; b++)
            status = broadcast_share(plan, m, b, packed, out);
    }
    free(packed);
    return status;
}

ls_status ls_steps_gather(ls_step_run *me, ls_values values, float *out)
{
    const ls_step_plan *plan = &me->plan;
    const int own = ls_step_plan_own(plan), places = plan->places;
    if (me->resources.served)
        return ls_served_gather(&me->resources, values, out);
    if (plan->context) /* each place has all */
        return ls_resources_gather(&me->resources, own, 1, values, out);
    if (plan->groups->windows.buckets || (values == LS_AVERAGES && plan->sharing))
        return gather_shares(me, values, out);
    if (plan->parts.count && ls_step_plan_is_shared(plan))
        return gather_places(me, out);
    return ls_resources_gather(
        &me->resources, plan->holder >= 0 ? plan->holder : own - own % places, places, values, out);
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

static ls_status build_evaluation(ls_step_run *me, int replica)
{
    ls_step_program *p = &me->evaluation;
    if (p->task_count)
        return LS_OK;
    p->lanes = &me->plan.lanes;
    ls_status status = ls_build_evaluation(&me->resources, replica, p);
    if (status)
        ls_step_program_close(p);
    return status;
}

/* What the places of split layers have sent. */
static ls_traffic count_sums(const ls_step_run *me)
{
    const ls_step_plan *plan = &me->plan;
    ls_traffic sum = {0};
    for (int c = LS_GROUPS + plan->group_count; c < plan->lanes.channel_count; c++)
        for (ls_comm *const *comm = me->resources.ends[c].comms; *comm; comm++)
            if (!ls_comm_is_joint(*comm))
                ls_traffic_add(&sum, ls_comm_traffic(*comm), 1);
    return sum;
}

/* A forward pass of member number `member`, whose parameters come from the host into windows. */
typedef struct visit {
    const ls_replica *replica;
    const ls_net *net;
    int member, next; /* next: the bucket that was moved last */
    float *values;    /* float32 [elements], in the order of its part; NULL: they are whole */
} visit;

/* The forward passes of the parts, in this process, of a replica. */
typedef struct visits {
    ls_step_run *run;
    visit *parts; /* [count] */
    int count;
} visits;

/* Moves each bucket into its window just before the first node that needs it. */
static ls_status fill_windows(visit *v, int node)
{
    const ls_windows *windows = v->replica->windows;
    for (const int need = ls_windows_need(windows, node); v->next > need;) {
        const ls_range bucket = windows->buckets->items[--v->next];
        LS_TRY(ls_queue_write(v->replica->queue,
                              (float *)v->replica->window + ls_windows_at(windows, bucket.first),
                              v->values + bucket.first, bucket.count * sizeof *v->values));
    }
    return LS_OK;
}

static ls_status fill_before(void *context, const ls_task *task)
{
    visits *all = context;
    const int member = all->run->plan.lanes.items[task->lane].member;
    for (int i = 0; i < all->count && task->node >= 0; i++)
        if (all->parts[i].member == member && all->parts[i].values)
            return fill_windows(&all->parts[i], task->node);
    return LS_OK;
}

/* Of a replica that is not divided. */
static ls_status predict_alone(visit *v)
{
    const ls_graph *graph = v->replica->graph;
    for (int n = 0; n < graph->count; n++) {
        if (!ls_layer_predicts(graph->nodes[n].layer))
            continue;
        LS_TRY(fill_windows(v, n));
        LS_TRY(ls_net_node_enqueue(v->net, n, LS_NET_PREDICT, v->replica->queue));
    }
    return LS_OK;
}

/* Runs tasks one by one: evaluation is not timed, and what it sends is not a step's. */
static ls_status predict(void *context)
{
    visits *all = context;
    ls_step_run *me = all->run;
    for (int i = 0; i < all->count; i++)
        all->parts[i].next =
            all->parts[i].values ? (int)all->parts[i].replica->windows->buckets->count : 0;
    if (!me->plan.parts.count)
        return predict_alone(all->parts);
    const ls_traffic before = count_sums(me);
    LS_TRY(ls_enqueue_serially(me, &me->evaluation, fill_before, all));
    const ls_traffic after = count_sums(me);
    me->counts.before.bytes_sent -= after.bytes_sent - before.bytes_sent;
    me->counts.before.messages_sent -= after.messages_sent - before.messages_sent;
    return LS_OK;
}

/* The parts, in this process, of member `own`'s replica: itself, or its places. */
static int parts_here(const ls_step_run *me, int own)
{
    const int next = (own / me->plan.places + 1) * me->plan.places;
    int count = 0;
    while (own + count < next && me->resources.members[own + count].replica)
        count++;
    return count;
}

/* Evaluates by the members, in this process, of the replica of member `own`, divided or not. Where
 * parameters are in windows, they come from `values`, those of the whole model. */
static ls_status evaluate_replica(ls_step_run *me, int own, float *values, uint64_t most,
                                  ls_evaluation *out)
{
    const bool divided = me->plan.parts.count;
    ls_comm *const *comms = me->resources.ends[LS_MESSAGES].comms;
    ls_tested parts[LS_JOB_REPLICAS];
    visits all = {.run = me, .count = parts_here(me, own)};
    ls_status status = divided ? build_evaluation(me, own / me->plan.places) : LS_OK;
    if (!status)
        status = ls_allocate("step", &all.parts, (size_t)all.count, sizeof *all.parts);
    for (int i = 0; i < all.count && !status; i++) {
        const ls_member *m = &me->resources.members[own + i];
        visit *v = &all.parts[i];
        *v = (visit){m->replica, ls_slice_piece_net(m->slice[LS_FULL], 0), .member = own + i};
        parts[i] = (ls_tested){m->replica, ls_slice_piece_net(m->slice[LS_FULL], 0)};
        if (values)
            status = ls_allocate("step", &v->values, v->replica->elements, sizeof *values);
        if (v->values)
            ls_graph_part_copy(v->replica->part, (ls_range){0, v->replica->elements}, v->values,
                               values, true);
    }
    if (!status)
        status = ls_replica_evaluate(parts, all.count, divided || values ? predict : NULL, &all,
                                     most, out);
    for (int i = 0; i < all.count && all.parts; i++)
        free(all.parts[i].values);
    free(all.parts);
    for (int i = 0; status && divided && comms[i]; i++)
        comms[i]->backend->abandon(comms[i]); /* for peers that wait for this process */
    if (status && me->plan.job->tensor)
        ls_resources_abandon(&me->resources);
    return status;
}

/* The averages of all variables, or these if there are none, in new memory, which the caller frees,
 * also on failure. */
static ls_status gather_averages(ls_step_run *me, float **out)
{
    const ls_job *job = me->plan.job;
    const size_t elements = job->model->graph->variables.elements;
    LS_TRY(ls_comm_agree(job->comm, ls_allocate("step", out, elements, sizeof **out)));
    return ls_steps_gather(me, LS_AVERAGES, *out);
}

/* Copies the averages to the parts of a replica that are here. */
static ls_status fetch(ls_step_run *me, int own)
{
    float *values = NULL;
    ls_status status = gather_averages(me, &values);
    for (int i = 0; i < parts_here(me, own) && !status; i++)
        status = ls_replica_set(me->resources.members[own + i].replica, values);
    free(values);
    return status;
}

/* Evaluates on replicas that have shares of the parameters. */
static ls_status evaluate_in_windows(ls_step_run *me, int own, uint64_t most, ls_evaluation *out)
{
    float *values = NULL;
    ls_status status = gather_averages(me, &values);
    if (!status)
        status = evaluate_replica(me, own, values, most, out);
    free(values);
    return status;
}

/* Reads the parameters of a replica's parts that are here into new memory; `back`: writes them, and
 * frees it. */
static ls_status keep_values(const ls_step_run *me, int own, bool back, float **kept)
{
    const ls_member *parts = &me->resources.members[own];
    const int count = parts_here(me, own);
    size_t all = 0;
    ls_status status = LS_OK;
    for (int i = 0; i < count; i++)
        all += parts[i].replica->elements;
    if (!back)
        LS_TRY(ls_allocate("step", kept, all, sizeof **kept));
    float *at = *kept;
    for (int i = 0; i < count && !status; at += parts[i++].replica->elements) {
        const ls_replica *r = parts[i].replica;
        const size_t bytes = r->elements * sizeof *at;
        status = back ? ls_queue_write(r->queue, r->parameters, at, bytes)
                      : ls_queue_read(r->queue, at, r->parameters, bytes);
    }
    if (back) {
        free(*kept);
        *kept = NULL;
    }
    return status;
}

/* Sends the result of one process to all, in all others accuracy is -1; or the first replica's, of
 * whose processes each has that of its positions. */
static ls_status share_result(const ls_step_plan *plan, ls_status mine, ls_evaluation *out)
{
    const ls_job *job = plan->job;
    const size_t n = (size_t)ls_job_processes(job);
    const size_t parts = plan->context ? (size_t)plan->places / job->device_count : 0;
    ls_evaluation *all;
    mine = ls_status_first(mine, ls_allocate("accuracy", &all, n, sizeof *all));
    ls_status status = ls_comm_bring(job->comm, mine, out, sizeof *out, all);
    for (size_t p = n; p-- > 0 && !status;)
        if (all[p].accuracy >= 0)
            *out = all[p];
    for (size_t p = 1; p < parts && !status; p++)
        ls_evaluation_add(&all[p], out);
    free(all);
    return status;
}

/* Evaluates the first replica of this process; with servers, worker 0. A replica without variables
 * of its own, or with only its share of their averages, gets them all first, and then back what it
 * had: a tower may have fetched ahead. A worker pulls anew in its next step. */
ls_status ls_steps_evaluate(ls_run *run, uint64_t most, ls_evaluation *out)
{
    ls_step_run *me = ls_step_run_of(run);
    const ls_step_plan *plan = &me->plan;
    const bool served = plan->servers.servers;
    const int own = served ? 0 : ls_step_plan_own(plan);
    const ls_replica *r = me->resources.members[own].replica;
    const bool shares = plan->sharing && run->job->average != 0 && !plan->groups->windows.buckets;
    const bool fetches = served || shares || (plan->holder >= 0 && plan->holder != own);
    float *values = NULL;
    ls_status status = LS_OK;
    *out = (ls_evaluation){.accuracy = -1};
    if (fetches && !served)
        status = ls_comm_agree(run->job->comm, keep_values(me, own, false, &values));
    if (!status && fetches)
        status = fetch(me, own);
    if (plan->groups->windows.buckets)
        status = evaluate_in_windows(me, own, most, out);
    else if (!status && r)
        status = evaluate_replica(me, own, NULL, most, out);
    if (!status && values)
        status = keep_values(me, own, true, &values);
    free(values);
    return ls_step_plan_is_shared(plan) ? share_result(plan, status, out) : status;
}
