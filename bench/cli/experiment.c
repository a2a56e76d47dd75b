/* SPDX-License-Identifier: MIT */
/*
 * Experiment: see options.h. The parser's events are read one by one, so every refusal knows its
 * line and column, and refused input is never stored completely. Refused: anchors, aliases, tags,
 * anything nested more deeply than a plan.
 */
#include "bench/cli/options.h"

#include "bench/case/yaml_file.h"
#include "bench/cli/option_table.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <libfyaml.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLAN_MOST = 1 << 20, ORIGIN_CAPACITY = PATH_MAX + 32, SHORT_PATH = 200 };

/* Keys of a plan that are not options. */
typedef enum plan_key { CASES, DEFAULTS, EXCLUDE, REPEAT, BUDGET, PLAN_KEYS } plan_key;

static const char *const key_names[PLAN_KEYS] = {
    [CASES] = "cases",   [DEFAULTS] = "defaults", [EXCLUDE] = "exclude",
    [REPEAT] = "repeat", [BUDGET] = "budget",
};

/* `event` is the current one, and `origin` its position; the next event overwrites both. */
typedef struct plan_reading {
    ls_yaml_file file;
    struct fy_event *event;
    char origin[ORIGIN_CAPACITY];
    ls_option_set *set;   /* options of the command line, and of the plan for all cases */
    ls_option_set passed; /* options of the current mapping that the command line replaces */
    ls_experiment *out;
    bool seen[PLAN_KEYS];
    char option_at[ORIGIN_CAPACITY]; /* of the first option at the plan's top level */
} plan_reading;

/* A mapping of options that is currently read. */
typedef struct mapping {
    ls_option_set *set;
    /* CASES, EXCLUDE: per case; DEFAULTS: replaced silently; PLAN_KEYS: top level */
    plan_key of;
} mapping;

#define VALID     "write lines `option: value` or `option: [value, value]`, or cases below `cases:`"
#define NO_ALIAS  "a YAML alias (*NAME) is not allowed in a plan; write the value itself"
#define NO_ANCHOR "a YAML anchor (&NAME) or tag (!NAME) is not allowed in a plan; remove it"

static ls_status refuse_shape(const plan_reading *plan, const char *why)
{
    return ls_fail(LS_CODE_USAGE, "plan", plan->origin, "%s", why);
}

/* "plan.yaml:3:8", with the path's first `most` characters. */
static void write_position(const plan_reading *plan, int line, int column, int most, char *text,
                           size_t size)
{
    snprintf(text, size, "%.*s:%d:%d", most, plan->file.path, line + 1, column + 1);
}

/* Reads the next event. */
static ls_status advance(plan_reading *plan)
{
    fy_parser_event_free(plan->file.parser, plan->event);
    plan->event = fy_parser_parse(plan->file.parser);
    if (!plan->event || fy_parser_get_stream_error(plan->file.parser)) {
        LS_TRY(ls_yaml_syntax(&plan->file));
        return ls_yaml_refuse(&plan->file, "this line or the line before is not valid YAML");
    }
    const struct fy_mark *mark = fy_event_start_mark(plan->event);
    write_position(plan, mark ? mark->line : 0, mark ? mark->column : 0, PATH_MAX, plan->origin,
                   sizeof plan->origin);
    return LS_OK;
}

/* Reads the next event, which must have this type. */
static ls_status expect(plan_reading *plan, enum fy_event_type type, const char *instead)
{
    LS_TRY(advance(plan));
    return plan->event->type == type ? LS_OK : refuse_shape(plan, instead);
}

/* Text of the current scalar, borrowed from it. */
static ls_status scalar_text(const plan_reading *plan, const char **text)
{
    const struct fy_event *event = plan->event;
    if (event->type == FYET_ALIAS)
        return refuse_shape(plan, NO_ALIAS);
    if (event->type != FYET_SCALAR)
        return refuse_shape(plan, "a mapping or a nested list is not allowed here; write `option: "
                                  "value` or `option: [value, value]`");
    if (event->scalar.anchor || event->scalar.tag)
        return refuse_shape(plan, NO_ANCHOR);
    size_t length = 0;
    *text = event->scalar.value ? fy_token_get_text(event->scalar.value, &length) : "";
    if (*text && memchr(*text, 0, length))
        return refuse_shape(plan, "there is a zero byte here; save the file as UTF-8 text");
    *text = event->scalar.value ? fy_token_get_text0(event->scalar.value) : "";
    return *text ? LS_OK : ls_fail_memory("plan", length);
}

/* Checks that a list or mapping begins here. */
static ls_status check_begin(const plan_reading *plan, enum fy_event_type type)
{
    const struct fy_event *event = plan->event;
    if (event->type == FYET_ALIAS)
        return refuse_shape(plan, NO_ALIAS);
    if (event->type != type)
        return refuse_shape(plan, type == FYET_MAPPING_START
                                      ? "this must be a mapping; write lines `option: value`"
                                      : "this must be a list; write lines `- option: value`");
    if (type == FYET_MAPPING_START ? event->mapping_start.anchor || event->mapping_start.tag
                                   : event->sequence_start.anchor || event->sequence_start.tag)
        return refuse_shape(plan, NO_ANCHOR);
    return LS_OK;
}

/* Reads the value of an option, or the values of its list. */
static ls_status read_value(plan_reading *plan, const mapping *to, const ls_option *option)
{
    const char *text = NULL;
    LS_TRY(advance(plan));
    if (plan->event->type != FYET_SEQUENCE_START) {
        LS_TRY(scalar_text(plan, &text));
        return ls_option_set_split(to->set, option, text, plan->origin);
    }
    if (!option->sweeps)
        return refuse_shape(plan, "this option takes a single value, not a list; write `option: "
                                  "value`");
    LS_TRY(check_begin(plan, FYET_SEQUENCE_START));
    for (size_t items = 0;; items++) {
        LS_TRY(advance(plan));
        if (plan->event->type == FYET_SEQUENCE_END)
            return items ? LS_OK
                         : refuse_shape(plan, "this list is empty; give at least one value");
        LS_TRY(scalar_text(plan, &text));
        LS_TRY(ls_option_set_append(to->set, option, text, plan->origin));
    }
}

/* Reads the value of an option, and keeps the value of the command line's option `by`. */
static ls_status pass_over(plan_reading *plan, const mapping *to, const ls_option *option,
                           const char *by)
{
    ls_experiment *out = plan->out;
    LS_TRY(ls_option_set_begin(&plan->passed, option, plan->origin));
    if (to->of != DEFAULTS) {
        LS_TRY(ls_grow("plan", &out->replaced, out->replaced_count, sizeof *out->replaced));
        ls_experiment_replaced *one = &out->replaced[out->replaced_count++];
        *one = (ls_experiment_replaced){.option = option->name, .by = by};
        snprintf(one->origin, sizeof one->origin, "%.200s", plan->origin);
    }
    return read_value(plan, &(mapping){&plan->passed, to->of}, option);
}

static bool has_line(const plan_reading *plan, const char *name)
{
    const ls_option_given *line = ls_option_set_find(plan->set, name);
    return line->count && !line->values[0].origin;
}

/* The option of the command line that replaces this one: the same, or the one that may be given
 * instead; NULL if none does. */
static const char *replacement(const plan_reading *plan, const ls_option *option)
{
    if (has_line(plan, option->name))
        return option->name;
    return option->instead && has_line(plan, option->instead) ? option->instead : NULL;
}

/* Reads the option that is a key of the mapping, and its value. */
static ls_status read_option(plan_reading *plan, const mapping *to, const char *key)
{
    const ls_option *option;
    LS_TRY(ls_option_require(key, strlen(key), plan->set->command, plan->origin, &option));
    if (strcmp(option->name, "plan") == 0)
        return refuse_shape(plan, "a plan cannot name another plan; remove this line, and run that "
                                  "plan by a separate command");
    const ls_setting setting = {.option = option, .origin = plan->origin};
    if (strcmp(option->name, "dry-run") == 0 || strcmp(option->name, "resume") == 0)
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "cannot be used in a plan; give this option on the command line");
    if (to->of == EXCLUDE && !option->sweeps)
        return ls_setting_refuse(&setting, LS_CODE_USAGE,
                                 "applies to the whole command, so it cannot select cases; remove "
                                 "this option from `exclude:`");
    if (to->of == CASES && !option->sweeps)
        return ls_setting_refuse(
            &setting, LS_CODE_USAGE,
            "applies to the whole command, not to a single case; move this option to `defaults:`");
    const char *by = to->of != EXCLUDE ? replacement(plan, option) : NULL;
    if (by)
        return pass_over(plan, to, option, by);
    LS_TRY(ls_option_set_begin(to->set, option, plan->origin));
    return read_value(plan, to, option);
}

/* Reads the mapping of options that begins here. */
static ls_status read_mapping(plan_reading *plan, const mapping *to)
{
    const char *key = NULL;
    LS_TRY(check_begin(plan, FYET_MAPPING_START));
    ls_option_set_close(&plan->passed);
    LS_TRY(ls_option_set_open(plan->set->command, &plan->passed));
    for (;;) {
        LS_TRY(advance(plan));
        if (plan->event->type == FYET_MAPPING_END)
            return LS_OK;
        LS_TRY(scalar_text(plan, &key));
        LS_TRY(read_option(plan, to, key));
    }
}

/* ---- cases, defaults, exclude, repeat, budget ------------------------------------------------ */

/* Adds a mapping, which begins here. */
static ls_status add_part(plan_reading *plan, ls_experiment_parts *parts, ls_option_set **out)
{
    const struct fy_mark *mark = fy_event_start_mark(plan->event);
    if (parts->count == LS_CASES_MOST)
        return ls_fail(LS_CODE_USAGE, "plan", plan->origin,
                       "this list has more than %d mappings; use fewer, and give several values of "
                       "an option as a list in one mapping",
                       LS_CASES_MOST);
    LS_TRY(check_begin(plan, FYET_MAPPING_START));
    LS_TRY(ls_grow("plan", &parts->items, parts->count, sizeof *parts->items));
    ls_experiment_part *part = &parts->items[parts->count];
    LS_TRY(ls_option_set_open(plan->set->command, &part->set));
    parts->count++;
    write_position(plan, mark->line, mark->column, SHORT_PATH, part->origin, sizeof part->origin);
    *out = &part->set;
    return LS_OK;
}

/* Reads a list of mappings. */
static ls_status read_parts(plan_reading *plan, plan_key of)
{
    ls_experiment_parts *parts = of == CASES ? &plan->out->cases : &plan->out->exclude;
    ls_option_set *set = NULL;
    LS_TRY(check_begin(plan, FYET_SEQUENCE_START));
    for (;;) {
        LS_TRY(advance(plan));
        if (plan->event->type == FYET_SEQUENCE_END)
            return parts->count ? LS_OK
                                : refuse_shape(plan, "this list is empty; add a line `- option: "
                                                     "value`, or remove the key");
        LS_TRY(add_part(plan, parts, &set));
        LS_TRY(read_mapping(plan, &(mapping){set, of}));
    }
}

/* Reads the value of `repeat:` or `budget:`. */
static ls_status read_figure(plan_reading *plan, plan_key key)
{
    ls_experiment *out = plan->out;
    const char *text = NULL;
    LS_TRY(scalar_text(plan, &text));
    if (key == REPEAT && !ls_parse_integer(text, 1, LS_CASES_MOST, &out->repeat))
        return ls_fail(LS_CODE_USAGE, "plan", plan->origin,
                       "repeat: '%.80s' is not valid; give a whole number from 1 to %d", text,
                       LS_CASES_MOST);
    if (key == BUDGET && (!ls_parse_duration(text, &out->budget_ns) || out->budget_ns < 1000000))
        return ls_fail(LS_CODE_USAGE, "plan", plan->origin,
                       "budget: '%.80s' is not valid; give a time, such as 30s or 2min", text);
    snprintf(key == REPEAT ? out->repeat_at : out->budget_at, LS_EXPERIMENT_ORIGIN, "%.200s",
             plan->origin);
    return LS_OK;
}

/* Reads the value of a key that is not an option. */
static ls_status read_key(plan_reading *plan, plan_key key)
{
    if (plan->seen[key])
        return ls_fail(LS_CODE_USAGE, "plan", plan->origin,
                       "`%s:` is given twice; remove one of the two", key_names[key]);
    plan->seen[key] = true;
    LS_TRY(advance(plan));
    switch (key) {
    case CASES:
    case EXCLUDE:
        return read_parts(plan, key);
    case DEFAULTS: /* as if its options were at the top level */
        return read_mapping(plan, &(mapping){plan->set, DEFAULTS});
    default:
        return read_figure(plan, key);
    }
}

/* ---- The plan as a whole --------------------------------------------------------------------- */

static ls_status read_document(plan_reading *plan)
{
    const char *text = NULL;
    LS_TRY(expect(plan, FYET_STREAM_START, "this is not a plan; " VALID));
    LS_TRY(expect(plan, FYET_DOCUMENT_START, "the file is empty; " VALID));
    LS_TRY(expect(plan, FYET_MAPPING_START, "this is not a plan; " VALID));
    for (;;) {
        LS_TRY(advance(plan));
        if (plan->event->type == FYET_MAPPING_END)
            break;
        LS_TRY(scalar_text(plan, &text));
        plan_key key = 0;
        while (key < PLAN_KEYS && strcmp(text, key_names[key]) != 0)
            key++;
        if (key == PLAN_KEYS && !*plan->option_at)
            memcpy(plan->option_at, plan->origin, sizeof plan->option_at);
        LS_TRY(key < PLAN_KEYS ? read_key(plan, key)
                               : read_option(plan, &(mapping){plan->set, PLAN_KEYS}, text));
    }
    LS_TRY(expect(plan, FYET_DOCUMENT_END, "the plan must end here; remove what follows"));
    LS_TRY(expect(plan, FYET_STREAM_END, "the plan must end here; remove what follows"));
    if (*plan->option_at && (plan->seen[CASES] || plan->seen[DEFAULTS]))
        return ls_fail(LS_CODE_USAGE, "plan", plan->option_at, "%s",
                       "this option is neither in `cases:` nor in `defaults:`, so it would apply "
                       "to no case; move it to `defaults:`, where it applies to all cases");
    return LS_OK;
}

static void close_parts(ls_experiment_parts *parts)
{
    for (size_t i = 0; i < parts->count; i++)
        ls_option_set_close(&parts->items[i].set);
    free(parts->items);
}

void ls_experiment_close(ls_experiment *plan)
{
    if (!plan)
        return;
    close_parts(&plan->cases);
    close_parts(&plan->exclude);
    free(plan->replaced);
    free(plan);
}

ls_status ls_experiment_read(const char *path, ls_option_set *set, ls_experiment *out)
{
    plan_reading plan = {.set = set, .out = out};
    ls_status status = ls_option_set_open(set->command, &plan.passed);
    if (!status)
        status = ls_yaml_begin("plan", path, VALID, PLAN_MOST, &plan.file);
    if (!status)
        status = read_document(&plan);
    ls_option_set_close(&plan.passed);
    fy_parser_event_free(plan.file.parser, plan.event);
    ls_yaml_close(&plan.file);
    return status;
}
