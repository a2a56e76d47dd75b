/* SPDX-License-Identifier: MIT */
/* The table of strategies; see strategy.h. */
#include "common/device/device_name.h"
#include "impl/outer_optimizer.h"
#include "impl/pipeline/pipeline_schedule.h"
#include "impl/strategies.h"

#include <string.h>

#define ENTRY(name) &ls_strategy_##name,
static const void *const strategies[] = {
    LS_STRATEGIES(ENTRY) NULL,
};
const ls_registry ls_strategies = {"strategy", strategies};

bool ls_strategy_has(const ls_strategy *strategy, const ls_declared_values *values, int ranks,
                     const ls_declared_option *option)
{
    const ls_declared_option *with = option->with;
    if (with && (!(option->of >> ls_declared_number(values, with) & 1U) ||
                 !ls_strategy_has(strategy, values, ranks, with)))
        return false;
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
    return ls_fail(LS_CODE_USAGE, "device", text,
                   "this is not the name of a device; names look like /cpu:0, gpu:1, "
                   "/job:worker/task:1/device:GPU:0");
}

#define OPTION(name, ...) const ls_declared_option ls_option_##name = {__VA_ARGS__};
#include "impl/strategies/options.def"

void ls_strategy_resolve(const ls_strategy *strategy, ls_job *job, int ranks)
{
    job->mesh.rest = inner_of(strategy, &job->options)->spreads.mesh.rest;
    if (strategy->average.period)
        job->update.period = (int)ls_declared_number(&job->options, strategy->average.period);
    job->update.own_mean =
        ls_strategy_alone(strategy) && (ls_strategy_reduces(strategy) || strategy->average.peers);
    if (strategy->resolve)
        strategy->resolve(job, ranks);
    job->exchange.gradient_wire =
        (ls_wire_form)ls_declared_number(&job->options, &ls_option_gradient_wire);
    const int64_t exchange = ls_declared_number(&job->options, &ls_option_accumulation_exchange);
    const bool staged = job->division.microbatches; /* its options of pieces do not apply */
    const bool windows = job->gradients.windows, chosen = exchange != LS_EXCHANGE_AUTO && !staged;
    job->accumulation.each = chosen ? exchange == LS_EXCHANGE_EACH : windows;
    job->accumulation.breadth =
        windows && !staged && ls_declared_number(&job->options, &ls_option_zero_accumulation);
}
