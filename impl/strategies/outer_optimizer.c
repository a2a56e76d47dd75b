/* SPDX-License-Identifier: MIT */
/* The outer optimizers that --local-sgd-outer names. */
#include "impl/outer_optimizer.h"

#include "common/base/numbers.h"
#include "impl/strategies.h"

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

ls_status ls_outer_check(const char *text)
{
    ls_outer_rule rule;
    return parse_outer(text, &rule);
}

ls_outer_rule ls_outer_rule_of(const ls_declared_values *values)
{
    ls_outer_rule rule;
    ls_status_free(parse_outer(ls_declared_text(values, &ls_option_local_sgd_outer),
                               &rule)); /* it was checked */
    return rule;
}
