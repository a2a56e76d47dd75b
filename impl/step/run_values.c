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

/* The first group's shares of the variables, or of their averages; all groups have the same. */
static ls_status gather_shares(ls_step_run *me, ls_values values, float *out)
{
    const ls_step_plan *plan = &me->plan;
    const ls_job *job = plan->job;
    const ls_buckets *buckets = &plan->groups->buckets;
    const int size = plan->sharing;
    LS_TRY(ls_comm_agree(job->comm, ls_resources_gather(&me->resources, 0, size, values, out)));
    for (size_t b = 0; b < buckets->count && job->comm; b++)
        for (int m = 0; m < size; m++) {
            const ls_range share = ls_bucket_share(buckets, b, m, size);
            LS_TRY(ls_broadcast(job, plan->members[m].process, 0, job->comm->size - 1,
                                out + share.first, share.count));
        }
    return LS_OK;
}

ls_status ls_steps_gather(ls_step_run *me, ls_values values, float *out)
{
    const ls_step_plan *plan = &me->plan;
    const int own = ls_step_plan_own(plan), places = plan->places;
    if (me->resources.served)
        return ls_served_gather(&me->resources, values, out);
    if (plan->context) /* each place has all */
        return ls_resources_gather(&me->resources, own, 1, values, out);
    if (plan->parts.count && ls_step_plan_is_shared(plan))
        return gather_places(me, out);
    if (plan->windows.buckets || (values == LS_AVERAGES && plan->sharing))
        return gather_shares(me, values, out);
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

/* Runs tasks one by one: evaluation is not timed, and what it sends is not a step's. */
static ls_status predict(void *run)
{
    ls_step_run *me = run;
    const ls_traffic before = count_sums(me);
    LS_TRY(ls_enqueue_serially(me, &me->evaluation));
    const ls_traffic after = count_sums(me);
    me->counts.before.bytes_sent -= after.bytes_sent - before.bytes_sent;
    me->counts.before.messages_sent -= after.messages_sent - before.messages_sent;
    return LS_OK;
}

/* Evaluates by the members, in this process, of the replica of member `own`, divided or not. */
static ls_status evaluate_replica(ls_step_run *me, int own, uint64_t most, ls_evaluation *out)
{
    const int places = me->plan.places, replica = own / places, next = (replica + 1) * places;
    const bool divided = me->plan.parts.count;
    ls_comm *const *comms = me->resources.ends[LS_MESSAGES].comms;
    ls_tested parts[LS_JOB_REPLICAS];
    int count = 0;
    for (const ls_member *m = &me->resources.members[own]; own + count < next && m->replica; m++)
        parts[count++] = (ls_tested){m->replica, ls_slice_piece_net(m->slice[LS_FULL], 0)};
    ls_status status = divided ? build_evaluation(me, replica) : LS_OK;
    if (!status)
        status = ls_replica_evaluate(parts, count, divided ? predict : NULL, me, most, out);
    for (int i = 0; status && divided && comms[i]; i++)
        comms[i]->backend->abandon(comms[i]); /* for peers that wait for this process */
    if (status && me->plan.job->tensor)
        ls_resources_abandon(&me->resources);
    return status;
}

/* Copies the variables, or their averages, to a replica; NULL: it is in another process. */
static ls_status fetch(ls_step_run *me, ls_values which, const ls_replica *to)
{
    const ls_job *job = me->plan.job;
    const size_t elements = job->model->graph->variables.elements;
    float *values;
    ls_status status =
        ls_comm_agree(job->comm, ls_allocate("step", &values, elements, sizeof *values));
    if (!status)
        status = ls_steps_gather(me, which, values);
    if (!status && to)
        status = ls_queue_write(to->queue, to->parameters, values, elements * sizeof *values);
    free(values);
    return status;
}

/* A forward pass whose parameters come from the host into windows. */
typedef struct visit {
    ls_replica *replica;
    const ls_net *net;
    const float *values; /* float32 [elements] */
} visit;

/* Moves each bucket into its window just before the first node that needs it. */
static ls_status predict_in_windows(void *context)
{
    const visit *v = context;
    const ls_windows *windows = v->replica->windows;
    int next = (int)windows->buckets->count;
    for (int n = 0; n + 1 < windows->graph->count; n++) {
        for (const int need = ls_windows_need(windows, n); next > need;) {
            const ls_range bucket = windows->buckets->items[--next];
            LS_TRY(
                ls_queue_write(v->replica->queue,
                               (float *)v->replica->window + ls_windows_at(windows, bucket.first),
                               v->values + bucket.first, bucket.count * sizeof *v->values));
        }
        LS_TRY(ls_net_node_enqueue(v->net, n, LS_NET_PREDICT, v->replica->queue));
    }
    return LS_OK;
}

/* Evaluates on a replica that has shares of the parameters. */
static ls_status evaluate_in_windows(ls_step_run *me, int own, uint64_t most, ls_evaluation *out)
{
    const ls_job *job = me->plan.job;
    const ls_member *m = &me->resources.members[own];
    const ls_tested part = {m->replica, ls_slice_piece_net(m->slice[LS_FULL], 0)};
    float *values;
    ls_status status = ls_comm_agree(
        job->comm, ls_allocate("step", &values, m->replica->elements, sizeof *values));
    if (!status)
        status = ls_steps_gather(me, LS_AVERAGES, values);
    visit v = {part.replica, part.net, values};
    if (!status)
        status = ls_replica_evaluate(&part, 1, predict_in_windows, &v, most, out);
    free(values);
    return status;
}

/* Reads a replica's parameters into new memory. */
static ls_status read_values(const ls_replica *r, float **out)
{
    LS_TRY(ls_allocate("step", out, r->elements, sizeof **out));
    return ls_queue_read(r->queue, *out, r->parameters, r->elements * sizeof **out);
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
    const bool shares = plan->sharing && run->job->average != 0;
    const bool fetches = served || shares || (plan->holder >= 0 && plan->holder != own);
    float *values = NULL;
    ls_status status = LS_OK;
    *out = (ls_evaluation){.accuracy = -1};
    if (plan->windows.buckets)
        return evaluate_in_windows(me, own, most, out);
    if (fetches && !served)
        status = ls_comm_agree(run->job->comm, read_values(r, &values));
    if (!status && fetches)
        status = fetch(me, LS_AVERAGES, r);
    if (!status && r)
        status = evaluate_replica(me, own, most, out);
    if (!status && values)
        status = ls_queue_write(r->queue, r->parameters, values, r->elements * sizeof *values);
    free(values);
    return ls_step_plan_is_shared(plan) ? share_result(plan, status, out) : status;
}
