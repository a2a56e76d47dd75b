/* SPDX-License-Identifier: MIT */
/* The table of strategies; see strategy.h. */
#include "common/kernel/step_inline.h"
#include "impl/ps/ps_layout.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <string.h>

static const ls_strategy *const strategies[] = {
    &ls_strategy_single,    &ls_strategy_independent,
    &ls_strategy_towers,    &ls_strategy_mirrored,
    &ls_strategy_local_sgd, &ls_strategy_model_parallel,
    &ls_strategy_pipeline,  &ls_strategy_hybrid,
    &ls_strategy_ps,        NULL,
};

const ls_strategy *const *ls_strategies(void)
{
    return strategies;
}

ls_status ls_strategy_find(const char *name, const ls_strategy **out)
{
    char names[256] = "";
    size_t used = 0;
    for (size_t i = 0; strategies[i]; i++) {
        if (strcmp(strategies[i]->name, name) == 0) {
            *out = strategies[i];
            return LS_OK;
        }
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "",
                                 strategies[i]->name);
    }
    return ls_fail(LS_CODE_USAGE, "strategy", name, "no strategy of this name; strategies are %s",
                   names);
}

/* What ranks in processes of their own can and cannot do. */
static ls_status check_ranks(const ls_outline *o)
{
    const bool mpi = strcmp(o->comm, "mpi") == 0 && o->ranks > 1;
    const bool library = strcmp(o->allreduce, "library") == 0;
    if (strcmp(o->comm, "nccl") == 0 &&
        (o->exact || !(library || strcmp(o->allreduce, "auto") == 0)))
        return ls_fail(LS_CODE_USAGE, "option", "--comm",
                       "nccl has an all-reduce and an order of its own; --reduce fast with "
                       "--allreduce library or auto, or --comm auto, work");
    if (strcmp(o->comm, "nccl") == 0)
        return LS_OK;
    if (mpi && o->hosts > 1 && strcmp(o->allreduce, "direct") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "direct reads the others' memory, and hosts share none; use hierarchical, "
                       "ring, tree, halving-doubling, flat, library or auto");
    if (!library)
        return LS_OK;
    if (!mpi)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "library is that of several ranks of --comm mpi, or of --comm nccl; use "
                       "direct, ring, tree, halving-doubling, flat or auto");
    if (o->linked)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "library sends messages of MPI's own, which --link cannot delay; use ring, "
                       "tree, halving-doubling, flat or auto");
    if (o->devices != 1)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "library adds up one device of each rank, not %zu; --devices 1 and more "
                       "ranks, or auto, work",
                       o->devices);
    return LS_OK;
}

ls_status ls_strategy_check(const ls_strategy *strategy, const ls_outline *o)
{
    LS_TRY(strategy->check(o));
    bool canonical = strcmp(o->allreduce, "canonical") == 0;
    if (strategy->reduces && o->exact && !canonical && strcmp(o->allreduce, "auto") != 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "%s does not sum canonically; --reduce exact implies canonical, so leave "
                       "it out",
                       o->allreduce);
    if (strategy->reduces && !o->exact && canonical)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "canonical is that of --reduce exact; name another one or auto");
    if (strategy->reduces && o->linked && strcmp(o->allreduce, "direct") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "direct reads the others' memory, and with --link none is shared; use "
                       "ring, tree, halving-doubling, flat or auto");
    if (strategy->reduces || ls_strategy_divides(strategy) || ls_strategy_serves(strategy))
        LS_TRY(check_ranks(o));
    int64_t replicas = o->replicas > 0 ? o->replicas : (int64_t)o->devices * o->ranks;
    int64_t shards = o->micro_shards < o->batch ? o->micro_shards : o->batch;
    if (!strategy->replicated || replicas == 1)
        return LS_OK;
    if (replicas > LS_JOB_REPLICAS)
        return ls_fail(LS_CODE_USAGE, "option", "--devices", "%lld are too many; at most %d",
                       (long long)replicas, LS_JOB_REPLICAS);
    if (o->batch < replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--batch",
                       "%lld samples are fewer than the %lld replicas; a batch of at least %lld "
                       "or fewer devices work",
                       (long long)o->batch, (long long)replicas, (long long)replicas);
    if (o->exact && shards < replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--micro-shards",
                       "%lld shards are fewer than the %lld replicas; --micro-shards %lld or "
                       "fewer devices work",
                       (long long)shards, (long long)replicas, (long long)replicas);
    return LS_OK;
}

ls_status ls_job_agree(const ls_job *job, ls_status mine)
{
    return ls_comm_agree(job->comm, mine);
}

int ls_job_replicas(const ls_job *job)
{
    if (job->place)
        return job->split_replicas > 1 ? job->split_replicas : 1;
    const int devices = (int)job->device_count * (job->comm ? job->comm->size : 1);
    return job->ps.ranks ? ls_ps_workers(&job->ps, devices) : devices;
}

int ls_job_places(const ls_job *job)
{
    if (job->ps.ranks)
        return 1;
    return (int)job->device_count * (job->comm ? job->comm->size : 1) / ls_job_replicas(job);
}

int ls_job_replica_on(const ls_job *job, size_t index)
{
    size_t before = job->comm ? (size_t)job->comm->rank * job->device_count : 0;
    return (int)((before + index) / (size_t)ls_job_places(job));
}

int ls_job_place_of(const ls_job *job, size_t index)
{
    size_t before = job->comm ? (size_t)job->comm->rank * job->device_count : 0;
    return (int)((before + index) % (size_t)ls_job_places(job));
}

int ls_job_parts(const ls_job *job)
{
    return ls_job_replicas(job) * (job->microbatches > 1 ? job->microbatches : 1);
}

uint64_t ls_job_steps_per_epoch(const ls_job *job)
{
    uint64_t samples = job->data->train.samples, batch = (uint64_t)job->batch;
    return samples / batch + (samples % batch != 0);
}

uint64_t ls_job_samples(const ls_job *job, uint64_t steps)
{
    if (!job->epochs)
        return steps * (uint64_t)job->batch;
    const uint64_t per_epoch = ls_job_steps_per_epoch(job);
    return steps / per_epoch * job->data->train.samples + steps % per_epoch * (uint64_t)job->batch;
}

ls_step_state ls_job_start(const ls_job *job)
{
    const ls_rate_schedule *rate = &job->schedule;
    const double power = rate->period ? ls_power(rate->factor, job->start / rate->period) : 1;
    return (ls_step_state){.step = job->start,
                           .position = ls_job_samples(job, job->start),
                           .record = job->start,
                           .learning_rate = rate->initial * power};
}

int64_t ls_job_tail(const ls_job *job)
{
    return job->epochs ? (int64_t)(job->data->train.samples % (uint64_t)job->batch) : 0;
}

bool ls_job_is_tail(const ls_job *job, uint64_t step)
{
    const uint64_t per_epoch = ls_job_steps_per_epoch(job);
    return ls_job_tail(job) && step % per_epoch == per_epoch - 1;
}

void ls_job_turn(const ls_job *job)
{
    for (size_t i = 0; i < job->device_count; i++)
        ls_device_turn(job->devices[i]);
    if (job->variable_device)
        ls_device_turn(job->variable_device);
}
