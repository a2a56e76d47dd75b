/* SPDX-License-Identifier: MIT */
/*
 * Option table: every option of the command line, once. The one table feeds the command line,
 * `--help`, the keys of a plan file, and the errors that name what is valid.
 *
 * To add an option of a strategy, a model or a data set: declare it there (common/base/declared.h),
 * and nowhere else. To add one of the program: a line in option_table.c; a setter in
 * option_values.c or option_grammar.c, if none fits; in bench/case/case_facts.c, which cases have
 * it. A swept option sets a field of ls_case, any other one of ls_request.
 */
#pragma once

#include "bench/cli/option.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Places of fields, for entries of the table. */
#define IN_REQUEST(field) .offset = offsetof(ls_request, field)

/** Options of `predict`, `advise`, `regress`, `report` alone; the last one has no name. */
extern const ls_option ls_other_options[];

enum { LS_OPTIONS_MOST = 160 };

/** The table, [LS_OPTIONS_MOST]; an entry without a name ends it. */
const ls_option *ls_option_table(void);

/** Whether the case has the option. */
bool ls_option_applies(const ls_option *option, const ls_case *one);

/** Writes which cases have it: "cases with --strategy pipeline or hybrid"; "" means all. Returns
 * `text`.
 */
char *ls_option_concerns(const ls_option *option, char *text, size_t size);

/** NULL where there is none of this name (of `length` characters). */
const ls_option *ls_option_find(const char *name, size_t length);

/** If two options have the name, the one of `command` (LS_FOR_*). */
const ls_option *ls_option_find_in(const char *name, size_t length, unsigned command);

/**
 * The option of this name that `command` has. LS_CODE_USAGE with the nearest name, or with the
 * subcommands that it belongs to; `origin` as in ls_setting. An option of `run` that `command` does
 * not have is refused on the command line, but not in a plan, whose cases may run.
 */
ls_status ls_option_require(const char *name, size_t length, unsigned command, const char *origin,
                            const ls_option **out);

/** Why `command` refuses an option, though it has most options of `run`; NULL if it takes it. */
const char *ls_option_lacked(const ls_option *option, unsigned command);

/** Whether it is an option of the command, which takes it. */
bool ls_option_is_of(const ls_option *option, unsigned command);

/** The option's default in this command. */
const char *ls_option_fallback(const ls_option *option, unsigned command);

/** Prints the options of the command in groups, at most 80 columns wide: default, unit, help. */
void ls_option_help(FILE *stream, unsigned command);

/** "run" */
const char *ls_option_command_name(unsigned command);
