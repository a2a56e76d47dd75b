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
#include "bench/cli/experiment.h"
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

/* ---- Cases: from options, as text, to the list of cases of a request ------------------------ */

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
