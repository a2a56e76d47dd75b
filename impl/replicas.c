/* SPDX-License-Identifier: MIT */
/* Replicas of this process; see replicas.h. */
#include "impl/replicas.h"

#include <stdlib.h>

int64_t ls_replicas_batch(const ls_job *job, int which)
{
    return which == LS_FULL ? job->batch : ls_job_tail(job);
}

static ls_status open_member(const ls_job *job, int number, int count, ls_member *m)
{
    int64_t rows = 0;
    size_t sums = 1;
    for (int b = 0; b < LS_BATCHES; b++) {
        int64_t batch = ls_replicas_batch(job, b);
        size_t these = batch ? ls_slice_count_sums(job, batch, number, count) : 0;
        sums = these > sums ? these : sums;
        rows = batch > rows ? batch : rows;
    }
    LS_TRY(ls_replica_open(job, job->devices[number], rows, sums, &m->replica));
    for (int b = 0; b < LS_BATCHES; b++) {
        const ls_slice_options options = {.replica = m->replica,
                                          .batch = ls_replicas_batch(job, b),
                                          .number = number,
                                          .count = count,
                                          .memory_of = m->slice[LS_FULL]};
        if (!options.batch)
            continue;
        LS_TRY(ls_slice_open(&options, &m->slice[b]));
        LS_TRY(ls_replica_finish(m->replica, options.batch, &m->finish[b]));
    }
    return LS_OK;
}

ls_status ls_replicas_open(const ls_job *job, ls_replicas *out)
{
    *out = (ls_replicas){.job = job, .count = (int)job->device_count};
    out->members = calloc(job->device_count, sizeof *out->members);
    ls_status status =
        out->members ? LS_OK : ls_fail_memory("replicas", job->device_count * sizeof(ls_member));
    for (int i = 0; i < out->count && !status; i++)
        status = open_member(job, i, out->count, &out->members[i]);
    if (status)
        ls_replicas_close(out);
    return status;
}

void ls_replicas_close(ls_replicas *replicas)
{
    for (int i = 0; replicas->members && i < replicas->count; i++)
        if (replicas->members[i].replica)
            ls_status_free(ls_queue_sync(replicas->members[i].replica->queue));
    for (int i = 0; replicas->members && i < replicas->count; i++) {
        ls_member *m = &replicas->members[i];
        for (int b = LS_BATCHES; b-- > 0;) {
            ls_program_close(m->program[b]);
            ls_op_list_clear(&m->update[b]);
            ls_op_list_clear(&m->finish[b]);
            ls_slice_close(m->slice[b]);
        }
        ls_replica_close(m->replica);
    }
    free(replicas->members);
    *replicas = (ls_replicas){0};
}

ls_status ls_replicas_load(ls_replicas *replicas, const float *parameters)
{
    for (int i = 0; i < replicas->count; i++)
        LS_TRY(ls_replica_load(replicas->members[i].replica, parameters));
    return LS_OK;
}

ls_status ls_replicas_sync(ls_replicas *replicas)
{
    ls_status status = LS_OK;
    for (int i = 0; i < replicas->count; i++)
        status = ls_status_first(status, ls_queue_sync(replicas->members[i].replica->queue));
    return status;
}

ls_status ls_replicas_mark(ls_replicas *replicas)
{
    for (int i = 0; i < replicas->count; i++) {
        const ls_replica *replica = replicas->members[i].replica;
        LS_TRY(ls_queue_put(replica->queue, replica->mark));
    }
    return LS_OK;
}

/* ---- Records -------------------------------------------------------------------------------- */

/* What the members' rings say of `count` records. */
typedef struct ring_parts {
    ls_step_record *records; /* [members, count] */
    double *parts;           /* [members, LS_REPLICA_LOSSES], of one record */
    const double **each;     /* [members], into parts */
} ring_parts;

static bool is_tail_record(const ls_job *job, uint64_t index)
{
    uint64_t per_epoch = ls_job_steps_per_epoch(job);
    return ls_job_tail(job) && index % per_epoch == per_epoch - 1;
}

static ls_status add_up(ls_replicas *replicas, uint64_t index, uint64_t place, uint64_t count,
                        const ring_parts *ring, ls_step_record *out)
{
    int64_t batch = ls_replicas_batch(replicas->job, is_tail_record(replicas->job, index));
    *out = ring->records[place];
    for (int i = 0; i < replicas->count; i++) {
        const ls_step_record *record = &ring->records[(uint64_t)i * count + place];
        double *parts = ring->parts + (size_t)i * LS_REPLICA_LOSSES;
        ring->each[i] = parts;
        parts[0] = record->loss;
        if (replicas->members[i].replica->sums > 1)
            LS_TRY(ls_replica_more_losses(replicas->members[i].replica, index, parts + 1));
        if (record->end_ns > out->end_ns)
            out->end_ns = record->end_ns;
    }
    out->loss = ls_slice_loss_sum(replicas->job, batch, ring->each, replicas->count);
    return LS_OK;
}

static ls_status read_rings(ls_replicas *replicas, uint64_t first, uint64_t count,
                            const ring_parts *ring, ls_step_record *out, uint64_t *mark_ns)
{
    *mark_ns = 0;
    for (int i = 0; i < replicas->count; i++) {
        uint64_t mine;
        LS_TRY(ls_replica_records(replicas->members[i].replica, first, count,
                                  ring->records + (uint64_t)i * count, &mine));
        *mark_ns = mine > *mark_ns ? mine : *mark_ns;
    }
    for (uint64_t k = 0; k < count; k++)
        LS_TRY(add_up(replicas, first + k, k, count, ring, &out[k]));
    return LS_OK;
}

ls_status ls_replicas_records(ls_replicas *replicas, uint64_t first, uint64_t count,
                              ls_step_record *out, uint64_t *mark_ns)
{
    const size_t n = (size_t)replicas->count;
    if (n == 1 && replicas->members[0].replica->sums == 1)
        return ls_replica_records(replicas->members[0].replica, first, count, out, mark_ns);
    const ring_parts ring = {.records = calloc(n * count + 1, sizeof *ring.records),
                             .parts = calloc(n * LS_REPLICA_LOSSES, sizeof *ring.parts),
                             .each = calloc(n, sizeof *ring.each)};
    ls_status status = ring.records && ring.parts && ring.each
                           ? read_rings(replicas, first, count, &ring, out, mark_ns)
                           : ls_fail_memory("records", n * count * sizeof *ring.records);
    free(ring.records);
    free(ring.parts);
    free(ring.each);
    return status;
}

/* ---- The rest ------------------------------------------------------------------------------- */

ls_status ls_replicas_evaluate(ls_replicas *replicas, double *accuracy)
{
    const ls_member *m = &replicas->members[0];
    return ls_replica_evaluate(m->replica, ls_slice_net(m->slice[LS_FULL]), accuracy);
}

void ls_replicas_describe(const ls_replicas *replicas, ls_run_info *out)
{
    const ls_kernels *kernels = replicas->members[0].replica->kernels;
    *out = (ls_run_info){.kernels = kernels->table->name,
                         .kernel_library = kernels->table->library(kernels)};
    for (int i = 0; i < replicas->count; i++) {
        if (!replicas->members[i].program[LS_FULL])
            continue;
        ls_program_info info = ls_program_describe(replicas->members[i].program[LS_FULL]);
        out->program.nodes += info.nodes;
        out->program.bytes += info.bytes;
        out->program.build_ns += info.build_ns;
    }
}

void ls_replicas_each(const ls_replicas *replicas, ls_op_visit visit, void *context)
{
    for (int i = 0; i < replicas->count; i++) {
        const ls_member *m = &replicas->members[i];
        ls_slice_each(m->slice[LS_FULL], visit, context);
        ls_op_list_each(&m->update[LS_FULL], visit, context);
        ls_op_list_each(&m->finish[LS_FULL], visit, context);
    }
}

ls_memory_formula ls_replicas_memory(const ls_replicas *replicas, size_t index)
{
    const ls_member *m = &replicas->members[index];
    ls_memory_formula formula = ls_replica_memory(m->replica);
    for (int b = 0; b < LS_BATCHES; b++)
        if (m->slice[b])
            ls_slice_memory(m->slice[b], &formula);
    return formula;
}
