/* SPDX-License-Identifier: MIT */
/*
 * ps: between-graph replication with parameter servers. Every worker builds only its own step;
 * servers hold the variables, a shard each, and apply the gradients.
 *
 *     each worker pulls the variables; gathers its part of the batch, forward, backward; pushes
 *     its gradients, range by range, as they become final
 *     each server adds up its shard's gradients and updates the shard
 *
 * Synchronous: one update a step, of all workers' gradients. Order of summation: fast mode
 * ((g0 + g1) + g2) + ... by number of the worker; exact mode the rest of the tree over the workers'
 * finished subtrees (slice.h). Asynchronous and ssp (ps_async.c): each gradient, the mean over its
 * worker's share, is applied when it comes, and its worker goes on with what that made of the
 * variables. With backup workers (ps_backup.c) a step's update is by the gradients that come first.
 * So a run depends on the order of arrival, and on that alone (ps_replay.c). Who is what
 * and which ranges a server holds: ps_layout.h; the steps themselves: ps_worker.c, ps_server.c;
 * where queues are ordered by events (GPUs), all of them in one: ps_joint.c.
 */
#include "impl/ps.h"
#include "impl/strategies.h"

#include <stdlib.h>
#include <string.h>

ls_status ls_ps_exchange(ls_comm *comm, ls_exchange exchange, bool together, ls_op_list *ops)
{
    ls_op *op;
    exchange.inside = together;
    LS_TRY(ls_comm_exchange(comm, &exchange, &op));
    return ls_op_list_add(ops, op);
}

/* ---- Opening -------------------------------------------------------------------------------- */

/* This process's members, in the order of their ranks, and a communicator's end for each. */
static ls_status open_members(ls_ps *me)
{
    const ls_job *job = me->base.job;
    const size_t most = (size_t)me->layout.member_count;
    ls_device **devices = calloc(most, sizeof *devices);
    ls_comm **comms = calloc(most, sizeof *comms), **controls = calloc(most, sizeof *controls);
    me->workers = calloc(most, sizeof *me->workers);
    me->servers = calloc(most, sizeof *me->servers);
    ls_status status = devices && comms && controls && me->workers && me->servers
                           ? LS_OK
                           : ls_fail_memory("ps", most * sizeof *me->workers);
    int count = 0;
    for (size_t m = 0; m < most && !status; m++)
        if (me->layout.members[m].process == ls_ps_process(job))
            devices[count++] = ls_ps_device(job, &me->layout.members[m]);
    if (!status)
        status = ls_comm_open(job->transport, job->comm, devices, count, comms);
    if (!status && ls_ps_by_arrival(&job->ps)) {
        status = ls_comm_open(job->transport, job->comm, devices, count, controls);
        for (int m = 0; m < count && status; m++) /* they belong to no member yet */
            ls_comm_close(comms[m]);
    }
    count = 0;
    for (size_t m = 0; m < most && !status; m++) {
        const ls_ps_member *place = &me->layout.members[m];
        if (place->process != ls_ps_process(job))
            continue;
        if (place->server)
            me->servers[me->server_count++] =
                (ls_ps_server){.place = place, .comm = comms[count], .control = controls[count]};
        else
            me->workers[me->worker_count++] =
                (ls_ps_worker){.place = place, .comm = comms[count], .control = controls[count]};
        count++;
    }
    free(devices);
    free(comms);
    free(controls);
    return status;
}

static ls_status refuse_arrival(const char *comm)
{
    return ls_fail(LS_CODE_USAGE, "option", "--comm",
                   "%s (of GPUs) cannot receive from any rank, as servers do that do not wait for "
                   "all; --ps-mode sync without backup workers, or CPU devices, work",
                   comm);
}

static ls_status build(ls_ps *me)
{
    const ls_job *job = me->base.job;
    if (ls_ps_is_joint(job) && ls_ps_by_arrival(&job->ps))
        return refuse_arrival(job->transport->name);
    LS_TRY(ls_buckets_open(job->model->graph, job->model->graph->variables.elements,
                           job->bucket_bytes, &me->buckets));
    LS_TRY(ls_ps_layout_open(job, &me->buckets, &me->layout));
    LS_TRY(open_members(me));
    for (int s = 0; s < me->server_count; s++)
        LS_TRY(ls_ps_server_open(me, &me->servers[s]));
    for (int w = 0; w < me->worker_count; w++)
        LS_TRY(ls_ps_worker_open(me, &me->workers[w]));
    return ls_ps_is_joint(job) ? ls_ps_joint_open(me) : LS_OK;
}

static ls_status sync_run(ls_run *run)
{
    ls_ps *me = (ls_ps *)run;
    ls_status status = LS_OK;
    for (int w = 0; w < me->worker_count; w++)
        status = ls_status_first(status, ls_ps_worker_sync(&me->workers[w]));
    for (int s = 0; s < me->server_count; s++)
        if (me->servers[s].replica)
            status = ls_status_first(status, ls_queue_sync(me->servers[s].replica->queue));
    return status;
}

static void close_run(ls_run *run)
{
    ls_ps *me = (ls_ps *)run;
    ls_status_free(sync_run(run)); /* of all, before memory that others read is released */
    ls_ps_joint_close(me);
    for (int w = 0; w < me->worker_count; w++)
        ls_ps_worker_close(&me->workers[w]);
    for (int s = 0; s < me->server_count; s++)
        ls_ps_server_close(&me->servers[s]);
    free(me->workers);
    free(me->servers);
    ls_ps_layout_close(&me->layout);
    ls_buckets_close(&me->buckets);
    free(me);
}

static ls_status open_run(const ls_strategy *strategy, const ls_job *job, ls_run **out)
{
    ls_ps *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("ps", sizeof *me);
    me->base = (ls_run){strategy, job};
    ls_status status = build(me);
    if (status)
        close_run(&me->base);
    else
        *out = &me->base;
    return status;
}

/* ---- The strategy --------------------------------------------------------------------------- */

/* Servers are ranks, or in one process the one variable device. */
static ls_status check(const ls_outline *o)
{
    const bool joint = strcmp(o->comm, "device") == 0;
    if (joint && (o->ps_alone || o->ps_backups))
        return refuse_arrival(o->comm);
    if (strcmp(o->comm, "thread") != 0 && strcmp(o->comm, "mpi") != 0 && !joint)
        return ls_fail(LS_CODE_USAGE, "option", "--comm",
                       "%s cannot send to one rank, as servers do; thread, mpi, device or auto",
                       o->comm);
    if (o->ranks == 1 && (o->ps_servers != 1 || o->ps_colocate))
        return ls_fail(LS_CODE_USAGE, "option", o->ps_colocate ? "--ps-colocate" : "--ps-servers",
                       "is of several ranks, and in one process the server is the variable device; "
                       "--ranks N or mpirun -n N works");
    if (o->exact && o->ps_alone)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-mode",
                       "async and ssp have no sum of all gradients that could be exact; --reduce "
                       "fast, or sync, works");
    if (o->exact && o->ps_backups)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-backup-workers",
                       "leaves gradients out, and the exact sum has all; --reduce fast, or 0, "
                       "works");
    if (o->ps_backups && o->ps_backups >= o->replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-backup-workers",
                       "%d of %d workers leave none to wait for; at most %d, or more workers, work",
                       o->ps_backups, o->replicas, o->replicas - 1);
    if (o->ranks > 1 && o->devices != 1)
        return ls_fail(LS_CODE_USAGE, "option", "--devices",
                       "is 1 for each rank of ps, not %zu; more ranks work", o->devices);
    if (o->ranks > 1 && o->ps_colocate && o->ps_servers > o->ranks)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-servers",
                       "%d servers are more than the %d ranks; at most as many work", o->ps_servers,
                       o->ranks);
    if (o->ranks > 1 && !o->ps_colocate && o->ps_servers >= o->ranks)
        return ls_fail(LS_CODE_USAGE, "option", "--ps-servers",
                       "%d servers leave none of %d ranks to work; %d ranks or more, or "
                       "--ps-colocate, work",
                       o->ps_servers, o->ranks, o->ps_servers + 1);
    return LS_OK;
}

static ls_status load(ls_run *run, const float *parameters)
{
    ls_ps *me = (ls_ps *)run;
    for (int s = 0; s < me->server_count; s++)
        LS_TRY(ls_ps_server_load(me, &me->servers[s], parameters));
    for (int w = 0; w < me->worker_count; w++) {
        me->workers[w].newest = 0;
        LS_TRY(ls_replica_load(me->workers[w].member.replica, parameters));
    }
    return LS_OK;
}

/*
 * Every worker by itself, `times` steps; each server until all are through. Steps that are put
 * operation by operation are no turns (ls_device_turn): one worker may wait for another's, and none
 * is held up because another's queue is full.
 */
static ls_status step_alone(ls_ps *me, int which, uint64_t times)
{
    for (int s = 0; s < me->server_count; s++)
        LS_TRY(ls_queue_put(me->servers[s].replica->queue, me->servers[s].serve));
    for (uint64_t t = 0; t < times && !me->base.job->capture; t++)
        for (int w = 0; w < me->worker_count; w++)
            LS_TRY(ls_ps_worker_put(&me->workers[w], which));
    for (int w = 0; w < me->worker_count; w++) {
        if (me->base.job->capture)
            LS_TRY(ls_program_launch(me->workers[w].member.program[which], times));
        LS_TRY(ls_op_list_put(&me->workers[w].bye, me->workers[w].queue));
    }
    return LS_OK;
}

static ls_status step(ls_run *run, bool tail, uint64_t times)
{
    ls_ps *me = (ls_ps *)run;
    const int which = tail ? LS_TAIL : LS_FULL;
    const bool captured = run->job->capture;
    me->steps[which] += times;
    if (ls_ps_by_arrival(&run->job->ps))
        return step_alone(me, which, times);
    if (me->joint)
        return ls_ps_joint_step(me, which, times);
    for (; times; times = captured ? 0 : times - 1) {
        if (!captured)
            ls_job_turn(run->job);
        for (int s = 0; s < me->server_count; s++)
            LS_TRY(captured ? ls_program_launch(me->servers[s].program[which], times)
                            : ls_ps_server_put(&me->servers[s], which));
        for (int w = 0; w < me->worker_count; w++)
            LS_TRY(captured ? ls_program_launch(me->workers[w].member.program[which], times)
                            : ls_ps_worker_put(&me->workers[w], which));
    }
    return LS_OK;
}

static ls_status put_mark(ls_replica *replica)
{
    return ls_queue_put(replica->queue, replica->mark);
}

static ls_status mark(ls_run *run)
{
    ls_ps *me = (ls_ps *)run;
    for (int s = 0; s < me->server_count; s++)
        LS_TRY(put_mark(me->servers[s].replica));
    for (int w = 0; w < me->worker_count && !me->joint; w++) /* else the server's queue drives */
        LS_TRY(put_mark(me->workers[w].member.replica));
    return LS_OK;
}

static void add_program(const ls_program *program, ls_run_info *out)
{
    if (!program)
        return;
    ls_program_info info = ls_program_describe(program);
    out->program.nodes += info.nodes;
    out->program.reorders += info.reorders;
    out->program.reordered_bytes += info.reordered_bytes;
    out->program.bytes += info.bytes;
    out->program.build_ns += info.build_ns;
}

static void describe(const ls_run *run, ls_run_info *out)
{
    const ls_ps *me = (const ls_ps *)run;
    const ls_replica *any =
        me->worker_count ? me->workers[0].member.replica : me->servers[0].replica;
    *out = (ls_run_info){.kernels = any->kernels->table->name,
                         .kernel_library = any->kernels->table->library(any->kernels)};
    add_program(ls_ps_joint_program(me), out);
    for (int s = 0; s < me->server_count; s++)
        add_program(me->servers[s].program[LS_FULL], out);
    for (int w = 0; w < me->worker_count; w++)
        add_program(me->workers[w].member.program[LS_FULL], out);
}

static void each_op(const ls_run *run, ls_op_visit visit, void *context)
{
    const ls_ps *me = (const ls_ps *)run;
    for (int s = 0; s < me->server_count; s++) {
        ls_op_list_each(&me->servers[s].deal, visit, context);
        ls_op_list_each(&me->servers[s].step[LS_FULL], visit, context);
    }
    for (int w = 0; w < me->worker_count; w++)
        ls_ps_worker_each(&me->workers[w], visit, context);
}

static ls_status profile_queue(ls_queue *queue, ls_time_profile *times, bool on)
{
    if (on)
        *times = (ls_time_profile){0};
    return ls_queue_profile(queue, on ? times : NULL);
}

static ls_status profile(ls_run *run, bool on)
{
    ls_ps *me = (ls_ps *)run;
    for (int s = 0; s < me->server_count; s++)
        LS_TRY(profile_queue(me->servers[s].replica->queue, &me->servers[s].times, on));
    for (int w = 0; w < me->worker_count; w++) {
        ls_ps_worker *worker = &me->workers[w];
        LS_TRY(profile_queue(worker->member.replica->queue, &worker->member.times, on));
        if (worker->own_queue)
            LS_TRY(profile_queue(worker->queue, &worker->times, on));
    }
    return LS_OK;
}

/* Whether the member, of this process, is on the device number `index`. */
static bool is_on(const ls_ps *me, const ls_ps_member *place, size_t index)
{
    const ls_job *job = me->base.job;
    const ls_device *device =
        index < job->device_count ? job->devices[index] : job->variable_device;
    return ls_ps_device(job, place) == device;
}

/* The workers'; how busy a server is, its report says. */
static ls_time_profile times(const ls_run *run, size_t index)
{
    const ls_ps *me = (const ls_ps *)run;
    ls_time_profile sum = {0};
    for (int w = 0; w < me->worker_count; w++) {
        const ls_ps_worker *worker = &me->workers[w];
        const ls_time_profile one = ls_times_exposing(worker->member.times, &worker->times);
        for (int use = 0; use < LS_TIME_USES && is_on(me, worker->place, index); use++)
            sum.ns[use] += one.ns[use];
    }
    return sum;
}

static ls_memory_formula memory(const ls_run *run, size_t index)
{
    const ls_ps *me = (const ls_ps *)run;
    ls_memory_formula formula = {0};
    for (int s = 0; s < me->server_count; s++)
        if (is_on(me, me->servers[s].place, index))
            ls_ps_server_memory(&me->servers[s], &formula);
    for (int w = 0; w < me->worker_count; w++)
        if (is_on(me, me->workers[w].place, index))
            ls_ps_worker_memory(&me->workers[w], &formula);
    return formula;
}

const ls_strategy ls_strategy_ps = {
    .name = "ps",
    .help = "between-graph: servers hold the variables, workers pull them and push gradients",
    .equivalent = true,
    .variables = LS_VARIABLES_SERVED,
    .replicated = true,
    .check = check,
    .open = open_run,
    .load = load,
    .step = step,
    .sync = sync_run,
    .mark = mark,
    .records = ls_ps_records,
    .gather = ls_ps_gather,
    .evaluate = ls_ps_evaluate,
    .describe = describe,
    .profile = profile,
    .times = times,
    .each_op = each_op,
    .memory = memory,
    .traffic = ls_ps_traffic,
    .sum = ls_sum_in_order,
    .close = close_run,
};
