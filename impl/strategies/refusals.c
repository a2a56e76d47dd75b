/* SPDX-License-Identifier: MIT */
/* The table of the jobs that are refused (refusals.def); see ls_strategy_check. */
#include "common/base/escape.h"
#include "common/comm/comm.h"
#include "impl/ps/ps_layout.h"
#include "impl/replica/slice.h"
#include "impl/strategies.h"

#include <stdio.h>
#include <string.h>

/* Refuses an all-reduce, which is not 'auto', if it cannot be cut into halves. */
static ls_status refuse_uncut(const ls_outline *o)
{
    const ls_allreduce *algorithm;
    LS_TRY(ls_allreduce_find(o->allreduce, &algorithm));
    return ls_allreduce_check_halves(algorithm);
}

/* Refuses sums of libraries: NCCL, or of MPI; `why`: behind "it"; which algorithms work instead. */
static ls_status refuse_library(const ls_outline *o, const char *why, const char *which)
{
    if (strcmp(o->allreduce, "library") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce", "'library' %s; use --allreduce %s",
                       why, which);
    if (strcmp(o->comm, "nccl") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--comm", "'nccl' %s; use --comm auto", why);
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

/* Refuses parts that cannot share the devices evenly, with the numbers that can: "1, 2, 3, 6". */
static ls_status check_even(const char *option, const char *what, int64_t parts, int64_t devices)
{
    char text[256] = "";
    for (int64_t d = 1; d <= devices; d++)
        if (devices % d == 0)
            ls_text_add(text, sizeof text, "%s%lld", *text ? ", " : "", (long long)d);
    return devices % parts ? ls_fail(LS_CODE_USAGE, "option", option,
                                     "%lld %s cannot share the devices (%lld) evenly; give a "
                                     "divisor of that number (%s), or change the number of devices",
                                     (long long)parts, what, (long long)devices, text)
                           : LS_OK;
}

/* Writes the multiples of a number of stages that are next to a number of micro-batches. */
static const char *multiples_of(int stages, int microbatches, char text[64])
{
    const int less = microbatches / stages * stages;
    snprintf(text, 64, less ? "%d or %d" : "%d", less ? less : stages, less + stages);
    return text;
}

/* What a strategy does not say a second time, although the gate must know it; or NULL. */
static const char *missing_of(const ls_strategy *strategy, const ls_job *job)
{
    return ls_strategy_reduces(strategy) && !strategy->witness.sum ? "witness.sum"
           : job->update.owned && !strategy->owns                  ? "owns"
           : job->update.owned && !strategy->witness.exchange      ? "witness.exchange"
                                                                   : NULL;
}

static bool is(const char *chosen, const char *word)
{
    return strcmp(chosen, word) == 0;
}

ls_status ls_strategy_check(const ls_strategy *strategy, const ls_outline *o)
{
    const ls_job *job = o->job;
    const ls_ps_options *ps = &job->ps;
    const int64_t devices = (int64_t)o->devices * o->ranks, local = (int64_t)o->devices;
    const ls_mesh mesh = ls_mesh_of(job->mesh, (int)devices);
    const int stages = mesh.size[LS_STAGE], staged = job->division.microbatches;
    const bool exact = job->exact.on, rounded = job->exchange.gradient_wire;
    const bool nccl = is(o->comm, "nccl"), mpi = is(o->comm, "mpi"), device = is(o->comm, "device");
    const bool chosen = !is(o->allreduce, "auto"), library = is(o->allreduce, "library");
    const bool direct = is(o->allreduce, "direct"), owners = is(o->allreduce, "owners");
    const bool canonical = is(o->allreduce, "canonical");
    const bool hybrid = strategy->inner, sliced = ls_job_slices(job);
    const bool shares = job->state.on[LS_MEMBER] == LS_SHARE;
    const bool serves = ls_strategy_serves(strategy),
               local_sgd = strategy == &ls_strategy_local_sgd;
    const bool sums = ls_strategy_reduces(strategy) || sliced;
    const bool sends = sums || strategy->average.peers || job->mesh.rest == LS_STAGE || serves;
    const int64_t replicas = ls_outline_replicas(strategy, o);
    const bool replicated = ls_strategy_replicates(strategy) && replicas != 1;
    /* samples, or shards, of a batch, and of a replica of a divided model; replicas' devices */
    const int64_t units = exact ? ls_job_shards(job, job->batch) : job->batch;
    const int64_t most = units / ls_parts_of(job->mesh.size[LS_MEMBER]);
    const int64_t copies = ls_declared_number(&job->options, &ls_option_hybrid_replicas);
    const int64_t pieces = job->accumulation.pieces, places = devices / copies;
    const int exchanges = ls_slice_exchanges(job);
    const char *missing = missing_of(strategy, job);
    char text[64];
#define REFUSED(when, status) LS_TRY((when) ? (status) : LS_OK);
#define REFUSAL(when, where, ...)                                                                  \
    REFUSED(when,                                                                                  \
            ls_fail(LS_CODE_USAGE, *(where) == '-' ? "option" : "strategy", where, __VA_ARGS__))
#include "impl/strategies/refusals.def"
    return LS_OK;
}
