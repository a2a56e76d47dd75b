/* SPDX-License-Identifier: MIT */
/*
 * Option help: what the option table says to people: the lines of `--help`, the refusal of a name
 * that it does not have with the nearest one that it has, and the refusal of a value.
 *
 * Nearest: the shortest name that begins with the text, else that of the least edit distance, if
 * it is at most a third of the text's length, rounded up.
 */
#include "bench/option_table.h"

#include <stdarg.h>
#include <string.h>

static const struct {
    unsigned bit;
    const char *name;
} commands[] = {
    {LS_FOR_RUN, "run"},         {LS_FOR_VERIFY, "verify"},   {LS_FOR_MICRO, "micro"},
    {LS_FOR_DEVICES, "devices"}, {LS_FOR_RESULTS, "results"},
};

const char *ls_option_command_name(unsigned command)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (commands[i].bit == command)
            return commands[i].name;
    return "";
}

enum { NAME_CAPACITY = 64 };

static unsigned char smaller(unsigned char a, size_t b)
{
    return b < a ? (unsigned char)b : a;
}

/* Edits from a to b: insert, delete, replace, swap neighbours, each 1 (optimal string alignment);
 * NAME_CAPACITY where one is too long. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length >= NAME_CAPACITY || b_length >= NAME_CAPACITY)
        return NAME_CAPACITY;
    unsigned char d[NAME_CAPACITY][NAME_CAPACITY]; /* d[i][j]: of the first i and j characters */
    for (size_t i = 0; i <= a_length; i++) {
        for (size_t j = 0; j <= b_length; j++) {
            d[i][j] = (unsigned char)(i + j);
            if (i == 0 || j == 0)
                continue;
            d[i][j] = smaller(d[i][j], d[i - 1][j] + 1u);
            d[i][j] = smaller(d[i][j], d[i][j - 1] + 1u);
            d[i][j] = smaller(d[i][j], d[i - 1][j - 1] + (a[i - 1] != b[j - 1] ? 1u : 0u));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                d[i][j] = smaller(d[i][j], d[i - 2][j - 2] + 1u);
        }
    }
    return d[a_length][b_length];
}

const char *ls_nearest_name(const char *text,
                            const char *(*name)(size_t index, const void *context), size_t count,
                            const void *context)
{
    size_t length = strlen(text);
    size_t best = (length + 2) / 3 + 1;
    const char *nearest = NULL, *completed = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *candidate = name(i, context);
        if (!candidate)
            continue;
        if (length > 0 && strncmp(candidate, text, length) == 0) {
            if (!completed || strlen(candidate) < strlen(completed))
                completed = candidate;
        }
        size_t distance = edit_distance(text, candidate);
        if (distance < best) {
            best = distance;
            nearest = candidate;
        }
    }
    return completed ? completed : nearest;
}

/* Name of option i if the command (context) has it. */
static const char *option_name(size_t index, const void *context)
{
    size_t count;
    const ls_option *table = ls_option_table(&count);
    return table[index].commands & *(const unsigned *)context ? table[index].name : NULL;
}

static ls_status refuse_unknown(const char *name, unsigned command, const char *origin)
{
    size_t count;
    ls_option_table(&count);
    const char *nearest = ls_nearest_name(name, option_name, count, &command);
    bool short_of = nearest && strncmp(nearest, name, strlen(name)) == 0;
    const char *dashes = origin ? "" : "--";
    char where[NAME_CAPACITY + 8], hint[NAME_CAPACITY + 32] = "";
    snprintf(where, sizeof where, "%s%s", dashes, name);
    if (nearest)
        snprintf(hint, sizeof hint, "did you mean %s%s? ", dashes, nearest);
    const char *known_as = ls_option_command_name(command);
    if (origin)
        return ls_fail(LS_CODE_USAGE, "plan", origin,
                       "%s: unknown key%s; %s(the keys are the options of `lockstep %s --help`)",
                       name, short_of ? ", and keys are not abbreviated" : "", hint, known_as);
    return ls_fail(LS_CODE_USAGE, "option", where,
                   "unknown option%s; %s(lockstep %s --help lists all)",
                   short_of ? ", and names are not abbreviated" : "", hint, known_as);
}

ls_status ls_option_require(const char *name, size_t length, unsigned command, const char *origin,
                            const ls_option **out)
{
    const ls_option *option = ls_option_find(name, length);
    if (!option) {
        char text[NAME_CAPACITY];
        snprintf(text, sizeof text, "%.*s", (int)(length < sizeof text ? length : sizeof text),
                 name);
        return refuse_unknown(text, command, origin);
    }
    if (!(option->commands & command)) {
        char others[NAME_CAPACITY] = "";
        size_t used = 0;
        for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
            if (option->commands & commands[i].bit)
                used += (size_t)snprintf(others + used, sizeof others - used, "%s%s",
                                         used ? ", " : "", commands[i].name);
        ls_setting setting = {.option = option, .origin = origin};
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "concerns nothing that %s does; it is an option of: %s",
                                 ls_option_command_name(command), others);
    }
    *out = option;
    return LS_OK;
}

void ls_option_help(FILE *stream, unsigned command)
{
    size_t count;
    const ls_option *table = ls_option_table(&count);
    for (size_t i = 0; i < count; i++) {
        const ls_option *option = &table[i];
        if (!(option->commands & command))
            continue;
        char left[96];
        snprintf(left, sizeof left, option->is_switch ? "--%s [%s]" : "--%s %s", option->name,
                 option->placeholder);
        fprintf(stream, "  %-38s %s (default: %s", left, option->help, option->fallback);
        if (*option->unit)
            fprintf(stream, "; unit: %s", option->unit);
        if (option->concerns)
            fprintf(stream, "; concerns %s", option->concerns);
        fprintf(stream, "%s)\n", option->set ? "" : ": none in this version");
    }
}

ls_status ls_setting_refuse(const ls_setting *setting, ls_code code, const char *why, ...)
{
    char text[2048], where[NAME_CAPACITY];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    if (setting->origin)
        return ls_fail(code, "plan", setting->origin, "%s: %s", setting->option->name, text);
    snprintf(where, sizeof where, "--%s", setting->option->name);
    return ls_fail(code, "option", where, "%s", text);
}
