/* SPDX-License-Identifier: MIT */
/* Cases: from options, as text, to the list of cases of a request. */
#pragma once

#include "bench/cli/option_set.h"
#include "bench/cli/experiment.h"

/** A command line on its way to a request. Everything is borrowed. */
typedef struct ls_request_parsing {
    ls_option_set *set;            /**< of the request: options of all cases */
    ls_experiment *plan;           /**< of the request; zero-filled where there is no plan */
    const ls_processes *processes; /**< NULL means this one alone */
    ls_request *request;           /**< has one case, the default */
} ls_request_parsing;

/** The first value of an option in a set, for its setter. */
ls_setting ls_parsing_setting(const ls_request_parsing *parsing, const ls_option_set *set,
                              const char *name);

/** Whether the case's strategy can run it: LS_CODE_USAGE where it cannot (case_check.c). */
ls_status ls_case_check(const ls_case *one, const ls_request *request);

/**
 * Replaces the request's one case by all given cases: products of lists, `repeat:` times, without
 * what `exclude:` names, duplicates, and cases that their strategy cannot run (a line each on
 * stderr, unless --quiet). LS_CODE_USAGE if none is left, if they are too many, and for an option
 * that applies to no case.
 */
ls_status ls_cases_build(const ls_request_parsing *parsing);
