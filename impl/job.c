/* SPDX-License-Identifier: MIT */
/* What follows from a job's values; see job.h. */
#include "impl/job.h"

#include "common/comm/comm.h"
#include "common/kernel/kernel_step.h"

int ls_job_processes(const ls_job *job)
{
    return job->ranks.comm ? job->ranks.comm->size : 1;
}

int ls_job_process(const ls_job *job)
{
    return job->ranks.comm ? job->ranks.comm->rank : 0;
}

ls_mesh ls_mesh_of(ls_mesh mesh, int devices)
{
    int others = 1;
    mesh.size[mesh.rest] = 1;
    for (int a = 0; a < LS_AXES; a++)
        others *= mesh.size[a] = ls_parts_of(mesh.size[a]);
    mesh.size[mesh.rest] = devices / others;
    mesh.replicas = mesh.size[LS_GROUP] * mesh.size[LS_MEMBER];
    mesh.places = mesh.size[LS_STAGE] * mesh.size[LS_SLICE] * mesh.size[LS_POSITION];
    return mesh;
}

ls_mesh ls_job_mesh(const ls_job *job)
{
    const int devices = (int)job->device_count * ls_job_processes(job);
    return ls_mesh_of(job->mesh, ls_ps_workers(&job->ps, devices));
}

int ls_job_replicas(const ls_job *job)
{
    return ls_job_mesh(job).replicas;
}

int ls_job_places(const ls_job *job)
{
    return ls_job_mesh(job).places;
}

int ls_job_stages(const ls_job *job)
{
    return ls_job_mesh(job).size[LS_STAGE];
}

int ls_job_splits(const ls_job *job)
{
    return job->exact.on ? ls_parts_of(job->exact.splits) : ls_job_mesh(job).size[LS_SLICE];
}

int ls_job_member(const ls_job *job, size_t index)
{
    return ls_job_process(job) * (int)job->device_count + (int)index;
}

int ls_job_pieces(const ls_job *job)
{
    const int microbatches = job->division.microbatches;
    return ls_parts_of(microbatches ? microbatches : job->accumulation.pieces);
}

int ls_job_parts(const ls_job *job)
{
    const ls_mesh mesh = ls_job_mesh(job);
    return mesh.replicas * mesh.size[LS_POSITION] * ls_job_pieces(job);
}

size_t ls_job_block(const ls_job *job)
{
    const ls_wire_form wire = job->exchange.wire;
    const bool clips = job->update.clip > 0;
    if (wire)
        return wire == LS_WIRE_INT8 ? LS_WIRE_ROW : 0;
    return clips && ls_job_fragments(job) == 1 ? LS_SQUARE_BLOCK : 0;
}

uint64_t ls_job_steps_per_epoch(const ls_job *job)
{
    uint64_t samples = job->data->train.samples, batch = (uint64_t)job->batch;
    return samples / batch + (samples % batch != 0);
}

uint64_t ls_job_samples(const ls_job *job, uint64_t steps)
{
    if (!ls_job_tail(job)) /* all batches are full */
        return steps * (uint64_t)job->batch;
    const uint64_t per_epoch = ls_job_steps_per_epoch(job);
    return steps / per_epoch * job->data->train.samples + steps % per_epoch * (uint64_t)job->batch;
}

int64_t ls_job_tail(const ls_job *job)
{
    return job->sampling.epochs ? (int64_t)(job->data->train.samples % (uint64_t)job->batch) : 0;
}

int ls_job_fragment(const ls_job *job, uint64_t step)
{
    const uint64_t period = (uint64_t)job->update.period, all = (uint64_t)ls_job_fragments(job);
    if (!period)
        return 0;
    return (step + 1) % (period / all) ? -1 : (int)((step + 1) / (period / all) % all);
}

ls_range ls_job_fragment_range(const ls_job *job, int f)
{
    const ls_variables *v = &job->model->graph->variables;
    const size_t all = (size_t)ls_job_fragments(job), number = (size_t)f;
    const size_t first = (number * v->count + all - 1) / all;
    const size_t end = ((number + 1) * v->count + all - 1) / all;
    const size_t begin = first < v->count ? v->items[first].offset : v->elements;
    return (ls_range){begin, (end < v->count ? v->items[end].offset : v->elements) - begin};
}

bool ls_job_is_tail(const ls_job *job, uint64_t step)
{
    const uint64_t per_epoch = ls_job_steps_per_epoch(job);
    return ls_job_tail(job) && step % per_epoch == per_epoch - 1;
}

bool ls_job_lacks_tail(const ls_job *job, uint64_t first, uint64_t steps, uint64_t *next)
{
    const uint64_t per_epoch = ls_job_steps_per_epoch(job);
    if (!ls_job_tail(job))
        return false;
    *next = first + (per_epoch - 1 - first % per_epoch);
    return *next >= first + steps;
}

const char *ls_state_name(const ls_job *job, ls_values array)
{
    const ls_optimizer_rule *rule = job->update.optimizer.rule;
    if (array == LS_VALUES)
        return "param";
    if (array == LS_AVERAGES)
        return job->update.average != 0 ? "average" : NULL;
    const int slot = (int)array - LS_SLOT_0;
    return slot < rule->slots ? rule->slot_names[slot] : NULL;
}
