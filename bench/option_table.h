/* SPDX-License-Identifier: MIT */
/*
 * Option table: every option of the command line, once. The one table feeds argp, `--help`, the
 * keys of a plan file, and the errors that name what is valid.
 *
 * To add an option: one line in option_table.c; a setter in option_values.c, or option_grammar.c,
 * if none there fits; whom it concerns in option_applies.c. A
 * swept option sets a field of ls_case, any other one of ls_request.
 */
#ifndef LS_BENCH_OPTION_TABLE_H
#define LS_BENCH_OPTION_TABLE_H

#include "bench/case.h"
#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Subcommands that an option belongs to, as bits. */
enum {
    LS_FOR_RUN = 1,
    LS_FOR_VERIFY = 2,
    LS_FOR_MICRO = 4,
    LS_FOR_DEVICES = 8,
    LS_FOR_RESULTS = 16
};

struct ls_option_names;
struct ls_option;

/** One value on its way into a case or a request. Everything is borrowed. */
typedef struct ls_setting {
    const struct ls_option *option;
    const char *text;   /**< one value, never empty */
    const char *origin; /**< "plan.yaml:3:8"; NULL: the command line */
    const struct ls_option_names *names;
    ls_case *one;        /**< where the option is swept; else NULL */
    ls_request *request; /**< where it is not; else NULL */
} ls_setting;

typedef struct ls_option {
    const char *name;        /**< without the dashes: "gate-steps" */
    const char *placeholder; /**< of the value in `--help`: "N" */
    const char *fallback;    /**< default, as `--help` tells it */
    const char *unit;        /**< "" where there is none */
    const char *help;        /**< one line */
    unsigned commands;       /**< LS_FOR_* */
    bool sweeps;             /**< a list makes a case of each value */
    bool continues;          /**< a comma before `name=` continues the value */
    bool is_switch;          /**< yes or no; yes where no value follows */
    /** Reads the value, or refuses it. */
    ls_status (*set)(const ls_setting *setting);
    size_t offset;     /**< of the field in ls_case (swept) or ls_request */
    int64_t low, high; /**< valid range of a whole number; `high` is the size of a text field */
    bool (*applies)(const ls_case *one); /**< whether a case has it; NULL: every one */
    const char *concerns;                /**< what does have it, where `applies` says no */
} ls_option;

/** The table. */
const ls_option *ls_option_table(size_t *count);

/** NULL where there is none of this name (of `length` characters). */
const ls_option *ls_option_find(const char *name, size_t length);

/**
 * The option of this name that `command` has. LS_CODE_USAGE with the nearest name, or with the
 * subcommands it does belong to; `origin` as in ls_setting.
 */
ls_status ls_option_require(const char *name, size_t length, unsigned command, const char *origin,
                            const ls_option **out);

/** Prints a line for each option of the command: default, unit, help. */
void ls_option_help(FILE *stream, unsigned command);

/** "run" */
const char *ls_option_command_name(unsigned command);

/**
 * The candidate that is nearest to a mistyped name: the shortest it abbreviates, or one at a small
 * edit distance; NULL where nothing is near.
 */
const char *ls_nearest_name(const char *text,
                            const char *(*name)(size_t index, const void *context), size_t count,
                            const void *context);

/** Refuses a value: names the option, or the plan's file, line, column and key. */
ls_status ls_setting_refuse(const ls_setting *setting, ls_code code, const char *why, ...)
    __attribute__((format(printf, 3, 4), warn_unused_result));

#endif
