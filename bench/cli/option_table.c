/* SPDX-License-Identifier: MIT */
/* Option table: see option_table.h. */
#include "bench/cli/option_table.h"

#include "bench/cli/option_values.h"
#include "bench/output/format.h"
#include "bench/output/results_db.h"
#include "common/base/escape.h"
#include "common/data/data.h"
#include "common/nn/divide/graph_split.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"
#include "common/nn/rate.h"

#include <stdlib.h>
#include <string.h>
#include <threads.h>

/* ---- option_entries.def ---------------------------------------------------------------------- */

enum {
    RUN_VERIFY = LS_FOR_RUN | LS_FOR_VERIFY,
    MACHINE = RUN_VERIFY | LS_FOR_MICRO | LS_FOR_DEVICES,
    VIRTUAL = LS_FOR_PREDICT | LS_FOR_ADVISE,
    LOOKING = VIRTUAL | LS_FOR_TRACE
};

#define MANY 2147483647

/* Options that this build does not have are not in the help, and are refused by name. */
#ifdef LOCKSTEP_MPI
#define COMM_MPI "|mpi"
#define COMM_HELP                                                                                  \
    "how ranks exchange; auto: mpi under mpirun (nccl between GPUs), else thread (device between " \
    "GPUs)"
#else
#define COMM_MPI  ""
#define COMM_HELP "how ranks exchange; auto: thread (device between GPUs)"
#endif
#if LS_HAS_NCCL
#define COMM_NCCL "|nccl"
#else
#define COMM_NCCL ""
#endif

#define OF_PROCESSES "applies to separate processes; list all devices with --devices"
#define OF_TRAINING                                                                                \
    "applies only when training, and this command does not train; remove this option"
#define OF_RUN "is an option of `run` only; remove this option"

static const char *const progresses[] = {"auto", "no", "yes", NULL}; /* numbers from -1 */
static const char *const failures[] = {"stop", "shrink", NULL};
static const char *const launchers[] = {"auto", "none", NULL};
static const char *const comms[] = {"auto", "thread", "mpi", "nccl", "device", NULL};
static const char *const engines[] = {"auto", "simgrid", "ports", NULL};
static const char *const expansions[] = {"flows", "messages", "formula", NULL};
static const char durations[] = "a time from 1ms to 86400s, such as 500ms or 2min";
static const char lr_decays[] = "cases with --lr-schedule linear, cosine or wsd";

static bool reduces(const ls_strategy *strategy)
{
    return ls_strategy_reduces(strategy) || ls_strategy_splits(strategy);
}

/* Whether replicas are alike, hold the variables, and sum their gradients. */
static bool is_elastic(const ls_strategy *strategy)
{
    return strategy->spreads.gradients.on[LS_MEMBER] == LS_PARTIAL &&
           strategy->spreads.parameters.on[LS_MEMBER] == LS_WHOLE;
}

static bool may_shrink(const ls_case *one)
{
    return one->fault.kind == LS_FAULT_KILL;
}

#define IN_REQUEST(field)      .offset = offsetof(ls_request, field)
#define IN_CASE(field)         .sweeps = true, .offset = offsetof(ls_case, field)
#define TEXT_IN_CASE(field)    IN_CASE(field), .high = sizeof(((ls_case *)0)->field)
#define RANGE(from, to)        .low = from, .high = to
#define REALS(from, to)        .least = from, .most = to
#define ELSEWHERE(where, what) .otherwise = where, .otherwise_fallback = what
#define REFUSED(where, why)    .refused = where, .why_refused = why

static const ls_option general[] = {
#define OPTION(name, placeholder, fallback, unit, help, commands, heading, setter, ...)            \
    {name,                                                                                         \
     placeholder,                                                                                  \
     fallback,                                                                                     \
     unit,                                                                                         \
     help,                                                                                         \
     commands,                                                                                     \
     .group = LS_HELP_##heading,                                                                   \
     .set = ls_set_##setter,                                                                       \
     __VA_ARGS__},
#include "bench/cli/option_entries.def"
};

/* ---- All options ---------------------------------------------------------------------------- */

/* Created before the first lookup, and never changed. */
static ls_option table[LS_OPTIONS_MOST];
static size_t table_count;
static once_flag table_made = ONCE_FLAG_INIT;

static void append(const ls_option *option)
{
    if (table_count + 1 == LS_OPTIONS_MOST)
        abort();
    table[table_count++] = *option;
}

/* Registries that declare options, and the option that selects an entry of each. */
static const struct {
    const ls_registry *registry;
    const char *option;
} owners[] = {
    {&ls_strategies, "strategy"}, {&ls_model_families, "model"}, {&ls_data_sources, "data"}};

/* Appends each option of a list. One that is in the table already moves to the end, so that it
 * follows the options that decide whether the last owner's cases have it. */
static void append_declared(const ls_declared_option *const *list)
{
    for (; list && *list; list++) {
        const ls_declared_option *d = *list;
        const ls_option option = {d->name,
                                  d->placeholder,
                                  d->fallback,
                                  d->unit,
                                  d->help,
                                  RUN_VERIFY,
                                  .sweeps = true,
                                  .continues = d->continues,
                                  .is_switch = d->type == LS_DECLARED_SWITCH,
                                  .group = LS_HELP_DECLARED,
                                  .set = ls_set_declared,
                                  .declared = d};
        for (size_t i = 0; i < table_count; i++) {
            if (table[i].declared != d)
                continue;
            memmove(&table[i], &table[i + 1], (table_count - i - 1) * sizeof *table);
            table_count--;
        }
        append(&option);
    }
}

static void append_general(bool late)
{
    for (size_t i = 0; i < sizeof general / sizeof *general; i++)
        if (general[i].late == late)
            append(&general[i]);
}

static void make_table(void)
{
    append_general(false);
    for (size_t o = 0; o < sizeof owners / sizeof *owners; o++)
        for (const void *const *entry = owners[o].registry->entries; *entry; entry++)
            append_declared(((const ls_declared_owner *)*entry)->options);
    append_general(true);
}

const ls_option *ls_option_table(void)
{
    call_once(&table_made, make_table);
    return table;
}

/* ---- Which cases an option applies to ------------------------------------------------------- */

bool ls_option_applies(const ls_option *option, const ls_case *one)
{
    if (option->declared)
        return ls_case_has(one, option->declared) || ls_case_ignores(one, option->declared);
    return (!option->of || option->of(one->strategy)) && (!option->applies || option->applies(one));
}

/* Whether the registry's entry with that number has the option. */
static bool concerns_entry(const ls_option *option, size_t number, const void *entry)
{
    const ls_declared_owner *owner = entry;
    return option->declared ? ls_declared_has(owner->options, option->declared)
                            : number == 0 && option->of && option->of(entry);
}

char *ls_option_concerns(const ls_option *option, char *text, size_t size)
{
    const char *when = option->declared ? option->declared->when : option->concerns;
    *text = 0;
    for (size_t o = 0; o < sizeof owners / sizeof *owners; o++) {
        char before[64];
        snprintf(before, sizeof before, "cases with --%s ", owners[o].option);
        for (const void *const *entry = owners[o].registry->entries; *entry; entry++)
            if (concerns_entry(option, o, *entry))
                ls_text_add(text, size, "%s%s", *text ? ", " : before,
                            ((const ls_declared_owner *)*entry)->name);
    }
    char *last = strrchr(text, ',');
    if (last) { /* "a, b or c" */
        char name[64];
        snprintf(name, sizeof name, "%s", last + 2);
        snprintf(last, size - (size_t)(last - text), " or %s", name);
    }
    return when ? ls_text_add(text, size, "%s%s", *text ? " and " : "", when) : text;
}

/* ---- Names ---------------------------------------------------------------------------------- */

static const struct {
    unsigned bit;
    const char *name;
} commands[] = {
    {LS_FOR_TRACE, "trace"},     {LS_FOR_ADVISE, "advise"},   {LS_FOR_PREDICT, "predict"},
    {LS_FOR_REGRESS, "regress"}, {LS_FOR_RUN, "run"},         {LS_FOR_VERIFY, "verify"},
    {LS_FOR_MICRO, "micro"},     {LS_FOR_DEVICES, "devices"}, {LS_FOR_RESULTS, "results"},
    {LS_FOR_REPORT, "report"},
};

const char *ls_option_command_name(unsigned command)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (commands[i].bit & command) /* trace and regress also have the options of run */
            return commands[i].name;
    return "";
}

const ls_option *ls_option_find(const char *name, unsigned command)
{
    const ls_option *options = ls_option_table(), *found = NULL;
    for (size_t i = 0; options[i].name && !(found && found->commands & command); i++)
        if (strcmp(options[i].name, name) == 0 && (!found || options[i].commands & command))
            found = &options[i];
    return found;
}

bool ls_option_is_of(const ls_option *option, unsigned command)
{
    return option->commands & command && !(option->refused & command);
}

const char *ls_option_fallback(const ls_option *option, unsigned command)
{
    return option->otherwise & command ? option->otherwise_fallback : option->fallback;
}

/* ---- Refusals ------------------------------------------------------------------------------- */

static ls_status refuse_unknown(const char *name, unsigned command, const char *origin)
{
    const ls_option *options = ls_option_table();
    const char *dashes = origin ? "" : "--", *known_as = ls_option_command_name(command);
    char names[4096] = "", nearest[LS_NAME_SIZE];
    char where[LS_NAME_SIZE + 8], hint[LS_NAME_SIZE + 32] = "";
    for (size_t i = 0; options[i].name; i++)
        if (ls_option_is_of(&options[i], command))
            ls_text_add(names, sizeof names, "%s, ", options[i].name);
    if (ls_nearest_name(name, names, nearest))
        snprintf(hint, sizeof hint, "did you mean %s%s? ", dashes, nearest);
    const bool short_of = *nearest && strncmp(nearest, name, strlen(name)) == 0;
    snprintf(where, sizeof where, "%s%s", dashes, name);
    if (origin)
        return ls_fail(LS_CODE_USAGE, "plan", origin,
                       "'%s' is not a valid key%s; %s(`lockstep %s --help` lists the options, "
                       "which are the keys)",
                       name, short_of ? ", and keys are not abbreviated" : "", hint, known_as);
    return ls_fail(LS_CODE_USAGE, "option", where,
                   "unknown option%s; %slockstep %s --help lists all",
                   short_of ? ", and names are not abbreviated" : "", hint, known_as);
}

ls_status ls_option_require(const char *name, size_t length, unsigned command, const char *origin,
                            const ls_option **out)
{
    char text[LS_NAME_SIZE], others[LS_NAME_SIZE] = "";
    snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text), name);
    const ls_option *option = ls_option_find(text, command);
    const ls_setting setting = {.option = option, .origin = origin};
    if (!option)
        return refuse_unknown(text, command, origin);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (option->commands & commands[i].bit)
            ls_text_add(others, sizeof others, "%s%s", *others ? ", " : "", commands[i].name);
    if (!(option->commands & command))
        return ls_setting_refuse(
            &setting, LS_CODE_USAGE,
            "is not an option of lockstep %s, but of lockstep %s; remove this option",
            ls_option_command_name(command), others);
    if (!origin && option->refused & command)
        return ls_setting_refuse(&setting, LS_CODE_USAGE, "%s", option->why_refused);
    *out = option;
    return LS_OK;
}

/* ---- Help ----------------------------------------------------------------------------------- */

enum { WIDTH = 80, INDENT = 6 };

static void print_option(FILE *stream, const ls_option *option, unsigned command)
{
    char text[640], concerned[256];
    snprintf(text, sizeof text, "(default: %s%s%s)", ls_option_fallback(option, command),
             *option->unit ? "; unit: " : "", option->unit);
    const int at = fprintf(stream, option->is_switch ? "  --%s [%s] " : "  --%s %s ", option->name,
                           option->placeholder);
    ls_text_wrap(stream, text, at, INDENT, WIDTH);
    ls_option_concerns(option, concerned, sizeof concerned);
    snprintf(text, sizeof text, "%s%s%s", option->help, *concerned ? "; applies to " : "",
             concerned);
    ls_text_wrap(stream, text, 0, INDENT, WIDTH);
}

void ls_option_help(FILE *stream, unsigned command)
{
    static const char *const titles[LS_HELP_GROUPS] = {
        [LS_HELP_TRAINING] = "What to train",
        [LS_HELP_STRATEGY] = "Strategy and devices",
        [LS_HELP_DECLARED] = "Options of strategies, models and data",
        [LS_HELP_MEASUREMENT] = "Measurement and checks",
        [LS_HELP_PLANS] = "Plans",
        [LS_HELP_OUTPUT] = "Output",
    };
    const ls_option *options = ls_option_table();
    for (int group = 0; group < LS_HELP_GROUPS; group++) {
        bool any = false;
        for (size_t i = 0; options[i].name; i++) {
            if (!ls_option_is_of(&options[i], command) || (int)options[i].group != group)
                continue;
            if (!any)
                fprintf(stream, "\n%s\n", titles[group]);
            any = true;
            print_option(stream, &options[i], command);
        }
    }
}
