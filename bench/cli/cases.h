/* SPDX-License-Identifier: MIT */
/* Cases: from options, as text, to the list of cases of a request. */
#pragma once

#include "bench/cli/option_names.h"
#include "bench/cli/option_set.h"
#include "bench/cli/plan.h"

#include <stdio.h>

/** A command line on its way to a request. Everything is borrowed. */
typedef struct ls_request_parsing {
    ls_option_set *set; /**< of the request: options of all cases */
    ls_plan_file *plan; /**< of the request; zero-filled where there is no plan */
    const ls_option_names *names;
    ls_request *request; /**< has one case, the default */
} ls_request_parsing;

/** The first value of an option in a set, for its setter. */
ls_setting ls_parsing_setting(const ls_request_parsing *parsing, const ls_option_set *set,
                              const char *name);

/**
 * Replaces the request's one case by all that were given: products of lists, `repeat:` times,
 * without what `exclude:` names, what is listed twice, and what its strategy cannot run (a line
 * each on stderr, unless --quiet). LS_CODE_USAGE where none is left, where they are too many, and
 * for an option that concerns no case.
 */
ls_status ls_cases_build(const ls_request_parsing *parsing);
