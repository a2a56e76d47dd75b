/* SPDX-License-Identifier: MIT */
/*
 * Optimizers: one sweep of the flat buffers (formulas: kernel.h, ls_optimizer_args). An optimizer
 * with its values is text, "adam:beta1=0.9,eps=1e-8" or "momentum:0.9"; what is not given is the
 * default. Adding one is an entry of the table in optimizer.c, a kind in kernel.h, and that kind's
 * case wherever LS_OPTIMIZER_ADAM has one: reference, cpu and cuda tables, their checks.
 */
#pragma once

#include "common/base/registry.h"
#include "common/kernel/kernel.h"

typedef struct ls_optimizer_rule ls_optimizer_rule;

/** An optimizer with its values. */
typedef struct ls_optimizer {
    const ls_optimizer_rule *rule;                /**< which it is */
    double mu, beta1, beta2, rho, epsilon, decay; /**< the values that the rule uses; else 0 */
} ls_optimizer;

/** One entry of `lockstep list`. */
struct ls_optimizer_rule {
    const char *name;          /**< as users write it */
    const char *help;          /**< one line for people */
    ls_optimizer_kind kind;    /**< of its kernel */
    int slots;                 /**< buffers of the size of the parameters */
    const char *slot_names[2]; /**< as PyTorch names them */
    ls_optimizer defaults;     /**< for values that are not given */
};

extern const ls_registry ls_optimizer_rules; /**< of ls_optimizer_rule */

/** LS_CODE_USAGE for an unknown name, an unknown or repeated value, or one out of range. */
ls_status ls_optimizer_parse(const char *text, ls_optimizer *out);

/** The full text, "adam:beta1=0.9,beta2=0.999,eps=1e-08". Returns `text`. */
char *ls_optimizer_text(const ls_optimizer *optimizer, char *text, size_t size);
