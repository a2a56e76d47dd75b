/* SPDX-License-Identifier: MIT */
/*
 * Option set: see option_set.h.
 *
 * getopt, under argp, completes abbreviated names and says nothing; so each argument is first
 * looked up in the table and rewritten as `--name=value`, and what argp then parses is exact. A
 * switch takes the next argument as its value unless that is an option.
 */
#include "bench/option_set.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_option_set_open(unsigned command, ls_option_set *out)
{
    size_t count;
    ls_option_table(&count);
    ls_option_set set = {.command = command, .given = calloc(count, sizeof *set.given)};
    if (!set.given)
        return ls_fail_memory("options", count * sizeof *set.given);
    *out = set;
    return LS_OK;
}

void ls_option_set_close(ls_option_set *set)
{
    size_t count;
    ls_option_table(&count);
    for (size_t i = 0; set->given && i < count; i++) {
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
    size_t count;
    return &set->given[option - ls_option_table(&count)];
}

const ls_option_given *ls_option_set_find(const ls_option_set *set, const char *name)
{
    return given_of(set, ls_option_find(name, strlen(name)));
}

const char *ls_option_set_text(const ls_option_set *set, const char *name, const char *fallback)
{
    const ls_option_given *given = ls_option_set_find(set, name);
    return given->count > 0 ? given->values[0].text : fallback;
}

ls_status ls_option_set_begin(ls_option_set *set, const ls_option *option, const char *origin)
{
    const ls_option_given *given = given_of(set, option);
    if (given->count == 0)
        return LS_OK;
    ls_setting setting = {.option = option, .origin = origin};
    if (origin && !given->values[0].origin)
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "given on the command line too; leave it out of one of them");
    return ls_setting_refuse(&setting, LS_CODE_USAGE, "given twice; give it once%s",
                             option->sweeps ? ", with a list for several values" : "");
}

ls_status ls_option_set_append(ls_option_set *set, const ls_option *option, const char *text,
                               const char *origin)
{
    ls_setting setting = {.option = option, .origin = origin};
    if (!*text)
        return ls_setting_refuse(&setting, LS_CODE_USAGE, "empty value; %s, or leave it out",
                                 option->placeholder);
    ls_option_given *given = given_of(set, option);
    ls_option_value *values = realloc(given->values, (given->count + 1) * sizeof *values);
    if (!values)
        return ls_fail_memory("options", (given->count + 1) * sizeof *values);
    given->values = values;
    ls_option_value value = {strdup(text), origin ? strdup(origin) : NULL};
    if (!value.text || (origin && !value.origin)) {
        free(value.text);
        free(value.origin);
        return ls_fail_memory("options", strlen(text));
    }
    values[given->count++] = value;
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
    if (!option->sweeps)
        return ls_option_set_append(set, option, text, origin);
    char *copy = strdup(text);
    if (!copy)
        return ls_fail_memory("options", strlen(text));
    ls_status status = LS_OK;
    for (char *part = copy, *comma; part && !status; part = comma) {
        comma = strchr(part, ',');
        while (comma && option->continues && begins_assignment(comma + 1))
            comma = strchr(comma + 1, ',');
        if (comma)
            *comma++ = 0;
        status = ls_option_set_append(set, option, part, origin);
    }
    free(copy);
    return status;
}

/* ---- Arguments ----------------------------------------------------------------------------- */

typedef struct argument_reading {
    ls_option_set *set;
    size_t operands; /* how many may be taken */
    char **exact;    /* "--name=value" and operands; ends with NULL */
    int exact_count;
    ls_status status;
} argument_reading;

static ls_status push_exact(argument_reading *reading, char *argument)
{
    if (!argument)
        return ls_fail_memory("options", 0);
    reading->exact[reading->exact_count++] = argument;
    return LS_OK;
}

static char *join_option(const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 4;
    char *text = malloc(size);
    if (text)
        snprintf(text, size, "--%s=%s", name, value);
    return text;
}

/* Rewrites the option in argv[*at], and steps over the value where that is an argument. */
static ls_status rewrite_option(argument_reading *reading, int argc, char **argv, int *at)
{
    const char *name = argv[*at] + 2;
    size_t length = strcspn(name, "=");
    const ls_option *option;
    LS_TRY(ls_option_require(name, length, reading->set->command, NULL, &option));
    if (name[length] == '=')
        return push_exact(reading, join_option(option->name, name + length + 1));
    if (*at + 1 < argc && strncmp(argv[*at + 1], "--", 2) != 0)
        return push_exact(reading, join_option(option->name, argv[++*at]));
    if (option->is_switch)
        return push_exact(reading, join_option(option->name, "yes"));
    ls_setting setting = {.option = option};
    return ls_setting_refuse(&setting, LS_CODE_USAGE, "a value is missing; --%s %s", option->name,
                             option->placeholder);
}

static ls_status rewrite_arguments(argument_reading *reading, int argc, char **argv)
{
    const char *command = ls_option_command_name(reading->set->command);
    LS_TRY(push_exact(reading, strdup(command)));
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) == 0 && argv[i][2])
            LS_TRY(rewrite_option(reading, argc, argv, &i));
        else if (argv[i][0] == '-')
            return ls_fail(LS_CODE_USAGE, "option", argv[i],
                           "unknown option; options are written --name "
                           "(lockstep %s --help lists all)",
                           command);
        else
            LS_TRY(push_exact(reading, strdup(argv[i])));
    }
    return LS_OK;
}

static ls_status take_operand(argument_reading *reading, const char *text)
{
    ls_option_set *set = reading->set;
    if (set->operand_count >= reading->operands)
        return ls_fail(LS_CODE_USAGE, "argument", *text ? text : "''",
                       "unexpected; values belong to an option, as --name VALUE "
                       "(lockstep %s --help lists all)",
                       ls_option_command_name(set->command));
    char **operands = realloc(set->operands, (set->operand_count + 1) * sizeof *operands);
    if (!operands)
        return ls_fail_memory("options", sizeof *operands);
    set->operands = operands;
    operands[set->operand_count] = strdup(text);
    if (!operands[set->operand_count])
        return ls_fail_memory("options", strlen(text));
    set->operand_count++;
    return LS_OK;
}

enum { FIRST_KEY = 256 }; /* above every character, so no short option exists */

static error_t parse_one(int key, char *value, struct argp_state *state)
{
    argument_reading *reading = state->input;
    size_t count;
    const ls_option *table = ls_option_table(&count);
    if (key == ARGP_KEY_ARG) {
        reading->status = take_operand(reading, value);
    } else if (key >= FIRST_KEY && (size_t)(key - FIRST_KEY) < count) {
        const ls_option *option = &table[key - FIRST_KEY];
        reading->status = ls_option_set_begin(reading->set, option, NULL);
        if (!reading->status)
            reading->status = ls_option_set_split(reading->set, option, value, NULL);
    } else {
        return ARGP_ERR_UNKNOWN;
    }
    return reading->status ? EINVAL : 0;
}

/* argp's own form of the command's options, ended by a zero entry. */
static struct argp_option *argp_options(unsigned command)
{
    size_t count, used = 0;
    const ls_option *table = ls_option_table(&count);
    struct argp_option *options = calloc(count + 1, sizeof *options);
    for (size_t i = 0; options && i < count; i++)
        if (table[i].commands & command)
            options[used++] = (struct argp_option){.name = table[i].name,
                                                   .key = FIRST_KEY + (int)i,
                                                   .arg = table[i].placeholder,
                                                   .doc = table[i].help};
    return options;
}

ls_status ls_option_set_read(ls_option_set *set, int argc, char **argv, size_t operands)
{
    argument_reading reading = {.set = set, .operands = operands};
    size_t slots = argc > 1 ? (size_t)argc + 1 : 2;
    reading.exact = calloc(slots, sizeof *reading.exact);
    struct argp_option *options = argp_options(set->command);
    if (!reading.exact || !options)
        reading.status = ls_fail_memory("options", slots * sizeof *reading.exact);
    else
        reading.status = rewrite_arguments(&reading, argc, argv);
    /* argp moves operands behind the options in the array, so what is freed is a copy of it. */
    char **parsed = reading.status ? NULL : malloc(slots * sizeof *parsed);
    if (parsed) {
        memcpy(parsed, reading.exact, slots * sizeof *parsed);
        const struct argp argp = {.options = options, .parser = parse_one};
        error_t failed =
            argp_parse(&argp, reading.exact_count, parsed,
                       ARGP_NO_EXIT | ARGP_NO_ERRS | ARGP_NO_HELP | ARGP_IN_ORDER, NULL, &reading);
        if (failed && !reading.status)
            reading.status = ls_fail(LS_CODE_USAGE, "options", NULL, "%s", strerror(failed));
    } else if (!reading.status) {
        reading.status = ls_fail_memory("options", slots * sizeof *parsed);
    }
    free(parsed);
    for (int i = 0; i < reading.exact_count; i++)
        free(reading.exact[i]);
    free(reading.exact);
    free(options);
    return reading.status;
}
