/* SPDX-License-Identifier: MIT */
/* Schedules of the learning rate by name (formulas: common/kernel/rate_inline.h). */
#pragma once

#include "common/base/registry.h"
#include "common/kernel/kernel_step.h"

/** One entry of `lockstep list`. */
typedef struct ls_rate_rule {
    const char *name;  /**< as users write it */
    const char *help;  /**< one line for people */
    ls_rate_kind kind; /**< of the curve after the warm-up */
} ls_rate_rule;

extern const ls_registry ls_rate_rules; /**< of ls_rate_rule */
