/* SPDX-License-Identifier: MIT */
/* Options of local-sgd, and the outer optimizers that they name. */
#include "impl/outer_optimizer.h"

#include "common/base/numbers.h"

#include <string.h>

/* An entry of the registry. */
typedef struct outer_optimizer {
    const char *name, *help;
    ls_outer_rule rule; /* its defaults */
} outer_optimizer;

static const outer_optimizer average = {
    "average", "the mean of the replicas' parameters", {LS_OUTER_AVERAGE, 1, 0}};
static const outer_optimizer sgd = {
    "sgd", "the replicas' mean distance is a gradient: sgd:lr=1", {LS_OUTER_SGD, 1, 0}};
static const outer_optimizer nesterov = {"nesterov",
                                         "the same with momentum (DiLoCo): nesterov:lr=0.7,mu=0.9",
                                         {LS_OUTER_NESTEROV, 0.7, 0.9}};
const ls_registry ls_outer_optimizers = {"outer optimizer",
                                         (const void *const[]){&average, &sgd, &nesterov, NULL}};

static const char valid[] =
    "this is not an outer optimizer; use average, sgd:lr=1 or nesterov:lr=0.7,mu=0.9";

static ls_status take_value(const char *text, const char *item, size_t length, ls_outer_rule *out)
{
    double *const value = strncmp(item, "lr=", 3) == 0 && out->kind != LS_OUTER_AVERAGE ? &out->rate
                          : strncmp(item, "mu=", 3) == 0 && out->kind == LS_OUTER_NESTEROV
                              ? &out->momentum
                              : NULL;
    char number[64] = "";
    if (value && length < sizeof number)
        memcpy(number, item + 3, length - 3);
    if (!value || !ls_parse_real(number, value))
        return ls_fail(LS_CODE_USAGE, "outer optimizer", text, "%s", valid);
    if (!(out->rate > 0) || !(out->momentum >= 0 && out->momentum < 1))
        return ls_fail(LS_CODE_USAGE, "outer optimizer", text,
                       "a value is out of range; use lr above 0, and mu from 0 to below 1");
    return LS_OK;
}

static ls_status parse_outer(const char *text, ls_outer_rule *out)
{
    const size_t length = strcspn(text, ":");
    const outer_optimizer *const named = ls_registry_find(&ls_outer_optimizers, text, length);
    if (!named)
        return ls_fail(LS_CODE_USAGE, "outer optimizer", text, "%s", valid);
    *out = named->rule;
    for (const char *item = text[length] ? text + length + 1 : NULL; item;) {
        const size_t size = strcspn(item, ",");
        LS_TRY(take_value(text, item, size, out));
        item = item[size] ? item + size + 1 : NULL;
    }
    return LS_OK;
}

static ls_status check_outer(const char *text)
{
    ls_outer_rule rule;
    return parse_outer(text, &rule);
}

const ls_declared_option ls_option_local_sgd_every = {
    "local-sgd-every",
    "H",
    "10",
    "steps",
    "steps between two averages of the replicas' parameters",
    .low = 1,
    .high = 1000000};
static const ls_declared_option outer = {
    "local-sgd-outer",
    "average|sgd:lr=1|nesterov:lr=0.7,mu=0.9",
    "average",
    "",
    "average: replicas continue from the mean of their parameters; sgd, nesterov: the mean's "
    "distance is the gradient of an outer optimizer",
    .type = LS_DECLARED_TEXT,
    .high = 64,
    .continues = true,
    .check = check_outer};
static const ls_declared_option fragments = {
    "local-sgd-fragments",
    "F",
    "1",
    "",
    "number of parts of the parameters, which are averaged in turn",
    .low = 1,
    .high = 1000000,
    .when = "--local-sgd-outer sgd or nesterov"};

static const ls_declared_option wire = {
    "local-sgd-wire",
    "float32|bf16|int8",
    "float32",
    "",
    "type in which averaged distances travel; int8: with a scale for every 512 elements",
    .type = LS_DECLARED_WORD,
    .words = (const char *const[]){"float32", "bf16", "int8", NULL}, /* as ls_wire_form */
    .when = "--local-sgd-outer sgd or nesterov"};

ls_outer_rule ls_outer_rule_of(const ls_declared_values *values)
{
    ls_outer_rule rule;
    ls_status_free(parse_outer(ls_declared_text(values, &outer), &rule)); /* it was checked */
    return rule;
}

bool ls_local_sgd_has(const ls_declared_values *values, int ranks, const ls_declared_option *option)
{
    (void)ranks;
    return option == &ls_option_local_sgd_every || option == &outer ||
           ls_outer_rule_of(values).kind != LS_OUTER_AVERAGE;
}

void ls_local_sgd_resolve(ls_job *job, int ranks)
{
    (void)ranks;
    job->update.owned = (int)ls_outer_rule_of(&job->options).kind;
    job->update.fragments = (int)ls_declared_number(&job->options, &fragments);
    job->exchange.wire = (ls_wire_form)ls_declared_number(&job->options, &wire);
}

ls_status ls_local_sgd_check(const ls_outline *o)
{
    const ls_job_update *update = &o->job->update;
    if (update->fragments > 1 && update->period % update->fragments)
        return ls_fail(LS_CODE_USAGE, "option", "--local-sgd-fragments",
                       "%d does not divide --local-sgd-every %d evenly; use --local-sgd-every %d",
                       update->fragments, update->period,
                       (update->period / update->fragments + 1) * update->fragments);
    if (o->job->exchange.wire && strcmp(o->allreduce, "auto") != 0 &&
        strcmp(o->allreduce, "owners") != 0)
        return ls_fail(LS_CODE_USAGE, "option", "--allreduce",
                       "'%s' would round some elements more than once, but --local-sgd-wire rounds "
                       "once; use --allreduce owners or auto",
                       o->allreduce);
    if (update->owned && strcmp(o->allreduce, "library") == 0)
        return ls_fail(
            LS_CODE_USAGE, "option", "--allreduce",
            "'library' cannot be used with --local-sgd-outer: it sums in an unknown order, "
            "which the check against the reference cannot repeat; use --allreduce ring, "
            "tree, halving-doubling, flat or auto");
    return LS_OK;
}

const ls_declared_option *const ls_local_sgd_options[] = {&ls_option_local_sgd_every, &outer, &wire,
                                                          &fragments, NULL};
