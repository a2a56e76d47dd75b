/* SPDX-License-Identifier: MIT */
/*
 * Plan: see plan.h. The parser's events are read one by one, so every refusal knows its line and
 * column. What a plan may hold: one document, one mapping, keys of the option table, values that
 * are plain text or a flat list of it. Left out, and refused: anchors, aliases, tags, more.
 */
#include "bench/plan.h"

#include <errno.h>
#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_CAPACITY = 1 << 20, ORIGIN_CAPACITY = 4200 };

typedef struct plan_reading {
    const char *path;
    struct fy_parser *parser;
    struct fy_diag *diagnostics;
    ls_option_set *set;
} plan_reading;

static ls_status refuse_at(const plan_reading *plan, const struct fy_mark *mark, const char *why)
{
    char origin[ORIGIN_CAPACITY];
    snprintf(origin, sizeof origin, "%s:%d:%d", plan->path, mark ? mark->line + 1 : 1,
             mark ? mark->column + 1 : 1);
    return ls_fail(LS_CODE_USAGE, "plan", origin, "%s", why);
}

static const char what_is_valid[] = "a plan is `option: value` or `option: [value, value]` lines";

static ls_status refuse_shape(const plan_reading *plan, struct fy_event *event, const char *found)
{
    char why[256];
    snprintf(why, sizeof why, "%s is not taken here; %s", found, what_is_valid);
    return refuse_at(plan, fy_event_start_mark(event), why);
}

/* What the parser found wrong, with its place. */
static ls_status refuse_syntax(const plan_reading *plan)
{
    void *previous = NULL;
    const struct fy_diag_error *error = fy_diag_errors_iterate(plan->diagnostics, &previous);
    if (!error)
        return refuse_at(plan, NULL, "the YAML parser failed without a reason; check the file");
    char why[512];
    struct fy_mark mark = {.line = error->line, .column = error->column};
    snprintf(why, sizeof why, "no valid YAML: %s; %s", error->msg, what_is_valid);
    return refuse_at(plan, &mark, why);
}

/* The next event; freed by the caller with fy_parser_event_free. */
static ls_status next_event(plan_reading *plan, struct fy_event **out)
{
    *out = fy_parser_parse(plan->parser);
    if (!*out || fy_parser_get_stream_error(plan->parser)) {
        fy_parser_event_free(plan->parser, *out);
        return refuse_syntax(plan);
    }
    return LS_OK;
}

/* Takes one event of a type that must come. */
static ls_status expect_event(plan_reading *plan, enum fy_event_type type, const char *instead)
{
    struct fy_event *event;
    LS_TRY(next_event(plan, &event));
    ls_status status = event->type == type ? LS_OK : refuse_shape(plan, event, instead);
    fy_parser_event_free(plan->parser, event);
    return status;
}

/* Text of a scalar event, borrowed from it, and its place. */
static ls_status scalar_text(const plan_reading *plan, struct fy_event *event, const char **text,
                             char origin[ORIGIN_CAPACITY])
{
    if (event->type == FYET_ALIAS)
        return refuse_shape(plan, event, "an alias");
    if (event->type != FYET_SCALAR)
        return refuse_shape(plan, event, "a mapping or a nested list");
    if (event->scalar.anchor || event->scalar.tag)
        return refuse_shape(plan, event, "an anchor or a tag");
    const struct fy_mark *mark = fy_event_start_mark(event);
    snprintf(origin, ORIGIN_CAPACITY, "%s:%d:%d", plan->path, mark ? mark->line + 1 : 1,
             mark ? mark->column + 1 : 1);
    size_t length = 0;
    *text = event->scalar.value ? fy_token_get_text(event->scalar.value, &length) : "";
    if (*text && memchr(*text, 0, length))
        return refuse_shape(plan, event, "a zero byte");
    *text = event->scalar.value ? fy_token_get_text0(event->scalar.value) : "";
    return *text ? LS_OK : ls_fail_memory("plan", length);
}

/* The values of a list, up to its end. */
static ls_status read_list(plan_reading *plan, const ls_option *option)
{
    size_t items = 0;
    for (;; items++) {
        struct fy_event *event;
        LS_TRY(next_event(plan, &event));
        bool end = event->type == FYET_SEQUENCE_END;
        char origin[ORIGIN_CAPACITY];
        const char *text;
        ls_status status = LS_OK;
        if (end && items == 0)
            status = refuse_shape(plan, event, "an empty list");
        if (!end)
            status = scalar_text(plan, event, &text, origin);
        if (!end && !status)
            status = ls_option_set_append(plan->set, option, text, origin);
        fy_parser_event_free(plan->parser, event);
        if (end || status)
            return status;
    }
}

static ls_status read_value(plan_reading *plan, const ls_option *option)
{
    struct fy_event *event;
    LS_TRY(next_event(plan, &event));
    char origin[ORIGIN_CAPACITY];
    const char *text;
    ls_status status;
    bool list = event->type == FYET_SEQUENCE_START;
    if (list && !option->sweeps) {
        status = refuse_shape(plan, event, "a list, for an option that has one value,");
    } else if (list) {
        status = event->sequence_start.anchor || event->sequence_start.tag
                     ? refuse_shape(plan, event, "an anchor or a tag")
                     : LS_OK;
    } else {
        status = scalar_text(plan, event, &text, origin);
        if (!status)
            status = ls_option_set_split(plan->set, option, text, origin);
    }
    fy_parser_event_free(plan->parser, event);
    if (list && !status)
        status = read_list(plan, option);
    return status;
}

/* One key and its value; *end at the end of the mapping. */
static ls_status read_entry(plan_reading *plan, bool *end)
{
    struct fy_event *event;
    LS_TRY(next_event(plan, &event));
    *end = event->type == FYET_MAPPING_END;
    char origin[ORIGIN_CAPACITY];
    const char *key;
    const ls_option *option = NULL;
    ls_status status = *end ? LS_OK : scalar_text(plan, event, &key, origin);
    if (!*end && !status)
        status = ls_option_require(key, strlen(key), plan->set->command, origin, &option);
    if (option && !status && strcmp(option->name, "plan") == 0)
        status = refuse_shape(plan, event, "a plan inside a plan");
    if (option && !status)
        status = ls_option_set_begin(plan->set, option, origin);
    fy_parser_event_free(plan->parser, event);
    if (*end || status)
        return status;
    return read_value(plan, option);
}

static ls_status read_document(plan_reading *plan)
{
    LS_TRY(expect_event(plan, FYET_STREAM_START, "this"));
    LS_TRY(expect_event(plan, FYET_DOCUMENT_START, "an empty file"));
    LS_TRY(expect_event(plan, FYET_MAPPING_START, "a document that is no mapping"));
    for (bool end = false; !end;)
        LS_TRY(read_entry(plan, &end));
    LS_TRY(expect_event(plan, FYET_DOCUMENT_END, "this"));
    return expect_event(plan, FYET_STREAM_END, "a second document");
}

static ls_status load_text(const char *path, char **out, size_t *out_length)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return ls_fail(LS_CODE_MISSING, "plan", path, "%s; --plan takes a YAML file",
                       strerror(errno));
    char *text = malloc(PLAN_CAPACITY + 1);
    ls_status status = text ? LS_OK : ls_fail_memory("plan", PLAN_CAPACITY + 1);
    size_t length = text ? fread(text, 1, PLAN_CAPACITY + 1, file) : 0;
    if (text && ferror(file))
        status =
            ls_fail(LS_CODE_MISSING, "plan", path, "%s; --plan takes a YAML file", strerror(errno));
    else if (length > PLAN_CAPACITY)
        status = ls_fail(LS_CODE_USAGE, "plan", path,
                         "larger than 1 MiB; a plan is a few lines of YAML");
    else if (text && memchr(text, 0, length))
        status = ls_fail(LS_CODE_USAGE, "plan", path,
                         "has a zero byte, so it is no text; a plan is a few lines of YAML");
    fclose(file);
    if (status) {
        free(text);
        return status;
    }
    *out = text;
    *out_length = length;
    return LS_OK;
}

ls_status ls_plan_read(const char *path, ls_option_set *set)
{
    char *text = NULL;
    size_t length = 0;
    LS_TRY(load_text(path, &text, &length));
    plan_reading plan = {.path = path, .set = set};
    struct fy_diag_cfg diagnostics;
    fy_diag_cfg_default(&diagnostics);
    diagnostics.fp = NULL;
    plan.diagnostics = fy_diag_create(&diagnostics);
    if (plan.diagnostics)
        fy_diag_set_collect_errors(plan.diagnostics, true);
    const struct fy_parse_cfg config = {.flags = FYPCF_QUIET | FYPCF_COLLECT_DIAG,
                                        .diag = plan.diagnostics};
    plan.parser = plan.diagnostics ? fy_parser_create(&config) : NULL;
    ls_status status;
    if (!plan.parser || fy_parser_set_string(plan.parser, text, length) != 0)
        status = ls_fail_memory("plan", length);
    else
        status = read_document(&plan);
    if (plan.parser)
        fy_parser_destroy(plan.parser);
    if (plan.diagnostics)
        fy_diag_destroy(plan.diagnostics);
    free(text);
    return status;
}
