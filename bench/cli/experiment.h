/* SPDX-License-Identifier: MIT */
/*
 * Experiment: a YAML file, for its users a plan, that says which cases to run. Either options as
 * keys, with values or lists of values, or
 *
 *     defaults: {model: mlp, steps: 50}     options of all cases, and of the whole command
 *     cases:                                each mapping is a product of its lists
 *       - {strategy: single}
 *       - {strategy: [towers, mirrored], devices: [1, 2]}
 *     exclude:                              cases that have all that a mapping here says
 *       - {strategy: towers, devices: 1}
 *     repeat: 3                             the list of cases, so many times
 *     budget: 2min                          steps are fitted to it
 *
 * A value is split as on the command line, "1,2", but a value in a list is not split.
 */
#pragma once

#include "bench/cli/option_set.h"

enum {
    LS_CASES_MOST = 4096, /**< cases of a command, mappings of a plan */
    LS_EXPERIMENT_ORIGIN = 256
};

/** A mapping of options. */
typedef struct ls_experiment_part {
    ls_option_set set;
    char origin[LS_EXPERIMENT_ORIGIN]; /**< "plan.yaml:3:5" */
} ls_experiment_part;

typedef struct ls_experiment_parts {
    ls_experiment_part *items;
    size_t count;
} ls_experiment_parts;

/** A key of a case whose value the command line replaces. */
typedef struct ls_experiment_replaced {
    char origin[LS_EXPERIMENT_ORIGIN];
    const char *option; /**< its name */
    const char *by;     /**< the option given: the same, or steps for epochs, or the reverse */
} ls_experiment_replaced;

/** What a plan has besides options of all cases; zero-filled: nothing. */
typedef struct ls_experiment {
    ls_experiment_parts cases; /**< if it is empty, the options of all cases make one product */
    ls_experiment_parts exclude;
    ls_experiment_replaced
        *replaced; /**< outside of `defaults:`, whose options it replaces silently */
    size_t replaced_count;
    int64_t repeat;     /**< 0 if not given */
    uint64_t budget_ns; /**< 0 if not given */
    char repeat_at[LS_EXPERIMENT_ORIGIN], budget_at[LS_EXPERIMENT_ORIGIN];
} ls_experiment;

/**
 * Adds the options of all cases to the set, and the rest to `out`, zero-filled. Options that the
 * set has already, from the command line, are not changed. A refusal names file, line and column: a
 * syntax error, an unknown key, a key given twice, a value that is neither text nor a list of
 * texts, more mappings than LS_CASES_MOST. LS_CODE_MISSING if the file cannot be read. `out` must
 * be closed in any case.
 */
ls_status ls_experiment_read(const char *path, ls_option_set *set, ls_experiment *out);

/** Frees `plan`, too. Takes NULL. */
void ls_experiment_close(ls_experiment *plan);
