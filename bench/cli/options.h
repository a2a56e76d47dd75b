/* SPDX-License-Identifier: MIT */
/*
 * Options: from a command line and a plan file to the cases of a request.
 *
 * Use: ls_request_parse(argc, argv, processes, stderr, &request) with argv[0] "run" or "verify";
 * then ls_request_free. Other subcommands read their options with ls_option_set_read
 * (option_set.h).
 */
#pragma once

#include "bench/case/case.h"
#include "bench/cli/option_set.h"
#include "common/base/status.h"

#include <jansson.h>
#include <stdio.h>

/**
 * Reads options and the plan file into a request, owned by the caller, for the processes of the
 * command (borrowed; NULL means this one alone). Cases of a product that a strategy cannot run, and
 * cases that are listed several times, get a line each, for ls_request_tell.
 */
ls_status ls_request_parse(int argc, char **argv, const ls_processes *processes, FILE *err,
                           ls_request **out);

/** Writes the request's notes to `err`, once nothing refuses the command any more: a refusal is one
 * line. */
void ls_request_tell(const ls_request *request);

/** {field of `case`: true} of the options that the request's cases were given several values of, by
 * a list or by a plan: a new object. */
json_t *ls_request_swept(const ls_request *request);

/** Writes " --NAME VALUE", which gives the option's value back. */
void ls_write_option(FILE *stream, const ls_option *option, const char *text);

/** The command line as a row has it, quoted for a shell: owned by the caller (free). */
ls_status ls_command_line(int argc, char **argv, char **out);

/** Takes NULL. */
void ls_request_free(ls_request *request);

/* ---- Experiment ----------------------------------------------------------------------------- */
/*
 * A YAML file, for its users a plan, that says which cases to run. Either options as
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

/* ---- Cases: from options, as text, to the list of cases of a request ------------------------ */

/** The first value of an option in a set, for its setter. */
ls_setting ls_request_setting(const ls_request *request, const ls_option_set *set,
                              const char *name);

/** Whether the case's strategy can run it: LS_CODE_USAGE where it cannot (case_check.c). */
ls_status ls_case_check(const ls_case *one, const ls_request *request);

/**
 * Replaces the request's one case by all given cases: products of lists, `repeat:` times, without
 * what `exclude:` names, duplicates, and cases that their strategy cannot run (a line each on
 * stderr, unless --quiet). LS_CODE_USAGE if none is left, if they are too many, and for an option
 * that applies to no case.
 */
ls_status ls_cases_build(ls_request *request);
