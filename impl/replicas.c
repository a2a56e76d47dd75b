/* SPDX-License-Identifier: MIT */
/* Replicas of this process; see replicas.h. */
#include "impl/replicas.h"

#include "common/base/hooks.h"

#include <stdlib.h>

bool ls_replicated_meets(const ls_job *job)
{
    return job->sync_statistics && (job->exact || ls_job_replicas(job) > 1);
}

int64_t ls_replicated_batch(const ls_job *job, int which)
{
    return which == LS_FULL ? job->batch : ls_job_tail(job);
}

/* The two slices share memory: the one with the larger pieces is opened first. A tail's can be
 * the larger: of 5 replicas, one has 1 of 8 samples but 2 of 7. */
ls_status ls_replicated_open_slices(const ls_job *job, int number, ls_member *m)
{
    ls_slice_options options[LS_BATCHES];
    int64_t rows[LS_BATCHES] = {0};
    for (int b = 0; b < LS_BATCHES; b++) {
        options[b] = (ls_slice_options){.replica = m->replica,
                                        .batch = ls_replicated_batch(job, b),
                                        .number = number,
                                        .count = ls_job_replicas(job),
                                        .pieces = job->microbatches,
                                        .slots = m->slots,
                                        .together = ls_replicated_meets(job),
                                        .comm = m->meeting};
        if (options[b].batch && number >= 0)
            rows[b] = ls_slice_rows(job, &options[b]);
    }
    int first = rows[LS_TAIL] > rows[LS_FULL] ? LS_TAIL : LS_FULL;
    for (int i = 0; i < LS_BATCHES; i++) {
        int b = i ? LS_FULL + LS_TAIL - first : first;
        options[b].memory_of = i ? m->slice[first] : NULL;
        if (options[b].batch && number >= 0)
            LS_TRY(ls_slice_open(&options[b], &m->slice[b]));
        if (options[b].batch)
            LS_TRY(ls_replica_finish(m->replica,
                                     LS_PLANTED(tail_position) ? job->batch : options[b].batch,
                                     &m->finish[b]));
    }
    return LS_OK;
}

size_t ls_replicated_sums(const ls_job *job, int number)
{
    size_t most = 1;
    for (int b = 0; b < LS_BATCHES; b++) {
        int64_t batch = ls_replicated_batch(job, b);
        size_t sums = batch ? ls_slice_count_sums(job, batch, number, ls_job_replicas(job)) : 0;
        most = sums > most ? sums : most;
    }
    return most;
}

static ls_status open_member(const ls_replicated *run, int number, ls_member *m)
{
    const ls_job *job = run->base.job;
    bool replica = number < run->count;
    int global = ls_job_replica_on(job, (size_t)number);
    ls_replica_options place = {.job = job,
                                .device = replica ? job->devices[number] : job->variable_device,
                                .number = global,
                                .sums = replica ? ls_replicated_sums(job, global) : 1,
                                .no_optimizer = run->holder >= 0 && run->holder != number};
    for (int b = 0; b < LS_BATCHES && replica; b++) {
        int64_t batch = ls_replicated_batch(job, b);
        place.rows = batch > place.rows ? batch : place.rows;
    }
    m->meeting = replica && run->meetings ? run->meetings[number] : NULL;
    LS_TRY(ls_replica_open(&place, &m->replica));
    return ls_replicated_open_slices(job, replica ? global : -1, m);
}

/* Where pieces of a batch, or replicas, add up batch statistics, they meet on a communicator. */
static ls_status open_meetings(ls_replicated *run, const ls_job *job)
{
    if (!ls_replicated_meets(job) || ls_job_replicas(job) == 1)
        return LS_OK;
    run->meetings = calloc((size_t)run->count, sizeof(ls_comm *));
    return run->meetings ? ls_comm_open(ls_comm_backend_auto(job->comm, LS_DEVICE_CPU), job->comm,
                                        job->devices, run->count, run->meetings)
                         : ls_fail_memory("replicas", (size_t)run->count * sizeof(ls_comm *));
}

ls_status ls_replicated_open(ls_replicated *run, const ls_strategy *strategy, const ls_job *job,
                             ls_put_step put_step)
{
    size_t total = job->device_count + (run->holder == (int)job->device_count);
    run->base = (ls_run){strategy, job};
    run->put_step = put_step;
    run->members = calloc(total, sizeof *run->members);
    if (!run->members)
        return ls_fail_memory("replicas", total * sizeof *run->members);
    run->count = (int)job->device_count;
    run->places = 1;
    run->total = (int)total;
    LS_TRY(open_meetings(run, job));
    for (int i = 0; i < run->total; i++)
        LS_TRY(open_member(run, i, &run->members[i]));
    return LS_OK;
}

ls_status ls_replicated_start(const ls_job *job,
                              ls_status (*prepare)(ls_replicated *run, const ls_job *job),
                              ls_run **out)
{
    ls_replicated *run = calloc(1, sizeof *run);
    if (!run)
        return ls_fail_memory("strategy", sizeof *run);
    run->base.job = job;
    ls_status status = prepare(run, job);
    if (status)
        ls_replicated_close(&run->base);
    else
        *out = &run->base;
    return status;
}

ls_status ls_replicated_update(ls_replicated *run)
{
    for (int i = 0; i < run->count; i++) {
        ls_member *m = &run->members[i];
        for (int b = 0; b < LS_BATCHES; b++)
            if (m->slice[b])
                LS_TRY(ls_replica_update(m->replica, 0, m->replica->elements, &m->update[b]));
    }
    return LS_OK;
}

/* Whether another member's step holds this one's. */
static bool is_driven(const ls_replicated *run, int number)
{
    const int first = run->together ? 0 : number - number % run->places;
    return number != (run->holder >= 0 ? run->holder : first);
}

ls_status ls_replicated_capture(ls_replicated *run)
{
    for (int i = 0; i < run->total && run->base.job->capture; i++) {
        ls_member *m = &run->members[i];
        if (is_driven(run, i))
            continue;
        for (int b = 0; b < LS_BATCHES; b++) {
            if (!ls_replicated_batch(run->base.job, b))
                continue;
            LS_TRY(ls_program_begin(m->replica->queue));
            ls_status put = run->put_step(run, m, b);
            LS_TRY(ls_status_first(put, ls_program_end(m->replica->queue, &m->program[b])));
        }
    }
    return LS_OK;
}

static ls_replicated *replicated(ls_run *run)
{
    return (ls_replicated *)run;
}

void ls_replicated_close_programs(ls_replicated *run)
{
    ls_status_free(ls_replicated_sync(&run->base));
    for (int i = 0; i < run->total; i++) {
        for (int b = LS_BATCHES; b-- > 0;) {
            ls_program_close(run->members[i].program[b]);
            run->members[i].program[b] = NULL;
        }
    }
}

void ls_member_close(ls_member *m)
{
    for (int b = LS_BATCHES; b-- > 0;) {
        ls_op_list_clear(&m->update[b]);
        ls_op_list_clear(&m->finish[b]);
        ls_slice_close(m->slice[b]);
    }
    ls_replica_close(m->replica);
}

void ls_replicated_close(ls_run *base)
{
    ls_replicated *run = replicated(base);
    ls_replicated_close_programs(run);
    for (int i = 0; i < run->total; i++)
        ls_member_close(&run->members[i]);
    for (int i = 0; run->meetings && i < run->count; i++)
        ls_comm_close(run->meetings[i]);
    free(run->meetings);
    free(run->members);
    free(run);
}

ls_status ls_replicated_step(ls_run *base, bool tail, uint64_t times)
{
    ls_replicated *run = replicated(base);
    int which = tail ? LS_TAIL : LS_FULL;
    bool captured = base->job->capture;
    run->steps[which] += times;
    for (; times; times = captured ? 0 : times - 1) {
        if (!captured)
            ls_job_turn(base->job);
        for (int i = 0; i < run->total; i++) {
            ls_member *m = &run->members[i];
            if (is_driven(run, i))
                continue;
            LS_TRY(captured ? ls_program_launch(m->program[which], times)
                            : run->put_step(run, m, which));
        }
    }
    return LS_OK;
}

ls_status ls_replicated_load(ls_run *base, const float *parameters)
{
    ls_replicated *run = replicated(base);
    for (int i = 0; i < run->total; i++)
        LS_TRY(ls_replica_load(run->members[i].replica, parameters));
    return LS_OK;
}

ls_status ls_replicated_sync(ls_run *base)
{
    ls_replicated *run = replicated(base);
    ls_status status = LS_OK;
    for (int i = 0; i < run->total; i++)
        if (run->members[i].replica && run->members[i].replica->queue)
            status = ls_status_first(status, ls_queue_sync(run->members[i].replica->queue));
    return status;
}

ls_status ls_replicated_mark(ls_run *base)
{
    ls_replicated *run = replicated(base);
    for (int i = 0; i < run->total; i++) {
        const ls_replica *replica = run->members[i].replica;
        if (!is_driven(run, i)) /* what others do is ordered after their driver's queue alone */
            LS_TRY(ls_queue_put(replica->queue, replica->mark));
    }
    return LS_OK;
}

/* ---- The rest ------------------------------------------------------------------------------- */

ls_status ls_replicated_gather(ls_run *base, float *parameters)
{
    return ls_replica_gather(replicated(base)->members[0].replica, parameters);
}

ls_status ls_replicated_evaluate(ls_run *base, uint64_t most, ls_evaluation *out)
{
    ls_replicated *run = replicated(base);
    const ls_member *m = &run->members[0];
    LS_TRY(ls_replica_average_in(m->replica));
    ls_status status = ls_replica_evaluate(m->replica, ls_slice_net(m->slice[LS_FULL]), most, out);
    return ls_status_first(status, ls_replica_average_out(m->replica));
}

void ls_replicated_describe(const ls_run *base, ls_run_info *out)
{
    const ls_replicated *run = (const ls_replicated *)base;
    const ls_kernels *kernels = run->members[0].replica->kernels;
    *out = (ls_run_info){.kernels = kernels->table->name,
                         .kernel_library = kernels->table->library(kernels)};
    for (int i = 0; i < run->total; i++) {
        if (!run->members[i].program[LS_FULL])
            continue;
        ls_program_info info = ls_program_describe(run->members[i].program[LS_FULL]);
        out->program.nodes += info.nodes;
        out->program.reorders += info.reorders;
        out->program.reordered_bytes += info.reordered_bytes;
        out->program.bytes += info.bytes;
        out->program.build_ns += info.build_ns;
    }
}

void ls_replicated_each(const ls_run *base, ls_op_visit visit, void *context)
{
    const ls_replicated *run = (const ls_replicated *)base;
    for (int i = 0; i < run->total; i++) {
        const ls_member *m = &run->members[i];
        if (m->slice[LS_FULL])
            ls_slice_each(m->slice[LS_FULL], visit, context);
        ls_op_list_each(&m->update[LS_FULL], visit, context);
        ls_op_list_each(&m->finish[LS_FULL], visit, context);
    }
}

ls_status ls_replicated_profile(ls_run *base, bool on)
{
    ls_replicated *run = replicated(base);
    for (int i = 0; i < run->total; i++) {
        ls_member *m = &run->members[i];
        if (on)
            m->times = (ls_time_profile){0};
        LS_TRY(ls_queue_profile(m->replica->queue, on ? &m->times : NULL));
    }
    return LS_OK;
}

ls_time_profile ls_replicated_times(const ls_run *base, size_t index)
{
    return ((const ls_replicated *)base)->members[index].times;
}

ls_memory_formula ls_replicated_memory(const ls_run *base, size_t index)
{
    const ls_replicated *run = (const ls_replicated *)base;
    const ls_member *m = &run->members[index];
    ls_memory_formula formula = ls_replica_memory(m->replica);
    for (int b = 0; b < LS_BATCHES; b++)
        if (m->slice[b])
            ls_slice_memory(m->slice[b], &formula);
    return formula;
}
