/* SPDX-License-Identifier: MIT */
/* Option: an entry of the option table, and a value that its setter reads into a case or a request.
 */
#pragma once

#include "bench/case/case.h"
#include "common/base/registry.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Subcommands that an option belongs to, as bits. */
enum {
    LS_FOR_RUN = 1,
    LS_FOR_VERIFY = 2,
    LS_FOR_MICRO = 4,
    LS_FOR_DEVICES = 8,
    LS_FOR_RESULTS = 16,
    LS_FOR_TRACE = 32, /**< also has the options of LS_FOR_RUN */
    LS_FOR_REGRESS = 64,
    LS_FOR_REPORT = 128,
    LS_FOR_PREDICT = 256, /**< also has the options of LS_FOR_RUN, except refused ones */
    LS_FOR_ADVISE = 512   /**< as LS_FOR_PREDICT */
};

/** The heading in `--help` for an option. */
typedef enum ls_help_group {
    LS_HELP_TRAINING,
    LS_HELP_STRATEGY,
    LS_HELP_DECLARED,
    LS_HELP_MEASUREMENT,
    LS_HELP_PLANS,
    LS_HELP_OUTPUT,
    LS_HELP_GROUPS
} ls_help_group;

struct ls_option;

/** One value, where it came from, and where it goes. Everything is borrowed. */
typedef struct ls_setting {
    const struct ls_option *option;
    const char *text;              /**< one value, never empty */
    const char *origin;            /**< "plan.yaml:3:8"; NULL means the command line */
    const ls_processes *processes; /**< that run the command; NULL means this one alone */
    ls_case *one;                  /**< destination of a swept option; else NULL */
    ls_request *request;           /**< destination of any other option; else NULL */
} ls_setting;

typedef struct ls_option {
    const char *name;        /**< without the dashes: "gate-steps" */
    const char *placeholder; /**< the value's name in `--help`: "N" */
    const char *fallback;    /**< default as `--help` prints it; set if it is a value */
    const char *unit;        /**< "" where there is none */
    const char *help;        /**< one line */
    unsigned commands;       /**< LS_FOR_* */
    bool sweeps;             /**< a list makes a case of each value */
    bool late;               /**< declared options decide which cases have it */
    bool whole;              /**< a comma is part of the value; only plans list several */
    bool continues;          /**< a comma before `name=` is part of the value */
    bool is_switch;          /**< yes or no; yes if no value follows */
    unsigned repeats;        /**< LS_FOR_*: commands in which it may be given several times */
    ls_help_group group;
    /** Refuses a whole list, the setting's text, before it is split. NULL if nothing is refused. */
    ls_status (*check_list)(const ls_setting *setting);
    /** Reads the value, or refuses it. */
    ls_status (*set)(const ls_setting *setting);
    size_t offset;      /**< of the field in ls_case (swept) or ls_request */
    int64_t low, high;  /**< a number's range; a text's size is `high`; words begin at `low` */
    double least, most; /**< valid range of a real number */
    const char *valid;  /**< which values are valid; NULL if words or range say it */
    const char *noun;   /**< what the registry names: "model" */
    const ls_registry *registry;             /**< of the names that values begin with; or NULL */
    const char *const *words;                /**< valid values, NULL-terminated, of ls_set_word */
    bool (*of)(const ls_strategy *strategy); /**< strategies whose cases have it; NULL means all */
    bool (*applies)(const ls_case *one);     /**< which of these cases do; NULL means all */
    unsigned otherwise;                      /**< LS_FOR_*: commands with another default */
    const char *otherwise_fallback;          /**< which is this */
    const char *instead;                     /**< option that overrides it, and the reverse */
    unsigned refused;                        /**< LS_FOR_*: commands that refuse it */
    const char *why_refused;
    const char *concerns;               /**< which cases have it, in words, for refusals
                                             where `applies` says no */
    const ls_declared_option *declared; /**< its declaration by a strategy, model or data;
                                             else NULL */
} ls_option;

enum { LS_NAME_SIZE = 64 }; /**< characters of a name, and its end */

/**
 * Copies the nearest one to a mistyped name of the given names, "single, towers": the shortest one
 * that it abbreviates, or one at a small edit distance. false if there is none.
 */
bool ls_nearest_name(const char *text, const char *names, char nearest[LS_NAME_SIZE]);

/** Refuses a value: names the option, or the plan's file, line, column and key. */
ls_status ls_setting_refuse(const ls_setting *setting, ls_code code, const char *why, ...)
    __attribute__((format(printf, 3, 4), warn_unused_result));
