/* SPDX-License-Identifier: MIT */
/* Outer optimizers of local-sgd (strategies/outer_optimizer.c). */
#pragma once

#include "common/base/registry.h"
#include "impl/strategy.h"

/** What the mean of the replicas' parameters is to all. The number is how many buffers of the
 * strategy's own it needs: the outer parameters, then the outer momentum. */
typedef enum ls_outer_kind { LS_OUTER_AVERAGE, LS_OUTER_SGD, LS_OUTER_NESTEROV } ls_outer_kind;

/** An outer optimizer with its values. */
typedef struct ls_outer_rule {
    ls_outer_kind kind;
    double rate;     /**< lr, above 0 */
    double momentum; /**< mu, from 0 to below 1; 0 if unused */
} ls_outer_rule;

extern const ls_registry ls_outer_optimizers;

/** The one that --local-sgd-outer names, which was checked. */
ls_outer_rule ls_outer_rule_of(const ls_declared_values *values);

/** Refuses a text that names none. */
ls_status ls_outer_check(const char *text);
