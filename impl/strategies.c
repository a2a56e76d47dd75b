/* SPDX-License-Identifier: MIT */
/* The table of strategies; see strategy.h. */
#include "common/comm/comm.h"
#include "common/device/device_name.h"
#include "impl/ps/ps_layout.h"
#include "impl/replica/slice.h"
#include "impl/strategies.h"

#include <string.h>

static const void *const strategies[] = {
    &ls_strategy_single,
    &ls_strategy_independent,
    &ls_strategy_towers,
    &ls_strategy_mirrored,
    &ls_strategy_zero,
    &ls_strategy_local_sgd,
    &ls_strategy_gossip,
    &ls_strategy_model_parallel,
    &ls_strategy_pipeline,
    &ls_strategy_tensor_parallel,
    &ls_strategy_context_parallel,
    &ls_strategy_hybrid,
    &ls_strategy_ps,
    NULL,
};
const ls_registry ls_strategies = {"strategy", strategies};

const ls_declared_option *ls_strategy_option(const ls_strategy *strategy, const char *name)
{
    const ls_declared_option *const *option = strategy->options;
    while (option && *option && strcmp((*option)->name, name) != 0)
        option++;
    return option ? *option : NULL;
}

bool ls_strategy_has(const ls_strategy *strategy, const ls_declared_values *values, int ranks,
                     const ls_declared_option *option)
{
    return ls_declared_has(strategy->options, option) &&
           (!strategy->has || strategy->has(values, ranks, option));
}

ls_status ls_strategy_find(const char *name, const ls_strategy **out)
{
    *out = ls_registry_find(&ls_strategies, name, strlen(name));
    return *out ? LS_OK : ls_registry_refuse(&ls_strategies, name);
}

/* Whose variables its members have. */
static const ls_strategy *inner_of(const ls_strategy *strategy, const ls_declared_values *values)
{
    return strategy->inner ? strategy->inner(values) : strategy;
}

bool ls_strategy_syncs(const ls_strategy *strategy, const ls_declared_values *values)
{
    const ls_strategy *inner = inner_of(strategy, values);
    return inner->spreads.mesh.rest == LS_MEMBER && !ls_strategy_alone(inner) &&
           !ls_strategy_serves(inner);
}

static ls_status check_device_name(const char *text)
{
    ls_device_name name;
    ls_status status = ls_device_name_parse(text, &name);
    if (!status)
        return LS_OK;
    ls_status_free(status);
    return ls_fail(
        LS_CODE_USAGE, "device", text,
        "not a device name; names are as /cpu:0, gpu:1, /job:worker/task:1/device:GPU:0");
}

const ls_declared_option ls_option_variable_device = {
    .name = "variable-device",
    .placeholder = "NAME",
    .fallback = "/cpu:0",
    .unit = "",
    .help = "device that holds the variables",
    .type = LS_DECLARED_TEXT,
    .high = 64,
    .check = check_device_name,
};

const ls_declared_option ls_option_accumulation_exchange = {
    .name = "gradient-accumulation-exchange",
    .placeholder = "auto|last|each",
    .fallback = "auto",
    .unit = "",
    .help = "of gradients: in the last piece's backward pass, or in each; auto: last, but each "
            "where no device holds whole gradients (zero stages 2 and 3)",
    .type = LS_DECLARED_WORD,
    .words = (const char *const[]){"auto", "last", "each", NULL},
};

const ls_declared_option ls_option_gradient_wire = {
    .name = "gradient-wire",
    .placeholder = "float32|bf16",
    .fallback = "float32",
    .unit = "",
    .help = "how gradients travel to be summed: as they are, or rounded to 16 bits",
    .type = LS_DECLARED_WORD,
    .words = (const char *const[]){"float32", "bf16", NULL}, /* as ls_wire_form */
};

/* Refuses a wire that rounds where sums have a fixed order, or would be rounded more than once. */
static ls_status check_wire(const ls_outline *o)
{
    const char *const where = "--gradient-wire";
    if (!o->job->exchange.gradient_wire)
        return LS_OK;
    if (o->job->exact.on)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "bf16 rounds what replicas send, and --reduce exact sends partial sums "
                       "unrounded; use --reduce fast, or --gradient-wire float32");
    if (o->job->mesh.rest == LS_POSITION)
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "bf16 rounds each replica's gradient, and places with a part of the "
                       "positions have only partial sums of it; use float32, or another "
                       "--hybrid-inner");
    if (strcmp(o->comm, "nccl") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--comm",
                       "nccl adds in 16 bits what travels in 16 bits; use auto, or --gradient-wire "
                       "float32");
    if (strcmp(o->allreduce, "auto") != 0 && strcmp(o->allreduce, "owners") != 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "%s would round more than once an element that --gradient-wire rounds; use "
                       "owners or auto",
                       o->allreduce);
    return LS_OK;
}

/* Refuses all-reduces that the ranks' communicator cannot run. */
static ls_status check_ranks(const ls_outline *o)
{
    const bool mpi = strcmp(o->comm, "mpi") == 0 && o->ranks > 1;
    const bool library = strcmp(o->allreduce, "library") == 0;
    if (strcmp(o->comm, "nccl") == 0 &&
        (o->job->exact.on || !(library || strcmp(o->allreduce, "auto") == 0)))
        return ls_fail(LS_CODE_USAGE, "option", "--comm",
                       "nccl sums in its own order; use --reduce fast with --allreduce "
                       "library or auto, or --comm auto");
    if (strcmp(o->comm, "nccl") == 0)
        return LS_OK;
    if (mpi && o->hosts > 1 && strcmp(o->allreduce, "direct") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "direct reads other ranks' memory, which ranks on several hosts cannot; "
                       "use hierarchical, ring, tree, halving-doubling, flat, library or auto");
    if (!library)
        return LS_OK;
    if (!mpi)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "library needs several ranks with --comm mpi, or --comm nccl; use "
                       "direct, ring, tree, halving-doubling, flat or auto");
    if (o->linked)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "library sends messages of MPI's own, which --link cannot delay; use ring, "
                       "tree, halving-doubling, flat or auto");
    if (o->devices != 1)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "library sums one device of each rank, not %zu; use --devices 1 and more "
                       "ranks, or auto",
                       o->devices);
    return LS_OK;
}

void ls_strategy_resolve(const ls_strategy *strategy, ls_job *job, int ranks)
{
    job->mesh.rest = inner_of(strategy, &job->options)->spreads.mesh.rest;
    if (strategy->average.period)
        job->update.period = (int)ls_declared_number(&job->options, strategy->average.period);
    if (strategy->resolve)
        strategy->resolve(job, ranks);
    job->exchange.gradient_wire =
        (ls_wire_form)ls_declared_number(&job->options, &ls_option_gradient_wire);
    const int64_t exchange = ls_declared_number(&job->options, &ls_option_accumulation_exchange);
    const bool staged = job->division.microbatches; /* its options of pieces do not apply */
    job->accumulation.each = exchange == LS_EXCHANGE_AUTO || staged ? job->gradients.windows > 0
                                                                    : exchange == LS_EXCHANGE_EACH;
    job->accumulation.breadth = ls_declared_number(&job->options, &ls_option_zero_accumulation) &&
                                job->gradients.windows && !staged;
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
                       "a pipeline's micro-batches are its pieces; use --pipeline-microbatches "
                       "%lld",
                       (long long)pieces);
    if (job->gradients.windows && !job->accumulation.each)
        return ls_fail(LS_CODE_USAGE, "option", "--gradient-accumulation-exchange",
                       "last requires the complete gradient, which only stage 1 has; use each, or "
                       "--zero-stage 1");
    if (most < pieces * replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--gradient-accumulation-steps",
                       "%lld pieces of %lld %s are more than the batch's %lld %s; use at most "
                       "%lld, or %s",
                       (long long)pieces, (long long)replicas,
                       replicas > 1 ? "replicas" : "replica", (long long)most,
                       job->exact.on ? "shards" : "samples",
                       (long long)(most / replicas > 1 ? most / replicas : 1),
                       job->exact.on ? "more --micro-shards" : "a larger --batch");
    if (job->accumulation.breadth && !job->exact.on && pieces > LS_REPLICA_LOSSES)
        return ls_fail(LS_CODE_USAGE, "option", "--gradient-accumulation-steps",
                       "%lld pieces are more than the %d that a device runs abreast; use fewer, or "
                       "--zero-accumulation depth",
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
                   "a replica keeps %d sums of its loss at most, and %d pieces with an exchange "
                   "each have more; use fewer pieces",
                   LS_REPLICA_LOSSES - 1, pieces);
}

ls_status ls_strategy_check(const ls_strategy *strategy, const ls_outline *o)
{
    LS_TRY(check_accumulation(strategy, o));
    LS_TRY(check_wire(o));
    if (strategy->check)
        LS_TRY(strategy->check(o));
    LS_TRY(check_sums(strategy, o));
    if (ls_strategy_alone(strategy) && o->job->exact.on)
        return ls_fail(
            LS_CODE_USAGE, "strategy", strategy->name,
            "does not sum gradients, so --reduce exact has no effect on it; use --reduce fast");
    bool canonical = strcmp(o->allreduce, "canonical") == 0;
    const bool sums = ls_strategy_reduces(strategy) || ls_job_slices(o->job);
    if (sums && o->job->exact.on && !canonical && strcmp(o->allreduce, "auto") != 0)
        return ls_fail(
            LS_CODE_USAGE, "option", "--allreduce",
            "%s does not sum canonically; --reduce exact implies canonical, so remove it",
            o->allreduce);
    if (sums && !o->job->exact.on && canonical)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "canonical is for --reduce exact only; name another algorithm or auto");
    if (sums && o->linked && strcmp(o->allreduce, "direct") == 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "direct reads other devices' memory, which --link does not share; use "
                       "ring, tree, halving-doubling, flat or auto");
    if (sums || strategy->average.peers || o->job->mesh.rest == LS_STAGE ||
        ls_strategy_serves(strategy))
        LS_TRY(check_ranks(o));
    const int64_t replicas = ls_outline_replicas(strategy, o), batch = o->job->batch;
    const int64_t shards = ls_job_shards(o->job, batch);
    if (!ls_strategy_replicates(strategy) || replicas == 1)
        return LS_OK;
    if (replicas > LS_JOB_REPLICAS)
        return ls_fail(LS_CODE_USAGE, "option", "--devices", "%lld are too many; at most %d",
                       (long long)replicas, LS_JOB_REPLICAS);
    if (batch < replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--batch",
                       "%lld samples are fewer than the %lld replicas; use a batch of at least "
                       "%lld, or fewer devices",
                       (long long)batch, (long long)replicas, (long long)replicas);
    if (o->job->exact.on && shards < replicas)
        return ls_fail(LS_CODE_USAGE, "option", "--micro-shards",
                       "%lld shards are fewer than the %lld replicas; use --micro-shards %lld, or "
                       "fewer devices",
                       (long long)shards, (long long)replicas, (long long)replicas);
    return LS_OK;
}

/* Sum 0 has the replicas before; later replicas sum their pieces in sum 1. */
ls_status ls_sum_in_order(const ls_job *job, const bool *has, int count, ls_sum_order *out)
{
    const int replicas = count < ls_job_parts(job) ? count : ls_job_replicas(job);
    const int pieces = count / replicas;
    const size_t elements = job->model->graph->variables.elements;
    bool any = false;
    for (int d = 0; d < replicas; d++) {
        ls_order_step step = {.begins = true, .into = any && pieces > 1, .count = elements};
        bool some = false;
        if (any && pieces == 1)
            step.begins = false;
        for (int i = d * pieces; i < (d + 1) * pieces; i++) {
            if (!has[i])
                continue;
            step.visit = (size_t)i;
            step.input = i;
            LS_TRY(ls_sum_order_add(out, &step));
            step.begins = false;
            some = true;
        }
        step.input = LS_SUM_OTHER;
        step.from = step.into;
        step.into = 0;
        if (some && step.from)
            LS_TRY(ls_sum_order_add(out, &step));
        any |= some;
    }
    return LS_OK;
}

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
    for (int a = 0; a < LS_AXES; a++) {
        mesh.size[a] = mesh.size[a] > 1 ? mesh.size[a] : 1;
        others *= a == (int)mesh.rest ? 1 : mesh.size[a];
    }
    mesh.size[mesh.rest] = devices / others;
    mesh.replicas = mesh.size[LS_GROUP] * mesh.size[LS_MEMBER];
    mesh.places = mesh.size[LS_STAGE] * mesh.size[LS_SLICE] * mesh.size[LS_POSITION];
    return mesh;
}

ls_mesh ls_job_mesh(const ls_job *job)
{
    const int devices = (int)job->device_count * ls_job_processes(job);
    return ls_mesh_of(job->mesh, job->ps.ranks ? ls_ps_workers(&job->ps, devices) : devices);
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
    if (job->exact.on)
        return job->exact.splits > 1 ? job->exact.splits : 1;
    return ls_job_mesh(job).size[LS_SLICE];
}

int ls_job_member(const ls_job *job, size_t index)
{
    return ls_job_process(job) * (int)job->device_count + (int)index;
}

int ls_job_pieces(const ls_job *job)
{
    const int pieces =
        job->division.microbatches ? job->division.microbatches : job->accumulation.pieces;
    return pieces > 1 ? pieces : 1;
}

int ls_job_parts(const ls_job *job)
{
    const ls_mesh mesh = ls_job_mesh(job);
    return mesh.replicas * mesh.size[LS_POSITION] * ls_job_pieces(job);
}

uint64_t ls_job_steps_per_epoch(const ls_job *job)
{
    uint64_t samples = job->data->train.samples, batch = (uint64_t)job->batch;
    return samples / batch + (samples % batch != 0);
}

uint64_t ls_job_samples(const ls_job *job, uint64_t steps)
{
    if (!job->sampling.epochs)
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
