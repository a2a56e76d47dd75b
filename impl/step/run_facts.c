/* SPDX-License-Identifier: MIT */
/* Runs of steps: memory, traffic, times and evaluation; see run.h. */
#include "impl/step/run.h"
#include "impl/step/served.h"

#include <stdlib.h>

static ls_stepped *stepped(const ls_run *run)
{
    return (ls_stepped *)run;
}

/* NULL: the member is elsewhere. */
static ls_replica *replica_of(const ls_run *run, int member)
{
    return stepped(run)->shared.members[member].replica;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static int owner_of(const ls_run *run)
{
    const int holder = stepped(run)->shared.holder;
    return holder >= 0 ? holder : 0;
}

ls_status ls_stepped_load(ls_run *run, const float *parameters)
{
    stepped(run)->at = run->job->start;
    return stepped(run)->served ? ls_served_load(stepped(run), parameters)
                                : ls_replicated_load(run, parameters);
}

ls_status ls_stepped_gather(ls_run *run, float *parameters)
{
    if (stepped(run)->served)
        return ls_served_gather(stepped(run), parameters);
    return stepped(run)->places.ends
               ? ls_places_gather(stepped(run), parameters)
               : ls_replicated_gather(&stepped(run)->shared, owner_of(run), parameters);
}

ls_status ls_stepped_gather_replica(ls_run *run, int index, float *parameters)
{
    const ls_replicated *r = &stepped(run)->shared;
    return ls_replicated_gather(r, index * r->places, parameters);
}

ls_status ls_stepped_records_replica(ls_run *run, int index, uint64_t first, uint64_t count,
                                     ls_step_record *out)
{
    const ls_replicated *r = &stepped(run)->shared;
    ls_replica *replica = replica_of(run, index * r->places + r->loss_place - r->first);
    uint64_t mark_ns;
    if (replica->sums > 1)
        return ls_fail(LS_CODE_USAGE, "records", run->strategy->name,
                       "a replica's loss comes in %zu parts; in one in fast mode", replica->sums);
    return ls_replica_records(replica, first, count, out, &mark_ns);
}

ls_program_info ls_stepped_describe_replica(const ls_run *run, int index)
{
    const ls_stepped *me = stepped(run);
    const int lane = index * me->shared.places; /* of its first member */
    const ls_program *program = me->components[me->component[lane]].program[LS_FULL];
    return program ? ls_program_describe(program) : (ls_program_info){0};
}

ls_status ls_stepped_gradient(ls_run *run, float *out)
{
    const ls_replica *r = replica_of(run, 0);
    return ls_queue_read(r->queue, out, r->gradients, r->elements * sizeof *out);
}

static ls_status fetch_all(const ls_replica *to, const ls_replica *from)
{
    return ls_queue_copy(to->queue, to->parameters, to->device, from->parameters, from->device,
                         from->elements * to->kernels->table->real_bytes);
}

ls_status ls_stepped_tell(const ls_job *job, ls_status mine, ls_evaluation *out)
{
    const size_t n = (size_t)ls_job_processes(job);
    ls_evaluation *all = calloc(n, sizeof *all);
    if (!all && !mine)
        mine = ls_fail_memory("accuracy", n * sizeof *all);
    ls_status status = ls_comm_bring(job->comm, mine, out, sizeof *out, all);
    for (size_t p = n; p-- > 0 && !status;)
        if (all[p].accuracy >= 0)
            *out = all[p];
    free(all);
    return status;
}

/* Evaluates with the first replica's net, on the present variables or their averages. Where a
 * replica has fetched variables ahead these are restored. */
ls_status ls_stepped_evaluate(ls_run *run, uint64_t most, ls_evaluation *out)
{
    if (stepped(run)->served)
        return ls_served_evaluate(stepped(run), most, out);
    if (stepped(run)->shared.parts.count)
        return ls_places_evaluate(stepped(run), most, out);
    const ls_member *first = &stepped(run)->shared.members[0];
    ls_replica *owner = replica_of(run, owner_of(run));
    ls_net *net = ls_slice_net(first->slice[LS_FULL]);
    if (first->replica == owner)
        return ls_replica_evaluate(owner, net, most, out);
    LS_TRY(ls_replica_average_in(owner));
    LS_TRY(fetch_all(first->replica, owner));
    LS_TRY(ls_replica_evaluate(first->replica, net, most, out));
    LS_TRY(ls_replica_average_out(owner));
    return fetch_all(first->replica, owner);
}

/* ---- Operations, programs, time -------------------------------------------------------------- */

void ls_stepped_each(const ls_run *run, ls_op_visit visit, void *context)
{
    const ls_step *s = &stepped(run)->step[LS_FULL];
    for (size_t i = 0; i < s->op_count; i++)
        visit(context, s->ops[i]);
}

void ls_stepped_describe(const ls_run *run, ls_run_info *out)
{
    const ls_stepped *me = stepped(run);
    int first = 0;
    while (!replica_of(run, first))
        first++;
    const ls_kernels *kernels = replica_of(run, first)->kernels;
    *out = (ls_run_info){.kernels = kernels->table->name,
                         .kernel_library = kernels->table->library(kernels)};
    for (int c = 0; c < me->component_count; c++) {
        if (!me->components[c].program[LS_FULL])
            continue;
        const ls_program_info info = ls_program_describe(me->components[c].program[LS_FULL]);
        out->program.nodes += info.nodes;
        out->program.reorders += info.reorders;
        out->program.reordered_bytes += info.reordered_bytes;
        out->program.bytes += info.bytes;
        out->program.build_ns += info.build_ns;
    }
}

/* Whether the member is on device number `index` of the job. */
static bool is_on(const ls_run *run, const ls_member *member, size_t index)
{
    const ls_job *job = run->job;
    const ls_device *device =
        index < job->device_count ? job->devices[index] : job->variable_device;
    return member->replica && member->replica->device == device;
}

/* Adds the times of lanes, without servers', which are in their report. */
static ls_time_profile add_times(const ls_run *run, size_t index, bool blamed)
{
    const ls_stepped *me = stepped(run);
    const int members = me->served ? me->shared.count : me->shared.total;
    ls_time_profile sum = {0};
    for (int m = 0; m < members; m++) {
        if (!is_on(run, &me->shared.members[m], index))
            continue;
        const ls_time_profile *one = blamed ? &me->lanes[m].blamed : &me->lanes[m].times;
        for (int use = 0; use < LS_TIME_USES; use++)
            sum.ns[use] += one->ns[use];
    }
    return sum;
}

ls_time_profile ls_stepped_times(const ls_run *run, size_t index)
{
    return add_times(run, index, false);
}

ls_time_profile ls_stepped_parts(const ls_run *run, size_t index)
{
    return add_times(run, index, true);
}

/* ---- Memory and traffic ---------------------------------------------------------------------- */

static void add_member(const ls_member *member, ls_memory_formula *formula)
{
    const ls_memory_formula own = ls_replica_memory(member->replica);
    for (int use = 0; use < LS_MEMORY_USES; use++)
        formula->bytes[use] += own.bytes[use];
    for (int b = 0; b < LS_BATCHES; b++)
        if (member->slice[b])
            ls_slice_memory(member->slice[b], formula);
}

static void add_end(const ls_comm *comm, ls_memory_formula *formula)
{
    if (comm->backend->memory)
        formula->bytes[LS_MEMORY_COMMUNICATION] += comm->backend->memory(comm);
}

static void add_group(const ls_group *g, int member, ls_memory_formula *formula)
{
    for (int i = 0; i < g->count; i++) {
        if (g->ends[i].member != member)
            continue;
        formula->bytes[LS_MEMORY_COMMUNICATION] += g->ends[i].scratch_elements * sizeof(float);
        add_end(g->comms[i], formula);
    }
}

/* Adds the memory of its communicators. */
static void add_ends(const ls_stepped *me, int m, ls_memory_formula *formula)
{
    const ls_replica *r = me->shared.members[m].replica;
    size_t buffers = 0;
    for (int g = 0; g < me->group_count; g++)
        add_group(&me->groups[g], m, formula);
    for (int b = 0; b < LS_KINDS && m == me->shared.holder; b++)
        buffers += me->step[b].staging_count;
    if (me->served)
        add_end(me->served->ends[m].comm, formula);
    if (me->served && m >= me->shared.count)
        buffers += me->served->servers[m - me->shared.count].arrival_count;
    formula->bytes[LS_MEMORY_COMMUNICATION] +=
        buffers * r->elements * r->kernels->table->real_bytes;
}

ls_memory_formula ls_stepped_memory(const ls_run *run, size_t index)
{
    const ls_stepped *me = stepped(run);
    ls_memory_formula formula = {0};
    for (int m = 0; m < me->shared.all; m++) {
        if (!is_on(run, &me->shared.members[m], index))
            continue;
        add_member(&me->shared.members[m], &formula);
        add_ends(me, m, &formula);
        ls_places_memory(me, m, &formula);
    }
    return formula;
}

/* The sum over all processes, which all call it. */
static ls_status collect(const ls_job *job, ls_traffic mine, ls_traffic *sum)
{
    const size_t n = (size_t)ls_job_processes(job);
    ls_traffic *all = calloc(n, sizeof *all);
    ls_status status = all ? LS_OK : ls_fail_memory("traffic", n * sizeof *all);
    status = ls_comm_bring(job->comm, status, &mine, sizeof mine, all);
    *sum = (ls_traffic){0};
    for (size_t p = 0; p < n && !status; p++)
        ls_traffic_add(sum, all[p], 1);
    free(all);
    return status;
}

/* Adds what an end has counted over all steps; ends that count when operations are enqueued, once
 * for all replays, are in ls_step.called. */
static void add_counted(const ls_comm *end, ls_traffic *sum)
{
    if (end && !ls_comm_is_joint(end))
        ls_traffic_add(sum, end->backend->traffic(end), 1);
}

ls_traffic ls_stepped_counted(const ls_stepped *me)
{
    ls_traffic sum = me->counted;
    for (int k = 0; k < me->group_count; k++)
        for (int i = 0; i < me->groups[k].count; i++)
            add_counted(me->groups[k].comms[i], &sum);
    for (int m = 0; me->served && m < me->shared.total; m++)
        add_counted(me->served->ends[m].comm, &sum);
    for (int i = 0; me->shared.meetings && i < me->shared.count; i++)
        add_counted(me->shared.meetings[i], &sum);
    return sum;
}

/* All traffic that this process has sent. */
static ls_traffic count_sent(const ls_stepped *me)
{
    ls_traffic sum = ls_stepped_counted(me);
    for (int kind = 0; kind < LS_KINDS; kind++) {
        ls_traffic_add(&sum, me->step[kind].copied, me->put[kind]);
        ls_traffic_add(&sum, me->step[kind].called, me->put[kind]);
    }
    return sum;
}

static ls_traffic formula_of(const ls_stepped *me, int kind)
{
    const ls_job *job = me->shared.base.job;
    ls_traffic sum = me->shared.base.strategy->formula(&me->step[kind]);
    if (me->shared.meetings)
        ls_traffic_add(&sum,
                       ls_slice_statistics_formula(job, ls_replicated_batch(job, kind % LS_BATCHES),
                                                   ls_job_replicas(job)),
                       1);
    return sum;
}

/* What all steps must have sent, by the strategy's formula; with backup workers, by what servers
 * served. */
static ls_status find_due(const ls_stepped *me, ls_traffic *due)
{
    ls_traffic mine = {0};
    *due = (ls_traffic){0};
    for (int kind = 0; kind < LS_KINDS; kind++)
        if (me->put[kind])
            ls_traffic_add(due, formula_of(me, kind), me->put[kind]);
    if (!me->shared.base.job->ps.backups)
        return LS_OK;
    for (int k = 0; k < me->served->layout.servers; k++)
        ls_traffic_add(&mine, me->served->servers[k].serving.served, 1);
    return collect(me->shared.base.job, mine, due);
}

/* An average over the steps, rounded away from 0, so that a difference in a single step shows. */
static uint64_t per_step(uint64_t all, uint64_t steps)
{
    const int64_t signed_all = (int64_t)all, n = (int64_t)steps;
    return (uint64_t)((signed_all + (signed_all > 0 ? n - 1 : 1 - n)) / n);
}

/* *formula is that of a full step, or, where steps differ, of their mean. *sent is the formula plus
 * the average by which the steps sent more, or less, than they must.
 */
ls_status ls_stepped_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    const ls_stepped *me = stepped(run);
    ls_traffic all, due;
    uint64_t steps = 0;
    *sent = *formula = (ls_traffic){0};
    if (me->group_count && !run->job->allreduce->formula) /* only its library knows what it sends */
        return LS_OK;
    for (int kind = 0; kind < LS_KINDS; kind++)
        steps += me->put[kind];
    LS_TRY(collect(run->job, count_sent(me), &all));
    LS_TRY(find_due(me, &due));
    *formula =
        run->job->period || run->job->ps.backups
            ? (ls_traffic){per_step(due.bytes_sent, steps), per_step(due.messages_sent, steps)}
            : formula_of(me, LS_FULL);
    sent->bytes_sent = formula->bytes_sent + per_step(all.bytes_sent - due.bytes_sent, steps);
    sent->messages_sent =
        formula->messages_sent + per_step(all.messages_sent - due.messages_sent, steps);
    return LS_OK;
}
