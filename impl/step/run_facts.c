/* SPDX-License-Identifier: MIT */
/* Runs of strategies that say their steps: what they hold, move and found; see run.h. */
#include "impl/ps/ps_records.h"
#include "impl/step/run.h"
#include "impl/step/served.h"
#include "impl/traffic.h"

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

ls_status ls_stepped_records(ls_run *run, uint64_t first, uint64_t count, ls_step_record *out,
                             uint64_t *mark_ns)
{
    return ls_ps_by_arrival(&run->job->ps) ? ls_ps_records(run, first, count, out, mark_ns)
                                           : ls_replicated_records(run, first, count, out, mark_ns);
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

/* With the first replica's net, on the variables as they are now, or their averages; replicas that
 * fetched ahead find the variables again. */
ls_status ls_stepped_evaluate(ls_run *run, uint64_t most, ls_evaluation *out)
{
    if (stepped(run)->served)
        return ls_served_evaluate(stepped(run), most, out);
    ls_replica *owner = replica_of(run, owner_of(run));
    const ls_replica *first = replica_of(run, 0);
    if (stepped(run)->shared.parts.count)
        return ls_places_evaluate(stepped(run), most, out);
    if (first == owner)
        return ls_replicated_evaluate(run, most, out);
    LS_TRY(ls_replica_average_in(owner));
    LS_TRY(fetch_all(first, owner));
    LS_TRY(ls_replicated_evaluate(run, most, out));
    LS_TRY(ls_replica_average_out(owner));
    return fetch_all(first, owner);
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

/* A member's compute lane, and of its others what that waits for. */
static ls_time_profile times_of(const ls_stepped *me, int member)
{
    ls_time_profile times = me->lanes[member].times;
    for (int l = me->shared.total; l < me->lane_count; l++)
        if (me->lanes[l].member == member)
            times = ls_times_exposing(times, &me->lanes[l].times);
    return times;
}

/* But for servers': how busy these are, their report says. */
ls_time_profile ls_stepped_times(const ls_run *run, size_t index)
{
    const ls_stepped *me = stepped(run);
    const int members = me->served ? me->shared.count : me->shared.total;
    ls_time_profile sum = {0};
    for (int m = 0; m < members; m++) {
        if (!is_on(run, &me->shared.members[m], index))
            continue;
        const ls_time_profile one = times_of(me, m);
        for (int use = 0; use < LS_TIME_USES; use++)
            sum.ns[use] += one.ns[use];
    }
    return sum;
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
        if (g->member[i] != member)
            continue;
        formula->bytes[LS_MEMORY_COMMUNICATION] += g->scratch_elements[i] * sizeof(float);
        add_end(g->comms[i], formula);
    }
}

/* What it holds to talk to others. */
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
    for (int m = 0; m < me->shared.total; m++) {
        if (!is_on(run, &me->shared.members[m], index))
            continue;
        add_member(&me->shared.members[m], &formula);
        add_ends(me, m, &formula);
        ls_places_memory(me, m, &formula);
    }
    for (int i = 0; me->shadows && i < me->shared.count; i++)
        if (is_on(run, &me->shadows[i], index))
            add_member(&me->shadows[i], &formula);
    return formula;
}

static ls_traffic minus(ls_traffic a, ls_traffic b)
{
    return (ls_traffic){a.bytes_sent - b.bytes_sent, a.messages_sent - b.messages_sent};
}

static ls_traffic formula_of(const ls_stepped *me, int which)
{
    const bool has = ls_replicated_batch(me->shared.base.job, which) > 0;
    return has ? me->shared.base.strategy->formula(&me->step[which]) : (ls_traffic){0};
}

/* What this process's communicators have counted over all steps, but for those that count when they
 * are put, once for all replays. */
static ls_traffic count_ends(const ls_stepped *me)
{
    ls_traffic sum = {0};
    for (int k = 0; k < me->group_count; k++)
        for (int i = 0; i < me->groups[k].count; i++)
            if (!ls_comm_together(me->groups[k].comms[i]))
                ls_traffic_add(&sum,
                               me->groups[k].comms[i]->backend->traffic(me->groups[k].comms[i]));
    for (int m = 0; me->served && m < me->shared.total; m++) {
        const ls_comm *comm = me->served->ends[m].comm;
        if (comm && !ls_comm_together(comm))
            ls_traffic_add(&sum, comm->backend->traffic(comm));
    }
    return sum;
}

static void add_times(ls_traffic *sum, ls_traffic one, uint64_t times)
{
    sum->bytes_sent += times * one.bytes_sent;
    sum->messages_sent += times * one.messages_sent;
}

/* Of steps of several kinds: what all of them must have sent, over their number, rounded up; and
 * what they sent beyond that, or did not, as of one of them. */
static void find_mean(const ls_stepped *me, ls_traffic all, const ls_traffic *said,
                      ls_traffic *sent, ls_traffic *formula)
{
    ls_traffic must = {0};
    uint64_t steps = 0;
    for (int kind = 0; kind < LS_KINDS; kind++) {
        if (!me->put[kind])
            continue;
        add_times(&must, me->shared.base.strategy->formula(&me->step[kind]), me->put[kind]);
        add_times(&all, said[kind], me->put[kind]);
        steps += me->put[kind];
    }
    *formula = (ls_traffic){(must.bytes_sent + steps - 1) / steps,
                            (must.messages_sent + steps - 1) / steps};
    *sent = *formula;
    ls_traffic_add(sent, minus(all, must));
}

/* What steps say and put is of one step each; of what communicators count over all steps, the
 * smaller ones' part is the formula's. */
ls_status ls_stepped_traffic(const ls_run *run, ls_traffic *sent, ls_traffic *formula)
{
    const ls_stepped *me = stepped(run);
    const ls_job *job = run->job;
    ls_traffic all, said[LS_KINDS], met[2];
    *sent = *formula = (ls_traffic){0};
    if (job->ps.backups)
        return ls_ps_traffic(run, sent, formula);
    if (me->group_count && !job->allreduce->formula) /* only its library knows what it sends */
        return LS_OK;
    for (int b = 0; b < LS_KINDS; b++) {
        ls_traffic mine = me->step[b].copied;
        ls_traffic_add(&mine, me->step[b].called);
        LS_TRY(ls_traffic_collect(job->comm, mine, &said[b]));
    }
    LS_TRY(ls_traffic_collect(job->comm, count_ends(me), &all));
    if (run->strategy->period) {
        find_mean(me, all, said, sent, formula);
        return LS_OK;
    }
    *formula = formula_of(me, LS_FULL);
    const ls_traffic full = minus(*formula, said[LS_FULL]);
    ls_traffic tail = {0};
    if (me->put[LS_TAIL]) /* else nothing of it was counted */
        tail = minus(formula_of(me, LS_TAIL), said[LS_TAIL]);
    *sent = said[LS_FULL];
    if (all.messages_sent)
        ls_traffic_add(sent, ls_traffic_of_step(&all, &tail, me->shared.steps, &full));
    else if (!me->group_count) /* what is amiss in the smaller step shows here, too */
        *sent = minus(*sent, tail);
    LS_TRY(ls_replicated_statistics_traffic(&me->shared, &met[0], &met[1]));
    ls_traffic_add(sent, met[0]);
    ls_traffic_add(formula, met[1]);
    return LS_OK;
}
