/* SPDX-License-Identifier: MIT */
/*
 * Option set: the values that arguments and a plan file give, as text, by option. Setters
 * (option_values.h) read them.
 */
#pragma once

#include "bench/cli/option.h"

typedef struct ls_option_value {
    char *text;   /**< never empty */
    char *origin; /**< "plan.yaml:3:8"; NULL means the command line */
} ls_option_value;

typedef struct ls_option_given {
    ls_option_value *values;
    size_t count; /**< 0 if not given */
} ls_option_given;

/** A zero-filled set need not be closed. */
typedef struct ls_option_set {
    unsigned command;       /**< LS_FOR_* */
    ls_option_given *given; /**< [entries of the option table] */
    char **operands;        /**< arguments that are not options: "gemm"; NULL means refused */
    size_t operand_count;
} ls_option_set;

/** An empty set of a command's options. */
ls_status ls_option_set_open(unsigned command, ls_option_set *out);
void ls_option_set_close(ls_option_set *set);

/**
 * Reads argv[1] to argv[argc-1]. Accepts at most `operands` arguments that are not options; if
 * there may be any, all that follow "--" are, except for regress. Refuses an unknown or abbreviated
 * name, a missing or empty value, an option given twice.
 */
ls_status ls_option_set_read(ls_option_set *set, int argc, char **argv, size_t operands);

/** What was given for an option of the table. */
const ls_option_given *ls_option_set_find(const ls_option_set *set, const char *name);

/** Whether it was given. */
bool ls_option_set_has(const ls_option_set *set, const char *name);

/** The first value given, or the `fallback`. Borrowed. */
const char *ls_option_set_text(const ls_option_set *set, const char *name, const char *fallback);

/** Whether a switch that is off by default was given, with yes. */
bool ls_option_set_yes(const ls_option_set *set, const char *name);

/** Sets an option, for a command without cases: in `one` if `run` sweeps it, otherwise in
 * `request`. The value is the given one, not a list, or `fallback`; NULL means that it sets
 * nothing. */
ls_status ls_option_set_take(const ls_option_set *set, const char *name, const char *fallback,
                             const ls_processes *processes, ls_case *one, ls_request *request);

/** Begins an option; refused if it was given before, here or on the command line. */
ls_status ls_option_set_begin(ls_option_set *set, const ls_option *option, const char *origin);

/** Adds one value; an empty one is refused. */
ls_status ls_option_set_append(ls_option_set *set, const ls_option *option, const char *text,
                               const char *origin);

/** Adds each value of a list (ls_list_cut) if the option sweeps one; otherwise the unchanged
 * text. */
ls_status ls_option_set_split(ls_option_set *set, const ls_option *option, const char *text,
                              const char *origin);

/** Writes one value so that ls_option_set_split gives it back. */
void ls_option_put_value(FILE *stream, const ls_option *option, const char *text);
