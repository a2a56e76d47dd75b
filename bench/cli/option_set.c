/* SPDX-License-Identifier: MIT */
/*
 * Option set: see option_set.h. getopt and argp are not used, since they silently complete
 * abbreviated names. A switch takes the next argument as its value, unless that is an option.
 */
#include "bench/cli/option_set.h"

#include "bench/cli/option_table.h"
#include "common/base/escape.h"
#include "common/base/grow.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_option_set_open(unsigned command, ls_option_set *out)
{
    ls_option_set set = {.command = command};
    LS_TRY(ls_allocate("options", &set.given, LS_OPTIONS_MOST, sizeof *set.given));
    *out = set;
    return LS_OK;
}

void ls_option_set_close(ls_option_set *set)
{
    for (size_t i = 0; set->given && i < LS_OPTIONS_MOST; i++) {
        for (size_t k = 0; k < set->given[i].count; k++) {
            free(set->given[i].values[k].text);
            free(set->given[i].values[k].origin);
        }
        free(set->given[i].values);
    }
    free(set->given);
    for (size_t i = 0; i < set->operand_count; i++)
        free(set->operands[i]);
    free(set->operands);
    *set = (ls_option_set){0};
}

static ls_option_given *given_of(const ls_option_set *set, const ls_option *option)
{
    return &set->given[option - ls_option_table()];
}

const ls_option_given *ls_option_set_find(const ls_option_set *set, const char *name)
{
    return given_of(set, ls_option_find(name, set->command));
}

bool ls_option_set_has(const ls_option_set *set, const char *name)
{
    return ls_option_set_find(set, name)->count > 0;
}

const char *ls_option_set_text(const ls_option_set *set, const char *name, const char *fallback)
{
    const ls_option_given *given = ls_option_set_find(set, name);
    return given->count > 0 ? given->values[0].text : fallback;
}

bool ls_option_set_yes(const ls_option_set *set, const char *name)
{
    return strcmp(ls_option_set_text(set, name, "no"), "yes") == 0;
}

ls_status ls_option_set_take(const ls_option_set *set, const char *name, const char *fallback,
                             const ls_processes *processes, ls_case *one, ls_request *request)
{
    const ls_option *option = ls_option_find(name, set->command);
    const ls_setting setting = {.option = option,
                                .text = ls_option_set_text(set, name, fallback),
                                .processes = processes,
                                .one = option->sweeps ? one : NULL,
                                .request = option->sweeps ? NULL : request};
    if (given_of(set, option)->count > 1)
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "is a list of values, but lockstep %s takes a single value; run a "
                                 "command for each value",
                                 ls_option_command_name(set->command));
    return setting.text ? option->set(&setting) : LS_OK;
}

/* Whether the command takes several values of the option, as a list. */
static bool takes_list(const ls_option_set *set, const ls_option *option)
{
    if (set->command & (LS_FOR_MICRO | LS_FOR_DEVICES))
        return strcmp(option->name, "sizes") == 0 || strcmp(option->name, "allreduce") == 0;
    return option->sweeps && !option->whole;
}

ls_status ls_option_set_begin(ls_option_set *set, const ls_option *option, const char *origin)
{
    const ls_option_given *given = given_of(set, option);
    const bool several = option->repeats & set->command || (option->continues && !origin);
    if (given->count == 0 || several)
        return LS_OK;
    ls_setting setting = {.option = option, .origin = origin};
    return ls_setting_refuse(&setting, LS_CODE_USAGE, "is given twice; give this option once%s",
                             takes_list(set, option) ? ", with a list for several values" : "");
}

ls_status ls_option_set_append(ls_option_set *set, const ls_option *option, const char *text,
                               const char *origin)
{
    ls_setting setting = {.option = option, .origin = origin};
    if (!*text)
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "the value is empty; give a value (%s), or remove this option",
                                 option->placeholder);
    ls_option_given *given = given_of(set, option);
    LS_TRY(ls_grow("options", &given->values, given->count, sizeof *given->values));
    ls_option_value value = {strdup(text), origin ? strdup(origin) : NULL};
    if (!value.text || (origin && !value.origin)) {
        free(value.text);
        free(value.origin);
        return ls_fail_memory("options", strlen(text));
    }
    given->values[given->count++] = value;
    return LS_OK;
}

/* Whether the text begins with `name=`. */
static bool begins_assignment(const char *text)
{
    const char *c = text;
    while (isalnum((unsigned char)*c) || *c == '_' || *c == '-' || *c == '/')
        c++;
    return c > text && *c == '=';
}

ls_status ls_option_set_split(ls_option_set *set, const ls_option *option, const char *text,
                              const char *origin)
{
    if (!option->sweeps || option->whole)
        return ls_option_set_append(set, option, text, origin);
    const ls_setting setting = {.option = option, .text = text, .origin = origin};
    if (option->check_list)
        LS_TRY(option->check_list(&setting));
    ls_auto char *copy = strdup(text);
    if (!copy)
        return ls_fail_memory("options", strlen(text));
    for (char *part = copy, *next; part; part = next) {
        next = ls_list_cut(part, option->continues ? begins_assignment : NULL);
        if (!*part && *text)
            return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                     "a value in the list is empty; remove the superfluous comma, "
                                     "or give a value (%s)",
                                     option->placeholder);
        LS_TRY(ls_option_set_append(set, option, part, origin));
    }
    return LS_OK;
}

void ls_option_put_value(FILE *stream, const ls_option *option, const char *text)
{
    if (!option->sweeps || option->whole)
        fputs(text, stream);
    else
        ls_list_put(stream, text, option->continues ? begins_assignment : NULL);
}

/* ---- Arguments ----------------------------------------------------------------------------- */

static ls_status take_operand(ls_option_set *set, const char *text, size_t most)
{
    if (set->operand_count >= most)
        return ls_fail(
            LS_CODE_USAGE, "argument", *text ? text : "''",
            "unexpected argument; write options as --name VALUE (lockstep %s --help lists all)",
            ls_option_command_name(set->command));
    LS_TRY(ls_grow("options", &set->operands, set->operand_count, sizeof *set->operands));
    char *copy = strdup(text);
    if (!copy)
        return ls_fail_memory("options", strlen(text));
    set->operands[set->operand_count++] = copy;
    return LS_OK;
}

/* Reads the option in argv[*at], and skips its value if that is the next argument. */
static ls_status take_option(ls_option_set *set, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2, *value = NULL;
    const size_t length = strcspn(name, "=");
    const ls_option *option;
    LS_TRY(ls_option_require(name, length, set->command, NULL, &option));
    if (name[length] == '=')
        value = name + length + 1;
    else if (*at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
        value = argv[++*at];
    else if (option->is_switch)
        value = "yes";
    ls_setting setting = {.option = option};
    if (!value)
        return ls_setting_refuse(&setting, LS_CODE_USAGE, "the value is missing; write --%s %s",
                                 option->name, option->placeholder);
    LS_TRY(ls_option_set_begin(set, option, NULL));
    return ls_option_set_split(set, option, value, NULL);
}

ls_status ls_option_set_read(ls_option_set *set, int argc, char **argv, size_t operands)
{
    bool ended = false; /* the options, by "--" before operands */
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--") == 0 && !ended && operands > 0)
            ended = !(set->command & LS_FOR_REGRESS); /* there it may precede the options of run */
        else if (strncmp(argv[i], "--", 2) == 0 && argv[i][2] && !ended)
            LS_TRY(take_option(set, argc, argv, &i));
        else if (strcmp(argv[i], "--") == 0 && !ended)
            return ls_fail(LS_CODE_USAGE, "option", argv[i],
                           "this command takes no arguments after --; remove it and write options "
                           "as --name VALUE (lockstep %s --help lists all)",
                           ls_option_command_name(set->command));
        else if (argv[i][0] == '-' && !ended)
            return ls_fail(
                LS_CODE_USAGE, "option", argv[i],
                "unknown option; options begin with two dashes (lockstep %s --help lists all)",
                ls_option_command_name(set->command));
        else
            LS_TRY(take_operand(set, argv[i], operands));
    }
    return LS_OK;
}
