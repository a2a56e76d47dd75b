/* SPDX-License-Identifier: MIT */
/*
 * Option table: every option of the command line, once (option_entries.def). The one table feeds
 * the command line, `--help`, the keys of a plan file, and the errors that name what is valid.
 *
 * To add an option of a strategy, a model or a data set: declare it there (common/base/declared.h),
 * and nowhere else. To add one of the program: an entry of option_entries.def; a setter in
 * option_values.c or option_grammar.c, if none fits; in bench/case/case_facts.c, which cases have
 * it. A swept option sets a field of ls_case, any other one of ls_request.
 */
#pragma once

#include "bench/cli/option.h"

#include <stdio.h>

enum { LS_OPTIONS_MOST = 160 };

/** The table, [LS_OPTIONS_MOST]; an entry without a name ends it. */
const ls_option *ls_option_table(void);

/** Whether the case has the option. */
bool ls_option_applies(const ls_option *option, const ls_case *one);

/** Writes which cases have it: "cases with --strategy pipeline or hybrid"; "" means all. Returns
 * `text`.
 */
char *ls_option_concerns(const ls_option *option, char *text, size_t size);

/** NULL where there is none of this name. If two options have it, the one of `command` (LS_FOR_*).
 */
const ls_option *ls_option_find(const char *name, unsigned command);

/**
 * The option of this name (of `length` characters) that `command` has. LS_CODE_USAGE with the
 * nearest name, or with the subcommands that it belongs to; `origin` as in ls_setting. An option of
 * `run` that `command` refuses is refused on the command line, but not in a plan, whose cases may
 * run.
 */
ls_status ls_option_require(const char *name, size_t length, unsigned command, const char *origin,
                            const ls_option **out);

/** Whether it is an option of the command, which takes it. */
bool ls_option_is_of(const ls_option *option, unsigned command);

/** The option's default in this command. */
const char *ls_option_fallback(const ls_option *option, unsigned command);

/** Prints the options of the command in groups, at most 80 columns wide: default, unit, help. */
void ls_option_help(FILE *stream, unsigned command);

/** "run" */
const char *ls_option_command_name(unsigned command);
