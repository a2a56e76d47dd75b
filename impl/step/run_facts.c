/* SPDX-License-Identifier: MIT */
/* Runs of steps: values, evaluation, description, traffic, state for another run; see run.h. */
#include "common/base/grow.h"
#include "impl/carried.h"
#include "impl/step/run.h"
#include "impl/step/served.h"

#include <stdlib.h>

static ls_stepped *stepped(const ls_run *run)
{
    return (ls_stepped *)run;
}

/* NULL: the member is in another process. */
static ls_replica *replica_of(const ls_run *run, int member)
{
    return stepped(run)->members[member].replica;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The member that owns the run's variables; in a divided model, the first such member. */
static int owner_of(const ls_run *run)
{
    const ls_stepped *me = stepped(run);
    const int own = ls_members_own(me);
    return me->holder >= 0 ? me->holder : own - own % me->places;
}

/* The first member of this process's replica number `index`. */
static int first_of(const ls_run *run, int index)
{
    const int places = stepped(run)->places;
    return (ls_members_own(stepped(run)) / places + index) * places;
}

static ls_status load(ls_run *run, const float *parameters)
{
    stepped(run)->at = run->job->start;
    if (stepped(run)->served)
        ls_served_load(stepped(run));
    return ls_members_load(stepped(run), parameters);
}

static ls_status gather_values(ls_run *run, bool averages, float *out)
{
    if (stepped(run)->served)
        return ls_served_gather(stepped(run), averages, out);
    if (stepped(run)->comms[0])
        return ls_places_gather(stepped(run), out);
    return ls_members_gather(stepped(run), owner_of(run), stepped(run)->places, averages, out);
}

static ls_status gather(ls_run *run, float *parameters)
{
    return gather_values(run, false, parameters);
}

static ls_status gather_replica(ls_run *run, int index, float *parameters)
{
    return ls_members_gather(stepped(run), first_of(run, index), stepped(run)->places, false,
                             parameters);
}

static ls_status records_replica(ls_run *run, int index, uint64_t first, uint64_t count,
                                 ls_step_record *out)
{
    ls_replica *replica = replica_of(run, first_of(run, index) + stepped(run)->loss_place);
    uint64_t mark_ns;
    if (replica->sums > 1)
        return ls_fail(LS_CODE_USAGE, "records", run->strategy->name,
                       "a replica's loss comes in %zu parts; in one in fast mode", replica->sums);
    return ls_replica_records(replica, first, count, out, &mark_ns);
}

static ls_program_info describe_replica(const ls_run *run, int index)
{
    const ls_stepped *me = stepped(run);
    const int lane = first_of(run, index); /* a member's number is its lane's */
    const ls_program *program = me->components[me->component[lane]].program[LS_FULL];
    return program ? ls_program_describe(program) : (ls_program_info){0};
}

static ls_status gradient(ls_run *run, float *out)
{
    const ls_replica *r = replica_of(run, ls_members_own(stepped(run)));
    return ls_queue_read(r->queue, out, r->gradients, r->elements * sizeof *out);
}

/* ---- Evaluation ------------------------------------------------------------------------------ */

/* Copies the variables, or their averages, to a replica; NULL: it is in another process. */
static ls_status fetch(ls_run *run, bool averages, const ls_replica *to)
{
    const size_t elements = run->job->model->graph->variables.elements;
    float *values;
    ls_status status =
        ls_comm_agree(run->job->comm, ls_allocate("step", &values, elements, sizeof *values));
    if (!status)
        status = gather_values(run, averages, values);
    if (!status && to)
        status = ls_queue_write(to->queue, to->parameters, values, elements * sizeof *values);
    free(values);
    return status;
}

/* Sends the result of one process to all; in all others, accuracy is -1. */
static ls_status tell(const ls_job *job, ls_status mine, ls_evaluation *out)
{
    const size_t n = (size_t)ls_job_processes(job);
    ls_evaluation *all;
    mine = ls_status_first(mine, ls_allocate("accuracy", &all, n, sizeof *all));
    ls_status status = ls_comm_bring(job->comm, mine, out, sizeof *out, all);
    for (size_t p = n; p-- > 0 && !status;)
        if (all[p].accuracy >= 0)
            *out = all[p];
    free(all);
    return status;
}

/* Evaluates the first replica of this process; with servers, worker 0. A replica without variables
 * of its own gets the variables first. A worker pulls anew in its next step; a tower, which may
 * have fetched ahead, gets back its values. */
static ls_status evaluate(ls_run *run, uint64_t most, ls_evaluation *out)
{
    ls_stepped *me = stepped(run);
    const int own = me->served ? 0 : ls_members_own(me);
    const ls_replica *r = replica_of(run, own);
    const bool fetches = me->served || (me->holder >= 0 && me->holder != own);
    ls_status status = fetches ? fetch(run, true, r) : LS_OK;
    *out = (ls_evaluation){.accuracy = -1};
    if (!status && r)
        status = ls_places_evaluate(me, own, most, out);
    if (!status && fetches && !me->served)
        status = fetch(run, false, r);
    return me->comms[0] ? tell(run->job, status, out) : status;
}

/* ---- Operations, programs, time -------------------------------------------------------------- */

static void each_op(const ls_run *run, ls_op_visit visit, void *context)
{
    const ls_step *s = &stepped(run)->step[LS_FULL];
    for (size_t i = 0; i < s->op_count; i++)
        visit(context, s->ops[i]);
}

static void describe(const ls_run *run, ls_run_info *out)
{
    const ls_stepped *me = stepped(run);
    const ls_kernels *kernels = replica_of(run, ls_members_own(me))->kernels;
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

static ls_time_profile times(const ls_run *run, size_t index)
{
    ls_time_profile sum = {0};
    const ls_stepped *me = stepped(run);
    for (int m = 0; m < ls_members_training(me); m++)
        for (int use = 0; use < LS_TIME_USES && ls_members_on(me, m, index); use++)
            sum.ns[use] += me->lanes[m].times.ns[use];
    return sum;
}

/* ---- Memory and traffic ---------------------------------------------------------------------- */

static void add_member(const ls_member *member, ls_memory_formula *formula)
{
    const ls_replica *r = member->replica;
    for (size_t i = 0; i < r->buffer_count; i++)
        formula->bytes[r->buffers[i].use] += r->buffers[i].bytes;
    for (int b = 0; b < LS_BATCHES; b++)
        if (member->slice[b])
            ls_slice_memory(member->slice[b], formula);
}

static ls_memory_formula memory(const ls_run *run, size_t index)
{
    const ls_stepped *me = stepped(run);
    ls_memory_formula formula = {0};
    for (int m = 0; m < me->all; m++) {
        if (!ls_members_on(me, m, index))
            continue;
        add_member(&me->members[m], &formula);
        ls_held_memory(&me->held, m, &formula);
    }
    return formula;
}

/* The sum over all processes. All processes call it. */
static ls_status collect(const ls_job *job, ls_traffic mine, ls_traffic *sum)
{
    const size_t n = (size_t)ls_job_processes(job);
    ls_traffic *all;
    ls_status status = ls_allocate("traffic", &all, n, sizeof *all);
    status = ls_comm_bring(job->comm, status, &mine, sizeof mine, all);
    *sum = (ls_traffic){0};
    for (size_t p = 0; p < n && !status; p++)
        ls_traffic_add(sum, all[p], 1);
    free(all);
    return status;
}

/* Adds the traffic of all steps, unless the end counts only when it is enqueued, not in replays
 * (ls_step.called). */
static void add_counted(const ls_comm *end, ls_traffic *sum)
{
    if (!ls_comm_is_joint(end))
        ls_traffic_add(sum, ls_comm_traffic(end), 1);
}

static ls_traffic count_ends(const ls_stepped *me)
{
    ls_traffic sum = me->counted;
    for (size_t i = 0; i < me->held.end_count; i++)
        if (me->held.ends[i].counts)
            add_counted(me->held.ends[i].comm, &sum);
    for (size_t i = 0; me->statistics_comms && i < me->base.job->device_count; i++)
        add_counted(me->statistics_comms[i], &sum);
    return sum;
}

/* All traffic sent by this process. */
static ls_traffic count_sent(const ls_stepped *me)
{
    ls_traffic sum = count_ends(me);
    for (int kind = 0; kind < LS_KINDS; kind++) {
        ls_traffic_add(&sum, me->step[kind].copied, me->enqueued[kind]);
        ls_traffic_add(&sum, me->step[kind].called, me->enqueued[kind]);
    }
    return sum;
}

static ls_traffic formula_of(const ls_stepped *me, int kind)
{
    const ls_job *job = me->base.job;
    ls_traffic sum = {0};
    if (me->base.strategy->formula)
        sum = me->base.strategy->formula(&me->step[kind]);
    if (me->statistics_comms)
        ls_traffic_add(&sum,
                       ls_slice_statistics_formula(job, ls_replicated_batch(job, kind % LS_BATCHES),
                                                   me->count),
                       1);
    return sum;
}

/* The traffic that all steps must have sent, by the strategy's formula; with backup workers, by the
 * served requests. */
static ls_status find_due(const ls_stepped *me, ls_traffic *due)
{
    ls_traffic mine = {0};
    *due = (ls_traffic){0};
    for (int kind = 0; kind < LS_KINDS; kind++)
        if (me->enqueued[kind])
            ls_traffic_add(due, formula_of(me, kind), me->enqueued[kind]);
    if (!me->base.job->ps.backups)
        return LS_OK;
    for (int k = 0; k < me->served->layout.servers; k++)
        ls_traffic_add(&mine, me->served->servers[k].serving.served, 1);
    return collect(me->base.job, mine, due);
}

/* Mean over the steps, rounded away from 0, so that a difference in a single step shows. */
static uint64_t per_step(uint64_t all, uint64_t steps)
{
    const int64_t signed_all = (int64_t)all, n = (int64_t)steps;
    return (uint64_t)((signed_all + (signed_all > 0 ? n - 1 : 1 - n)) / n);
}

/* *formula is that of a full step or, if steps differ, their mean. *sent is the formula plus the
 * mean difference between the traffic sent and the traffic due. */
static ls_status traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    const ls_stepped *me = stepped(run);
    ls_traffic all, due;
    uint64_t steps = 0;
    *sent = *formula = (ls_traffic){0};
    if (me->group_count && !run->job->allreduce->formula) /* only the library knows its traffic */
        return LS_OK;
    for (int kind = 0; kind < LS_KINDS; kind++)
        steps += me->enqueued[kind];
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

/* ---- State for a run that continues this one ------------------------------------------------- */

/* The state for a run that continues this one: flat buffers, servers' state of their workers, and
 * counts. Not records, which have been read, nor memory that every step overwrites. */
static ls_status keep_serving(ls_ps_serving *s, ls_carried *carried)
{
    LS_TRY(ls_carry_value(carried, s->clocks, (size_t)s->workers * sizeof *s->clocks));
    LS_TRY(ls_carry_value(carried, &s->now, sizeof s->now));
    LS_TRY(ls_carry_value(carried, &s->log.count, sizeof s->log.count));
    LS_TRY(ls_carry_value(carried, &s->log.lost, sizeof s->log.lost));
    LS_TRY(ls_carry_value(carried, s->log.events, s->log.count * sizeof *s->log.events));
    return ls_carry_value(carried, &s->served, sizeof s->served);
}

/* Includes what the server's end has received so far. */
static ls_status keep_received(ls_served_server *server, const ls_comm *end, ls_carried *carried)
{
    ls_received *before = &server->received, all = *before;
    if (!carried->gives && !ls_comm_is_joint(end)) {
        const ls_received now = ls_comm_received(end);
        all.bytes += now.bytes;
        all.copied += now.copied;
    }
    LS_TRY(ls_carry_value(carried, &all, sizeof all));
    if (carried->gives)
        *before = all;
    return LS_OK;
}

static ls_status keep_served(ls_stepped *me, ls_carried *carried)
{
    ls_served *served = me->served;
    for (int k = 0; k < served->layout.servers; k++) {
        if (!served->servers[k].shard.replica)
            continue;
        LS_TRY(keep_serving(&served->servers[k].serving, carried));
        LS_TRY(keep_received(&served->servers[k], me->ends[me->count + k].comm, carried));
    }
    for (int w = 0; w < served->layout.workers; w++)
        LS_TRY(ls_carry_value(carried, &served->speakers[w].newest,
                              sizeof served->speakers[w].newest));
    return LS_OK;
}

static ls_status keep(ls_run *run, ls_carried *carried)
{
    ls_stepped *me = stepped(run);
    ls_traffic counted = count_ends(me);
    for (int m = 0; m < me->all; m++)
        if (me->members[m].replica)
            LS_TRY(ls_replica_keep(me->members[m].replica, carried));
    LS_TRY(ls_carry_value(carried, me->enqueued, sizeof me->enqueued));
    LS_TRY(ls_carry_value(carried, &counted, sizeof counted));
    if (carried->gives)
        me->counted = counted;
    return me->served ? keep_served(me, carried) : LS_OK;
}

const ls_run_kind ls_run_of_steps = {
    .load = load,
    .step = ls_stepped_step,
    .sync = ls_stepped_sync,
    .mark = ls_stepped_mark,
    .records = ls_stepped_records,
    .gather = gather,
    .gather_replica = gather_replica,
    .records_replica = records_replica,
    .describe_replica = describe_replica,
    .evaluate = evaluate,
    .describe = describe,
    .each_op = each_op,
    .profile = ls_stepped_profile,
    .times = times,
    .parts = ls_stepped_parts,
    .memory = memory,
    .traffic = traffic,
    .gradient = gradient,
    .keep = keep,
    .close = ls_stepped_close,
};
