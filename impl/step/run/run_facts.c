/* SPDX-License-Identifier: MIT */
/* Runs of steps: replicas, description, memory, traffic, state for another run; see run.h. */
#include "common/base/grow.h"
#include "impl/carried.h"
#include "impl/step/run/run.h"

/* NULL if the member is in another process. */
static ls_replica *replica_of(const ls_run *run, int member)
{
    return ls_step_run_of(run)->resources.members[member].replica;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* The first member of this process's replica number `index`. */
static int first_of(const ls_run *run, int index)
{
    const ls_step_plan *plan = &ls_step_run_of(run)->plan;
    return (ls_step_plan_first_local(plan) / plan->mesh.places + index) * plan->mesh.places;
}

static ls_status load(ls_run *run, const ls_state_source *source)
{
    ls_step_run *me = ls_step_run_of(run);
    me->counts.at = run->job->start;
    return ls_resources_load(&me->resources, source);
}

static ls_status state(ls_run *run, ls_values array, ls_range block, float *out)
{
    return ls_state_name(run->job, array) ? ls_steps_gather(ls_step_run_of(run), array, block, out)
                                          : LS_OK;
}

static ls_status gather_replica(ls_run *run, int index, ls_range block, float *out)
{
    const ls_step_run *me = ls_step_run_of(run);
    const ls_range places = {(size_t)first_of(run, index), (size_t)me->plan.mesh.places};
    return ls_resources_gather(&me->resources, places, LS_VALUES, block, out);
}

static ls_status gather_device(ls_run *run, int index, bool copies, ls_range block, float *out)
{
    ls_replica *r = replica_of(run, ls_step_plan_first_local(&ls_step_run_of(run)->plan) + index);
    return copies ? ls_replica_copies(r, block, out) : ls_replica_gather(r, LS_VALUES, block, out);
}

static ls_status records_replica(ls_run *run, int index, uint64_t first, uint64_t count,
                                 ls_step_record *out)
{
    ls_replica *replica =
        replica_of(run, first_of(run, index) + ls_step_run_of(run)->plan.loss_place);
    uint64_t mark_ns;
    if (replica->loss.sums > 1)
        return ls_fail(LS_CODE_USAGE, "records", run->strategy->name,
                       "a replica's loss is kept as %zu partial sums, but only a single sum can be "
                       "read; use --reduce fast",
                       replica->loss.sums);
    return ls_replica_records(replica, first, count, out, &mark_ns);
}

static ls_program_info describe_replica(const ls_run *run, int index)
{
    const ls_step_run *me = ls_step_run_of(run);
    const int lane = first_of(run, index); /* a member's number is its lane's */
    const ls_program *program = me->lowered.captured[me->components.component[lane]][LS_FULL];
    return program ? ls_program_describe(program) : (ls_program_info){0};
}

static ls_status gradient(ls_run *run, float *out)
{
    ls_replica *r = replica_of(run, ls_step_plan_first_local(&ls_step_run_of(run)->plan));
    if (r->windows.gradients)
        return ls_fail(LS_CODE_USAGE, "strategy", run->strategy->name,
                       "the gradient cannot be read, since each device has only a share of it; use "
                       "a strategy whose devices have the complete gradient");
    return ls_replica_gradient(r, out);
}

/* ---- Operations, programs -------------------------------------------------------------------- */

static void each_op(const ls_run *run, ls_op_visit visit, void *context)
{
    const ls_step_program *p = &ls_step_run_of(run)->program[LS_FULL];
    for (size_t i = 0; i < p->op_count; i++)
        visit(context, p->ops[i]);
}

static void describe(const ls_run *run, ls_run_info *out)
{
    const ls_step_run *me = ls_step_run_of(run);
    const ls_kernels *kernels = replica_of(run, ls_step_plan_first_local(&me->plan))->kernels;
    *out = (ls_run_info){.kernels = kernels->table->name,
                         .kernel_library = kernels->table->library(kernels)};
    for (int c = 0; c < me->components.count; c++) {
        if (!me->lowered.captured[c][LS_FULL])
            continue;
        const ls_program_info info = ls_program_describe(me->lowered.captured[c][LS_FULL]);
        out->program.nodes += info.nodes;
        out->program.reorders += info.reorders;
        out->program.reordered_bytes += info.reordered_bytes;
        out->program.bytes += info.bytes;
        out->program.build_ns += info.build_ns;
    }
}

/* ---- Memory and traffic ---------------------------------------------------------------------- */

static ls_memory_formula memory(const ls_run *run, size_t index)
{
    const ls_step_run *me = ls_step_run_of(run);
    ls_memory_formula formula = {0};
    for (int m = 0; m < me->plan.all; m++)
        if (ls_step_plan_is_on(&me->plan, m, index))
            ls_resources_memory(&me->resources, m, &formula);
    return formula;
}

ls_status ls_steps_collect(const ls_job *job, ls_traffic traffic, ls_traffic *sum)
{
    ls_auto ls_traffic *all = NULL;
    *sum = (ls_traffic){0};
    LS_TRY(ls_comm_tell(job->ranks.comm, LS_OK, &traffic, sizeof traffic, &all));
    for (int p = 0; p < ls_job_processes(job); p++)
        ls_traffic_add(sum, all[p], 1);
    return LS_OK;
}

/* Adds the traffic of all steps, unless the end counts only when it is enqueued, not in replays
 * (ls_lowered.called). */
static void add_counted(const ls_comm *end, ls_traffic *sum)
{
    if (!ls_comm_is_joint(end))
        ls_traffic_add(sum, ls_comm_traffic(end), 1);
}

ls_traffic ls_steps_sent(const ls_step_run *me)
{
    const ls_resources *r = &me->resources;
    ls_traffic sum = me->counts.before;
    for (size_t i = 0; i < r->connection_count; i++)
        if (r->connections[i].counts)
            add_counted(r->connections[i].comm, &sum);
    for (size_t i = 0; r->statistics_comms && i < me->plan.job->device_count; i++)
        add_counted(r->statistics_comms[i], &sum);
    return sum;
}

static ls_traffic formula_of(ls_step_run *me, int kind)
{
    const ls_job *job = me->plan.job;
    ls_traffic sum = ls_build_formula(&me->resources, kind);
    if (me->resources.statistics_comms)
        ls_traffic_add(&sum,
                       ls_slice_statistics_formula(job, ls_replicated_batch(job, kind % LS_BATCHES),
                                                   me->plan.mesh.replicas),
                       1);
    return sum;
}

static bool is_equal(ls_traffic a, ls_traffic b)
{
    return a.bytes_sent == b.bytes_sent && a.messages_sent == b.messages_sent;
}

/* All steps' traffic: counted when it was sent, by tasks, and by the formula; and one step's
 * traffic by tasks and formula. The step has a full batch, unless only another kind's figures
 * differ. */
typedef struct tally {
    uint64_t steps;
    ls_traffic all, said, due, sent, formula;
} tally;

static ls_status count(ls_step_run *me, tally *out)
{
    ls_traffic own_traffic = ls_steps_sent(me);
    *out = (tally){0};
    for (int kind = 0; kind < me->kinds; kind++) {
        const uint64_t times = me->counts.enqueued[kind];
        const ls_step_program *p = &me->program[kind];
        ls_traffic sent;
        if (!times && kind != LS_FULL)
            continue;
        LS_TRY(ls_steps_collect(me->base.job, ls_step_program_traffic(p), &sent));
        const ls_traffic formula = formula_of(me, kind);
        ls_traffic_add(&own_traffic, ls_step_program_copied(p), times);
        ls_traffic_add(&own_traffic, me->lowered.called[kind], times);
        ls_traffic_add(&out->said, sent, times);
        ls_traffic_add(&out->due, formula, times);
        out->steps += times;
        if (kind == LS_FULL || (is_equal(out->sent, out->formula) && !is_equal(sent, formula))) {
            out->sent = sent;
            out->formula = formula;
        }
    }
    return ls_steps_collect(me->base.job, own_traffic, &out->all);
}

/* The mean of a step, rounded away from `other` (up if both are equal), so that a difference in a
 * single step shows. */
static uint64_t mean(uint64_t all, uint64_t other, uint64_t steps)
{
    return all < other ? all / steps : (all + steps - 1) / steps;
}

static ls_traffic mean_of(ls_traffic all, ls_traffic other, uint64_t steps)
{
    return (ls_traffic){mean(all.bytes_sent, other.bytes_sent, steps),
                        mean(all.messages_sent, other.messages_sent, steps)};
}

/* The traffic of a step or, if steps of a kind differ, their mean. */
ls_status ls_steps_traffic(const ls_run *run, const ls_traffic *known, ls_traffic *sent,
                           ls_traffic *formula)
{
    ls_step_run *me = ls_step_run_of(run);
    tally c;
    *sent = *formula = (ls_traffic){0};
    if (me->plan.group_count &&
        !run->job->exchange.allreduce->formula) /* only the library knows its traffic */
        return LS_OK;
    LS_TRY(count(me, &c));
    *sent = c.sent;
    *formula = c.formula;
    if (c.steps && (known || me->kinds > LS_LAST || !is_equal(c.all, c.said))) {
        const ls_traffic due = known ? *known : c.due;
        *sent = mean_of(c.all, due, c.steps);
        *formula = mean_of(due, c.all, c.steps);
    }
    return LS_OK;
}

static ls_status traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    return ls_steps_traffic(run, NULL, sent, formula);
}

/* ---- State for a run that continues this one ------------------------------------------------- */

/* The state for a run that continues this one: flat buffers and counts. Not records, which have
 * been read, nor memory that every step overwrites. */
static ls_status keep(ls_run *run, ls_carried *carried)
{
    ls_step_run *me = ls_step_run_of(run);
    ls_traffic counted = ls_steps_sent(me);
    const size_t kinds = (size_t)me->kinds;
    for (int m = 0; m < me->plan.all; m++)
        if (me->resources.members[m].replica)
            LS_TRY(ls_replica_keep(me->resources.members[m].replica, carried));
    LS_TRY(ls_carry_value(carried, me->counts.enqueued, kinds * sizeof *me->counts.enqueued));
    LS_TRY(ls_carry_value(carried, &counted, sizeof counted));
    /* of kinds of steps that this run has not enqueued itself, too */
    LS_TRY(ls_carry_value(carried, me->lowered.called, kinds * sizeof *me->lowered.called));
    if (carried->gives)
        me->counts.before = counted;
    return LS_OK;
}

const ls_run_functions ls_run_of_steps = {
    .load = load,
    .step = ls_steps_enqueue,
    .sync = ls_steps_sync,
    .mark = ls_steps_mark,
    .records = ls_steps_records,
    .state = state,
    .gather_replica = gather_replica,
    .gather_device = gather_device,
    .records_replica = records_replica,
    .describe_replica = describe_replica,
    .evaluate = ls_steps_evaluate,
    .describe = describe,
    .each_op = each_op,
    .profile = ls_steps_profile,
    .times = ls_steps_times,
    .parts = ls_steps_parts,
    .memory = memory,
    .traffic = traffic,
    .norm = ls_steps_norm,
    .rates = ls_steps_rates,
    .exchanged = ls_steps_exchanged,
    .gradient = gradient,
    .keep = keep,
    .close = ls_steps_close,
};
