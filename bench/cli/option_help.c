/* SPDX-License-Identifier: MIT */
/* Option help: the lines of `--help`, and the refusal of an unknown name with the nearest known
 * one, both from the option table; the options of `run` that commands without training do not
 * have. */
#include "bench/cli/option_table.h"
#include "bench/output/format.h"

#include <string.h>

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

const char *ls_option_lacked(const ls_option *option, unsigned command)
{
    static const char devices[] = "applies to separate processes; list all devices with --devices";
    static const char training[] =
        "applies only when training, and this command does not train; remove this option";
    static const char later[] = "is an option of `run` only; remove this option";
    enum { VIRTUAL = LS_FOR_PREDICT | LS_FOR_ADVISE, LOOKING = VIRTUAL | LS_FOR_TRACE };
    static const struct {
        const char *name, *why;
        unsigned commands;
    } lacked[] = {
        {"link", "applies to real devices; describe the network with --platform", VIRTUAL},
        {"ranks", devices, VIRTUAL},
        {"comm", devices, VIRTUAL},
        {"memory", "applies to real devices; give a device's memory with --memory-limit", VIRTUAL},
        {"epochs", "applies to a data set, and this command reads none; use --steps", VIRTUAL},
        {"blocks", training, VIRTUAL},
        {"gate-steps", training, VIRTUAL},
        {"eval-samples", training, VIRTUAL},
        {"baseline", training, VIRTUAL},
        {"save", training, VIRTUAL},
        {"load", training, VIRTUAL},
        {"checkpoint", training, LOOKING},
        {"checkpoint-interval", training, LOOKING},
        {"checkpoint-keep", training, LOOKING},
        {"resume-from-checkpoint", training, LOOKING},
        {"elastic", training, LOOKING},
        {"on-failure", training, LOOKING},
        {"target", training, VIRTUAL},
        {"until-precision", training, VIRTUAL},
        {"max-time", training, VIRTUAL},
        {"ps-record", training, VIRTUAL},
        {"resume", later, VIRTUAL},
        {"print-step", later, VIRTUAL},
        {"waterfall", later, VIRTUAL},
        {"dry-run", later, VIRTUAL},
        {"plan", "asks several questions, and advise answers one; give its options", LS_FOR_ADVISE},
        {"columns", "applies to rows, and advise prints none; remove this option", LS_FOR_ADVISE},
    };
    for (size_t i = 0; i < sizeof lacked / sizeof *lacked; i++)
        if (lacked[i].commands & command && strcmp(lacked[i].name, option->name) == 0)
            return lacked[i].why;
    return NULL;
}

const ls_option *ls_option_find_in(const char *name, size_t length, unsigned command)
{
    const ls_option *options = ls_option_table(), *found = NULL;
    for (size_t i = 0; options[i].name && !(found && found->commands & command); i++)
        if (strlen(options[i].name) == length && memcmp(options[i].name, name, length) == 0 &&
            (!found || options[i].commands & command))
            found = &options[i];
    return found;
}

const ls_option *ls_option_find(const char *name, size_t length)
{
    return ls_option_find_in(name, length, 0);
}

bool ls_option_is_of(const ls_option *option, unsigned command)
{
    return option->commands & command && !ls_option_lacked(option, command);
}

enum { NAME_CAPACITY = 64 };

/* Name of option i if the command (context) has it. */
static const char *option_name(size_t index, const void *context)
{
    const ls_option *table = ls_option_table();
    return ls_option_is_of(&table[index], *(const unsigned *)context) ? table[index].name : NULL;
}

static ls_status refuse_unknown(const char *name, unsigned command, const char *origin)
{
    const char *nearest = ls_nearest_name(name, option_name, LS_OPTIONS_MOST, &command);
    bool short_of = nearest && strncmp(nearest, name, strlen(name)) == 0;
    const char *dashes = origin ? "" : "--";
    char where[NAME_CAPACITY + 8], hint[NAME_CAPACITY + 32] = "";
    snprintf(where, sizeof where, "%s%s", dashes, name);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s%s? ", dashes, nearest);
    const char *known_as = ls_option_command_name(command);
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
    const ls_option *option = ls_option_find_in(name, length, command);
    if (!option) {
        char text[NAME_CAPACITY];
        snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text),
                 name);
        return refuse_unknown(text, command, origin);
    }
    if (!(option->commands & command)) {
        char others[NAME_CAPACITY] = "";
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (option->commands & commands[i].bit)
                ls_text_add(others, sizeof others, "%s%s", *others ? ", " : "", commands[i].name);
        ls_setting setting = {.option = option, .origin = origin};
        return ls_setting_refuse(
            &setting, LS_CODE_USAGE,
            "is not an option of lockstep %s, but of lockstep %s; remove this option",
            ls_option_command_name(command), others);
    }
    const ls_setting setting = {.option = option};
    const char *why = origin ? NULL : ls_option_lacked(option, command);
    if (why)
        return ls_setting_refuse(&setting, LS_CODE_USAGE, "%s", why);
    *out = option;
    return LS_OK;
}

const char *ls_option_fallback(const ls_option *option, unsigned command)
{
    return option->otherwise & command ? option->otherwise_fallback : option->fallback;
}

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
    const ls_option *table = ls_option_table();
    for (int group = 0; group < LS_HELP_GROUPS; group++) {
        bool any = false;
        for (size_t i = 0; table[i].name; i++) {
            if (!ls_option_is_of(&table[i], command) || (int)table[i].group != group)
                continue;
            if (!any)
                fprintf(stream, "\n%s\n", titles[group]);
            any = true;
            print_option(stream, &table[i], command);
        }
    }
}
