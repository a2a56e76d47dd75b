/* SPDX-License-Identifier: MIT */
/*
 * Refusals of values and of names; see option.h. The nearest name is the shortest that begins with
 * the text, otherwise the one with the least edit distance, if that is at most a third of the
 * text's length, rounded up.
 */
#include "bench/cli/option.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static unsigned char smaller(unsigned char a, size_t b)
{
    return b < a ? (unsigned char)b : a;
}

/* Edits from a to b: insert, delete, replace, swap neighbours, each 1 (optimal string alignment);
 * LS_NAME_SIZE if a text is too long. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length >= LS_NAME_SIZE || b_length >= LS_NAME_SIZE)
        return LS_NAME_SIZE;
    unsigned char d[LS_NAME_SIZE][LS_NAME_SIZE]; /* d[i][j]: for the first i and j characters */
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

bool ls_nearest_name(const char *text, const char *names, char nearest[LS_NAME_SIZE])
{
    const size_t length = strlen(text);
    size_t shortest = SIZE_MAX, least = (length + 2) / 3 + 1;
    *nearest = 0;
    for (size_t size; *names; names += size + strspn(names + size, ", ")) {
        char name[LS_NAME_SIZE];
        size = strcspn(names, ", ");
        snprintf(name, sizeof name, "%.*s", (int)size, names);
        const bool completes = length > 0 && strncmp(name, text, length) == 0 && size < shortest;
        const size_t distance = edit_distance(text, name);
        if (!completes && (shortest < SIZE_MAX || distance >= least))
            continue;
        if (completes)
            shortest = size;
        least = distance;
        memcpy(nearest, name, sizeof name);
    }
    return *nearest;
}

ls_status ls_setting_refuse(const ls_setting *setting, ls_code code, const char *why, ...)
{
    char text[2048], where[LS_NAME_SIZE];
    va_list arguments;
    va_start(arguments, why);
    vsnprintf(text, sizeof text, why, arguments);
    va_end(arguments);
    if (setting->origin)
        return ls_fail(code, "plan", setting->origin, "%s: %s", setting->option->name, text);
    snprintf(where, sizeof where, "--%s", setting->option->name);
    return ls_fail(code, "option", where, "%s", text);
}
