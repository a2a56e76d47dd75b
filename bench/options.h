/* SPDX-License-Identifier: MIT */
/*
 * Options: from a command line and a plan file to the cases of a request.
 *
 * Use: ls_request_parse(argc, argv, names, stderr, &request) with argv[0] "run" or "verify"; then
 * ls_request_free. Other subcommands read their options with ls_option_set_read (option_set.h).
 */
#ifndef LS_BENCH_OPTIONS_H
#define LS_BENCH_OPTIONS_H

#include "bench/case.h"
#include "bench/list.h"
#include "common/base/status.h"

#include <stdio.h>

/** A registry, and how a whole value ("mlp:784-10") is checked once its name is known. */
typedef struct ls_option_registry {
    const ls_list_section *section;       /**< may be NULL: any name goes */
    ls_status (*check)(const char *text); /**< may be NULL; its refusal is relayed */
} ls_option_registry;

/** What the registries know, for the values that name an entry of them. */
typedef struct ls_option_names {
    ls_option_registry models, data, strategies, optimizers, allreduces;
    /**
     * Whether the case's strategy can run it; may be NULL. LS_CODE_USAGE leaves the case out of a
     * product, any other failure ends the command. Sees the case with every default filled in.
     */
    ls_status (*check_case)(const ls_case *one, const ls_request *request);
    const ls_processes *processes; /**< that run the command; NULL: this one alone */
} ls_option_names;

/** The program's own. Supplied by registries.c. */
const ls_option_names *ls_option_names_registered(void);

/**
 * Reads options and the plan file into a request, owned by the caller. A product's cases that a
 * strategy cannot run, and a case that is listed twice, get a line each on `err`.
 */
ls_status ls_request_parse(int argc, char **argv, const ls_option_names *names, FILE *err,
                           ls_request **out);

/** Takes NULL. */
void ls_request_free(ls_request *request);

#endif
