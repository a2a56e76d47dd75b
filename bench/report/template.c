/* SPDX-License-Identifier: MIT */
/* Template; see template.h. */
#include "bench/report/template.h"

#include "bench/output/format.h"

#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 400 }; /* characters */

typedef struct scope {
    const json_t *value;
    const struct scope *outer; /* NULL means the outermost */
} scope;

/* A place: "{{#name}}". */
typedef struct place {
    char sign; /* '#', '^', '{', or 0 */
    char name[32];
    size_t most;       /* characters */
    const char *after; /* what follows it */
} place;

static place read_place(const char *at)
{
    place out = {.sign = at[2], .most = TEXT_MOST};
    if (!strchr("#^{", out.sign))
        out.sign = 0;
    const char *name = at + 2 + (out.sign != 0);
    const size_t length = strcspn(name, "}:");
    snprintf(out.name, sizeof out.name, "%.*s", (int)length, name);
    if (name[length] == ':')
        out.most = strtoul(name + length + 1, NULL, 10);
    out.after = name + strcspn(name, "}") + (out.sign == '{' ? 3 : 2);
    return out;
}

static const json_t *find(const scope *at, const char *name)
{
    const json_t *out = strcmp(name, ".") == 0 ? at->value : NULL;
    for (; at && !out; at = at->outer)
        out = json_object_get(at->value, name);
    return out;
}

static void fill(FILE *stream, const char *text, const char *end, const scope *at,
                 ls_escape escape);

/* Fills a section, whose text ends at `end`. */
static void repeat(FILE *stream, const place *section, const char *end, const scope *at,
                   ls_escape escape)
{
    const json_t *value = find(at, section->name);
    const size_t count = json_is_array(value)    ? json_array_size(value)
                         : json_is_string(value) ? json_string_length(value) > 0
                                                 : value != NULL;
    if (section->sign == '^') {
        if (count == 0)
            fill(stream, section->after, end, at, escape);
        return;
    }
    for (size_t i = 0; i < count; i++)
        fill(stream, section->after, end,
             &(scope){json_is_array(value) ? json_array_get(value, i) : value, at}, escape);
}

static void fill(FILE *stream, const char *text, const char *end, const scope *at, ls_escape escape)
{
    while (text < end) {
        const char *open = strstr(text, "{{");
        if (!open || open > end)
            open = end;
        fwrite(text, 1, (size_t)(open - text), stream);
        if (open == end)
            return;
        const place one = read_place(open);
        text = one.after;
        if (one.sign == '#' || one.sign == '^') {
            char close[40];
            snprintf(close, sizeof close, "{{/%s}}", one.name);
            const char *last = strstr(text, close);
            if (!last)
                return;
            repeat(stream, &one, last, at, escape);
            text = last + strlen(close);
        } else {
            const json_t *value = find(at, one.name);
            char *number = json_is_number(value) ? ls_value_text(value) : NULL;
            const char *shown = number ? number : json_string_value(value);
            ls_escape_put(stream, one.sign ? "" : shown, one.most, escape);
            fputs(one.sign && shown ? shown : "", stream);
            free(number);
        }
    }
}

void ls_template_fill(FILE *stream, const char *text, const json_t *values, ls_escape escape)
{
    fill(stream, text, text + strlen(text), &(scope){values, NULL}, escape);
}

char *ls_template_text(const char *text, const json_t *values, ls_escape escape)
{
    char *out = NULL;
    size_t size;
    FILE *stream = open_memstream(&out, &size);
    if (!stream)
        return NULL;
    ls_template_fill(stream, text, values, escape);
    return fclose(stream) == 0 ? out : NULL;
}

const char *ls_text_of(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}
