/* SPDX-License-Identifier: MIT */
/*
 * Plan: see plan.h. The parser's events are read one by one, so every refusal knows its line and
 * column, and nothing that is refused is ever held as a whole. Left out, and refused: anchors,
 * aliases, tags, anything nested deeper than a plan is.
 */
#include "bench/cli/plan.h"
#include "bench/cli/option_table.h"
#include "common/base/numbers.h"

#include <errno.h>
#include <libfyaml.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_CAPACITY = 1 << 20, ORIGIN_CAPACITY = 4200 };

/* Keys of a plan that are no options. */
typedef enum plan_key { CASES, DEFAULTS, EXCLUDE, REPEAT, BUDGET, PLAN_KEYS } plan_key;

static const char *const key_names[PLAN_KEYS] = {
    [CASES] = "cases",   [DEFAULTS] = "defaults", [EXCLUDE] = "exclude",
    [REPEAT] = "repeat", [BUDGET] = "budget",
};

typedef struct plan_reading {
    const char *path;
    struct fy_parser *parser;
    struct fy_diag *diagnostics;
    ls_option_set *set; /* of the command line, and what the plan has for all cases */
    ls_plan_file *out;
    bool seen[PLAN_KEYS];
    struct fy_mark option_at; /* of the first option that is a key of the plan itself */
    bool has_option;
} plan_reading;

/* A mapping of options that is being read. */
typedef struct mapping {
    ls_option_set *set;
    bool of_case; /* one of `cases:` or `exclude:`, so no option of the whole command is in it */
} mapping;

static ls_status refuse_at(const plan_reading *plan, const struct fy_mark *mark, const char *why)
{
    char origin[ORIGIN_CAPACITY];
    snprintf(origin, sizeof origin, "%s:%d:%d", plan->path, mark ? mark->line + 1 : 1,
             mark ? mark->column + 1 : 1);
    return ls_fail(LS_CODE_USAGE, "plan", origin, "%s", why);
}

static const char what_is_valid[] =
    "a plan is `option: value` or `option: [value, value]` lines, or `cases:`, a list of such "
    "mappings, with `defaults:`, `exclude:`, `repeat:`, `budget:`";

static ls_status refuse_shape(const plan_reading *plan, struct fy_event *event, const char *found)
{
    char why[256];
    snprintf(why, sizeof why, "%s is not taken here; %s", found, what_is_valid);
    return refuse_at(plan, fy_event_start_mark(event), why);
}

/* Refuses what the parser found wrong, with its line and column. */
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
static ls_status read_list(plan_reading *plan, const mapping *to, const ls_option *option)
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
            status = ls_option_set_append(to->set, option, text, origin);
        fy_parser_event_free(plan->parser, event);
        if (end || status)
            return status;
    }
}

static bool is_marked(const struct fy_event *event)
{
    return event->type == FYET_SEQUENCE_START
               ? event->sequence_start.anchor || event->sequence_start.tag
               : event->type == FYET_MAPPING_START &&
                     (event->mapping_start.anchor || event->mapping_start.tag);
}

static ls_status read_value(plan_reading *plan, const mapping *to, const ls_option *option)
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
        status = is_marked(event) ? refuse_shape(plan, event, "an anchor or a tag") : LS_OK;
    } else {
        status = scalar_text(plan, event, &text, origin);
        if (!status)
            status = ls_option_set_split(to->set, option, text, origin);
    }
    fy_parser_event_free(plan->parser, event);
    if (list && !status)
        status = read_list(plan, to, option);
    return status;
}

/* Begins an option of a mapping. */
static ls_status begin_option(plan_reading *plan, const mapping *to, const ls_option *option,
                              const char *origin)
{
    const ls_setting setting = {.option = option, .origin = origin};
    const ls_option_given *line = ls_option_set_find(plan->set, option->name);
    if (to->of_case && !option->sweeps)
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "is of the whole command, not of a case; under `defaults:` it "
                                 "works");
    if (line->count && !line->values[0].origin)
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "given on the command line too; leave it out of one of them");
    return ls_option_set_begin(to->set, option, origin);
}

/* The option that is a key. */
static ls_status find_option(plan_reading *plan, struct fy_event *event, const char *key,
                             const char *origin, const ls_option **out)
{
    LS_TRY(ls_option_require(key, strlen(key), plan->set->command, origin, out));
    if (strcmp((*out)->name, "plan") == 0)
        return refuse_shape(plan, event, "a plan inside a plan");
    if (strcmp((*out)->name, "dry-run") == 0 || strcmp((*out)->name, "resume") == 0)
        return refuse_shape(plan, event, "what the command line alone says");
    return LS_OK;
}

/* One option and its value; *end at the end of the mapping. */
static ls_status read_entry(plan_reading *plan, const mapping *to, bool *end)
{
    struct fy_event *event;
    LS_TRY(next_event(plan, &event));
    *end = event->type == FYET_MAPPING_END;
    char origin[ORIGIN_CAPACITY];
    const char *key;
    const ls_option *option = NULL;
    ls_status status = *end ? LS_OK : scalar_text(plan, event, &key, origin);
    if (!*end && !status)
        status = find_option(plan, event, key, origin, &option);
    if (option && !status)
        status = begin_option(plan, to, option, origin);
    fy_parser_event_free(plan->parser, event);
    if (*end || status)
        return status;
    return read_value(plan, to, option);
}

/* The entries of a mapping that has begun. */
static ls_status read_mapping(plan_reading *plan, const mapping *to)
{
    for (bool end = false; !end;)
        LS_TRY(read_entry(plan, to, &end));
    return LS_OK;
}

/* ---- cases, defaults, exclude, repeat, budget ------------------------------------------------ */

/* A list or mapping that is to begin here. */
static ls_status check_begin(const plan_reading *plan, struct fy_event *event,
                             enum fy_event_type type)
{
    if (event->type == FYET_ALIAS)
        return refuse_shape(plan, event, "an alias");
    if (event->type != type)
        return refuse_shape(plan, event,
                            type == FYET_MAPPING_START ? "what is no mapping"
                                                       : "what is no list of mappings");
    return is_marked(event) ? refuse_shape(plan, event, "an anchor or a tag") : LS_OK;
}

/* Room for one more mapping, at the event's place. */
static ls_status add_part(plan_reading *plan, struct fy_event *event, ls_plan_parts *parts,
                          ls_option_set **out)
{
    char why[160];
    const struct fy_mark *mark = fy_event_start_mark(event);
    if (parts->count == LS_CASES_MOST) {
        snprintf(why, sizeof why, "more than %d mappings in this list; fewer, with lists in them",
                 LS_CASES_MOST);
        return refuse_at(plan, mark, why);
    }
    LS_TRY(check_begin(plan, event, FYET_MAPPING_START));
    ls_plan_part *items = realloc(parts->items, (parts->count + 1) * sizeof *items);
    if (!items)
        return ls_fail_memory("plan", (parts->count + 1) * sizeof *items);
    parts->items = items;
    ls_plan_part *part = &items[parts->count];
    LS_TRY(ls_option_set_open(plan->set->command, &part->set));
    parts->count++;
    snprintf(part->origin, sizeof part->origin, "%.200s:%d:%d", plan->path, mark->line + 1,
             mark->column + 1);
    *out = &part->set;
    return LS_OK;
}

/* A list of mappings. */
static ls_status read_parts(plan_reading *plan, ls_plan_parts *parts)
{
    struct fy_event *event;
    LS_TRY(next_event(plan, &event));
    ls_status status = check_begin(plan, event, FYET_SEQUENCE_START);
    fy_parser_event_free(plan->parser, event);
    for (bool end = false; !end && !status;) {
        ls_option_set *set = NULL;
        LS_TRY(next_event(plan, &event));
        end = event->type == FYET_SEQUENCE_END;
        if (end && parts->count == 0)
            status = refuse_shape(plan, event, "an empty list");
        else if (!end)
            status = add_part(plan, event, parts, &set);
        fy_parser_event_free(plan->parser, event);
        if (!end && !status)
            status = read_mapping(plan, &(mapping){set, true});
    }
    return status;
}

/* `defaults:`, a mapping: as if its options were the plan's own. */
static ls_status read_defaults(plan_reading *plan)
{
    struct fy_event *event;
    LS_TRY(next_event(plan, &event));
    ls_status status = check_begin(plan, event, FYET_MAPPING_START);
    fy_parser_event_free(plan->parser, event);
    return status ? status : read_mapping(plan, &(mapping){plan->set, false});
}

/* `repeat:` or `budget:`, one value. */
static ls_status read_figure(plan_reading *plan, plan_key key)
{
    struct fy_event *event;
    LS_TRY(next_event(plan, &event));
    char origin[ORIGIN_CAPACITY], why[256];
    const char *text;
    ls_status status = scalar_text(plan, event, &text, origin);
    if (!status && key == REPEAT && !ls_parse_integer(text, 1, LS_CASES_MOST, &plan->out->repeat)) {
        snprintf(why, sizeof why, "repeat: '%.80s' is not valid; a whole number from 1 to %d", text,
                 LS_CASES_MOST);
        status = refuse_at(plan, fy_event_start_mark(event), why);
    }
    if (!status && key == BUDGET &&
        (!ls_parse_duration(text, &plan->out->budget_ns) || plan->out->budget_ns < 1000000)) {
        snprintf(why, sizeof why, "budget: '%.80s' is not valid; a time: 30s, 2min", text);
        status = refuse_at(plan, fy_event_start_mark(event), why);
    }
    if (!status)
        snprintf(key == REPEAT ? plan->out->repeat_at : plan->out->budget_at, LS_PLAN_ORIGIN,
                 "%.200s", origin);
    fy_parser_event_free(plan->parser, event);
    return status;
}

static ls_status read_key(plan_reading *plan, plan_key key)
{
    switch (key) {
    case CASES:
        return read_parts(plan, &plan->out->cases);
    case EXCLUDE:
        return read_parts(plan, &plan->out->exclude);
    case DEFAULTS:
        return read_defaults(plan);
    default:
        return read_figure(plan, key);
    }
}

/* ---- The plan as a whole --------------------------------------------------------------------- */

static plan_key find_key(const char *text)
{
    plan_key key = 0;
    while (key < PLAN_KEYS && strcmp(text, key_names[key]) != 0)
        key++;
    return key;
}

/* One key of the plan itself; *end at its end. */
static ls_status read_top(plan_reading *plan, bool *end)
{
    struct fy_event *event;
    LS_TRY(next_event(plan, &event));
    *end = event->type == FYET_MAPPING_END;
    char origin[ORIGIN_CAPACITY], why[64];
    const char *text;
    plan_key key = PLAN_KEYS;
    const ls_option *option = NULL;
    ls_status status = *end ? LS_OK : scalar_text(plan, event, &text, origin);
    if (!*end && !status)
        key = find_key(text);
    if (key < PLAN_KEYS && plan->seen[key]) {
        snprintf(why, sizeof why, "%s: given twice; give it once", key_names[key]);
        status = refuse_at(plan, fy_event_start_mark(event), why);
    } else if (key < PLAN_KEYS) {
        plan->seen[key] = true;
    } else if (!*end && !status) {
        status = find_option(plan, event, text, origin, &option);
        if (!status && !plan->has_option)
            plan->option_at = *fy_event_start_mark(event);
        plan->has_option = true;
    }
    if (option && !status)
        status = begin_option(plan, &(mapping){plan->set, false}, option, origin);
    fy_parser_event_free(plan->parser, event);
    if (*end || status)
        return status;
    return option ? read_value(plan, &(mapping){plan->set, false}, option) : read_key(plan, key);
}

static ls_status read_document(plan_reading *plan)
{
    LS_TRY(expect_event(plan, FYET_STREAM_START, "this"));
    LS_TRY(expect_event(plan, FYET_DOCUMENT_START, "an empty file"));
    LS_TRY(expect_event(plan, FYET_MAPPING_START, "a document that is no mapping"));
    for (bool end = false; !end;)
        LS_TRY(read_top(plan, &end));
    LS_TRY(expect_event(plan, FYET_DOCUMENT_END, "this"));
    LS_TRY(expect_event(plan, FYET_STREAM_END, "a second document"));
    if (plan->has_option && (plan->seen[CASES] || plan->seen[DEFAULTS]))
        return refuse_at(plan, &plan->option_at,
                         "an option beside `cases:` or `defaults:`; under `defaults:` it is of all "
                         "cases");
    return LS_OK;
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

static void close_parts(ls_plan_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        ls_option_set_close(&parts->items[i].set);
    free(parts->items);
}

void ls_plan_file_close(ls_plan_file *plan)
{
    if (!plan)
        return;
    close_parts(&plan->cases);
    close_parts(&plan->exclude);
    free(plan);
}

ls_status ls_plan_read(const char *path, ls_option_set *set, ls_plan_file *out)
{
    char *text = NULL;
    size_t length = 0;
    LS_TRY(load_text(path, &text, &length));
    plan_reading plan = {.path = path, .set = set, .out = out};
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
