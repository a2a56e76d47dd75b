/* SPDX-License-Identifier: MIT */
/* The jobs that all strategies refuse; each one's own are in its file. See ls_strategy_check. */
#include "common/comm/comm.h"
#include "impl/ps/ps_layout.h"
#include "impl/replica/slice.h"
#include "impl/strategies.h"

#include <string.h>

/* Refuses a wire that rounds where sums have a fixed order, or would be rounded more than once. */
static ls_status check_wire(const ls_outline *o)
{
    const char *const where = "--gradient-wire";
    if (!o->job->exchange.gradient_wire)
        return LS_OK;
    if (o->job->exact.on)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "'bf16' rounds the gradients that replicas send, but --reduce exact sends "
                       "sums without rounding; use --reduce fast, or --gradient-wire float32");
    if (o->job->mesh.rest == LS_POSITION)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "'bf16' would round partial sums of gradients, since --hybrid-inner "
                       "context-parallel divides a replica's positions over devices; use "
                       "--gradient-wire float32, or another --hybrid-inner");
    if (strcmp(o->comm, "nccl") == 0)
        return ls_fail(
            LS_CODE_USAGE, "option", "--comm",
            "'nccl' would add gradients in 16 bits, but --gradient-wire bf16 sends them in 16 bits "
            "and adds them in float32; use --comm auto, or --gradient-wire float32");
    if (strcmp(o->allreduce, "auto") != 0 && strcmp(o->allreduce, "owners") != 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "'%s' would round some elements more than once, but --gradient-wire bf16 "
                       "rounds once; use --allreduce owners or auto",
                       o->allreduce);
    return LS_OK;
}

ls_status ls_refuse_uncut(const ls_outline *o)
{
    const ls_allreduce *algorithm;
    if (strcmp(o->allreduce, "auto") == 0)
        return LS_OK;
    LS_TRY(ls_allreduce_find(o->allreduce, &algorithm));
    return ls_allreduce_check_halves(algorithm);
}

ls_status ls_refuse_library(const ls_outline *o, const char *why, const char *which)
{
    if (strcmp(o->allreduce, "library") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce", "'library' %s; use --allreduce %s",
                       why, which);
    if (strcmp(o->comm, "nccl") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--comm", "'nccl' %s; use --comm auto", why);
    return LS_OK;
}

/* Refuses all-reduces that the ranks' communicator cannot run. */
static ls_status check_ranks(const ls_outline *o)
{
    const bool mpi = strcmp(o->comm, "mpi") == 0 && o->ranks > 1;
    const bool library = strcmp(o->allreduce, "library") == 0;
    if (strcmp(o->comm, "nccl") == 0 &&
        (o->job->exact.on || !(library || strcmp(o->allreduce, "auto") == 0)))
        return ls_fail(
            LS_CODE_USAGE, "option", "--comm",
            "'nccl' sums in an unknown order, but the chosen --reduce or --allreduce requires a "
            "known order; use --comm auto, or --reduce fast with --allreduce library (or auto)");
    if (strcmp(o->comm, "nccl") == 0)
        return LS_OK;
    if (mpi && o->hosts > 1 && strcmp(o->allreduce, "direct") == 0)
        return ls_fail(
            LS_CODE_USAGE, "option", "--allreduce",
            "'direct' reads other ranks' memory, which is not possible between hosts; use "
            "--allreduce hierarchical, ring, tree, halving-doubling, flat, library or auto");
    if (!library)
        return LS_OK;
    if (!mpi)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "'library' needs several ranks with --comm mpi, or --comm nccl; use "
                       "--allreduce direct, ring, tree, halving-doubling, flat or auto");
    if (o->linked)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "'library' sends MPI's own messages, which --link cannot delay; use "
                       "--allreduce ring, tree, halving-doubling, flat or auto");
    if (o->devices != 1)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "'library' sums one device of each rank, not %zu; use --devices 1 and more "
                       "ranks, or --allreduce auto",
                       o->devices);
    return LS_OK;
}

int64_t ls_outline_replicas(const ls_strategy *strategy, const ls_outline *o)
{
    const int64_t devices = (int64_t)o->devices * o->ranks;
    if (ls_strategy_serves(strategy))
        return devices <= INT32_MAX ? ls_ps_workers(&o->job->ps, (int)devices) : devices;
    const int members = o->job->mesh.size[LS_MEMBER];
    return o->job->mesh.rest == LS_MEMBER ? devices : members > 1 ? members : 1;
}

/* Sums that the replica with most of them keeps, of all exchanges: each has a part of the loss. */
static size_t most_sums(const ls_job *job, int replicas)
{
    ls_subtree nodes[LS_SUBTREES];
    size_t most = 0;
    for (int d = 0; d < replicas; d++) {
        size_t sums = 0;
        for (int e = 0; e < ls_job_pieces(job); e++)
            sums += ls_canonical_subtrees(e * replicas + d, replicas * ls_job_pieces(job),
                                          ls_job_shards(job, job->batch), nodes);
        most = sums > most ? sums : most;
    }
    return most;
}

/* Refuses pieces that the strategy has no order for, or if a full batch leaves some empty. */
static ls_status check_accumulation(const ls_strategy *strategy, const ls_outline *o)
{
    const ls_job *job = o->job;
    const int64_t pieces = job->accumulation.pieces, replicas = ls_outline_replicas(strategy, o);
    const int64_t most = job->exact.on ? ls_job_shards(job, job->batch) : job->batch;
    if (pieces < 2)
        return LS_OK;
    if (job->division.microbatches)
        return ls_fail(LS_CODE_USAGE, "option", "--gradient-accumulation-steps",
                       "a pipeline divides its batches by --pipeline-microbatches instead; use "
                       "--pipeline-microbatches %lld",
                       (long long)pieces);
    if (job->gradients.windows && !job->accumulation.each)
        return ls_fail(LS_CODE_USAGE, "option", "--gradient-accumulation-exchange",
                       "'last' needs complete gradients on every device, but with --zero-stage 2 "
                       "or 3 a device keeps only its share; use --gradient-accumulation-exchange "
                       "each, or --zero-stage 1");
    if (most < pieces * replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--gradient-accumulation-steps",
                       "with %lld pieces per replica and %lld %s, some pieces would be empty, "
                       "since the batch has %lld %s; use at most %lld, or %s",
                       (long long)pieces, (long long)replicas,
                       replicas > 1 ? "replicas" : "replica", (long long)most,
                       job->exact.on ? "shards" : "samples",
                       (long long)(most / replicas > 1 ? most / replicas : 1),
                       job->exact.on ? "more --micro-shards" : "a larger --batch");
    if (job->accumulation.breadth && !job->exact.on && pieces > LS_REPLICA_LOSSES)
        return ls_fail(LS_CODE_USAGE, "option", "--gradient-accumulation-steps",
                       "%lld pieces are more than the %d that a device can compute at once; use "
                       "fewer pieces, or --zero-accumulation depth",
                       (long long)pieces, LS_REPLICA_LOSSES);
    return LS_OK;
}

/* Refuses more sums of pieces that are exchanged one by one than a replica keeps in exact mode. */
static ls_status check_sums(const ls_strategy *strategy, const ls_outline *o)
{
    const ls_job *job = o->job;
    const int pieces = ls_slice_exchanges(job);
    if (!job->exact.on || pieces < 2 ||
        most_sums(job, (int)ls_outline_replicas(strategy, o)) < LS_REPLICA_LOSSES)
        return LS_OK; /* weight decay has a part, too */
    return ls_fail(LS_CODE_USAGE, "option",
                   job->division.microbatches ? "--pipeline-microbatches"
                                              : "--gradient-accumulation-steps",
                   "a replica keeps at most %d partial sums of its loss, and %d pieces of the "
                   "batch, with one or more sums each, need more; use a smaller number",
                   LS_REPLICA_LOSSES - 1, pieces);
}

/* Refuses a strategy that does not say a second time what the gate must know. */
static ls_status check_witness(const ls_strategy *strategy, const ls_job *job)
{
    const char *missing = ls_strategy_reduces(strategy) && !strategy->witness.sum ? "witness.sum"
                          : job->update.owned && !strategy->owns                  ? "owns"
                          : job->update.owned && !strategy->witness.exchange ? "witness.exchange"
                                                                             : NULL;
    return missing ? ls_fail(LS_CODE_USAGE, "strategy", strategy->name,
                             "the struct ls_strategy of this strategy does not set %s, which its "
                             "other members require; set this member as local_sgd.c does",
                             missing)
                   : LS_OK;
}

ls_status ls_strategy_check(const ls_strategy *strategy, const ls_outline *o)
{
    LS_TRY(check_witness(strategy, o->job));
    LS_TRY(check_accumulation(strategy, o));
    LS_TRY(check_wire(o));
    if (strategy->check)
        LS_TRY(strategy->check(o));
    LS_TRY(check_sums(strategy, o));
    if (ls_strategy_alone(strategy) && o->job->exact.on)
        return ls_fail(LS_CODE_USAGE, "strategy", strategy->name,
                       "this strategy does not sum gradients, so --reduce exact would have no "
                       "effect; use --reduce fast");
    bool canonical = strcmp(o->allreduce, "canonical") == 0;
    const bool sums = ls_strategy_reduces(strategy) || ls_job_slices(o->job);
    if (sums && o->job->exact.on && !canonical && strcmp(o->allreduce, "auto") != 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "'%s' cannot be used with --reduce exact, which has its own all-reduce; "
                       "remove --allreduce",
                       o->allreduce);
    if (sums && !o->job->exact.on && canonical)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "'canonical' works with --reduce exact only; use --allreduce auto or "
                       "another algorithm");
    if (sums && o->linked && strcmp(o->allreduce, "direct") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "'direct' reads other devices' memory, which --link does not allow; use "
                       "--allreduce ring, tree, halving-doubling, flat or auto");
    if (sums || strategy->average.peers || o->job->mesh.rest == LS_STAGE ||
        ls_strategy_serves(strategy))
        LS_TRY(check_ranks(o));
    const int64_t replicas = ls_outline_replicas(strategy, o), batch = o->job->batch;
    const int64_t shards = ls_job_shards(o->job, batch);
    if (!ls_strategy_replicates(strategy) || replicas == 1)
        return LS_OK;
    if (replicas > LS_JOB_REPLICAS)
        return ls_fail(LS_CODE_USAGE, "option", "--devices",
                       "%lld devices are too many; use at most %d", (long long)replicas,
                       LS_JOB_REPLICAS);
    if (batch < replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--batch",
                       "%lld is less than the number of replicas, %lld; use a batch of at least "
                       "%lld, or fewer devices",
                       (long long)batch, (long long)replicas, (long long)replicas);
    if (o->job->exact.on && shards < replicas)
        return ls_fail(
            LS_CODE_USAGE, "option", "--micro-shards",
            "%lld is less than the number of replicas, %lld; use --micro-shards %lld, or "
            "fewer devices",
            (long long)shards, (long long)replicas, (long long)replicas);
    return LS_OK;
}
