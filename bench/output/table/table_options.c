/* SPDX-License-Identifier: MIT */
/* Which options cases share and in which they differ; see table_parts.h. */
#include "bench/output/table/table_parts.h"

#include "bench/output/value_order.h"
#include "common/base/digest.h"
#include "common/base/escape.h"

#include <string.h>

/* These first, in this order; then the others in order of appearance. */
static const char *const first[] = {"model",     "data",   "strategy", "devices", "batch_global",
                                    "steps",     "epochs", "reduce",   "link",    "inject",
                                    "optimizer", "lr",     "seed",     "warmup",  "micro_shards",
                                    "blocks",    "ranks",  "scaling",  "comm",    NULL};

/* These last: by default (auto) they follow from the others. */
static const char *const last[] = {"micro_splits", "model_parallel_place", "allreduce",
                                   "bucket_bytes", NULL};

enum { LOOKED_BACK = 64 };

/* Derived from the options. */
static const char *const derived[] = {"batch_per_device",
                                      "devices_asked",
                                      "hosts",
                                      "overlap",
                                      "parameters",
                                      "model_text",
                                      "variable_device_asked",
                                      "period",
                                      "steps_asked",
                                      "until_precision",
                                      NULL};

bool ls_case_follows(const char *field)
{
    return ls_name_is_among(field, last);
}

json_t *ls_case_fields(const json_t *groups)
{
    json_t *all = json_object(), *list = json_array(), *value;
    const char *name;
    for (size_t i = 0; i < json_array_size(groups); i++)
        json_object_update_missing(all, json_array_get(groups, i));
    for (size_t i = 0; first[i]; i++)
        if (json_object_get(all, first[i]))
            json_array_append_new(list, json_string(first[i]));
    json_object_foreach(all, name, value)
    {
        if (!ls_name_is_among(name, first) && !ls_name_is_among(name, last) &&
            !ls_name_is_among(name, derived))
            json_array_append_new(list, json_string(name));
    }
    for (size_t i = 0; last[i]; i++)
        if (json_object_get(all, last[i]))
            json_array_append_new(list, json_string(last[i]));
    json_decref(all);
    return list;
}

/* Whether one of two groups with the same key has the field and the other does not. */
static bool is_left_out(const json_t *groups, const char *field)
{
    static const char *const keys[] = {"model", "data", "strategy", "reduce"};
    enum { HAS = 1, LACKS = 2 };
    json_auto_t *seen = json_object();
    bool found = false;
    for (size_t i = 0; i < json_array_size(groups) && !found; i++) {
        const json_t *group = json_array_get(groups, i);
        uint64_t hash = 0;
        char key[24];
        for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
            const char *text = json_string_value(json_object_get(group, keys[k]));
            hash = 31 * hash + (text ? ls_hash64(text, strlen(text)) : 0);
        }
        snprintf(key, sizeof key, "%llx", (unsigned long long)hash);
        const json_int_t now = json_object_get(group, field) ? HAS : LACKS,
                         was = json_integer_value(json_object_get(seen, key));
        found = was && was != now;
        if (!was)
            json_object_set_new_nocheck(seen, key, json_integer(now));
    }
    return found;
}

/* Whether two groups have one path of a model's file, and two texts. */
static bool has_other_text(const json_t *groups)
{
    json_auto_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *group = json_array_get(groups, i);
        const char *model = json_string_value(json_object_get(group, "model"));
        json_t *now = json_object_get(group, "model_digest"), *was;
        if (!model || !now)
            continue;
        was = json_object_get(seen, model);
        if (was && !ls_value_equal(was, now))
            return true;
        json_object_set_nocheck(seen, model, now);
    }
    return false;
}

bool ls_case_differs(const json_t *groups, const char *field)
{
    if (strcmp(field, "model_digest") == 0)
        return has_other_text(groups);
    const json_t *value = NULL;
    size_t having = 0;
    for (size_t i = 0; i < json_array_size(groups); i++) {
        const json_t *here = json_object_get(json_array_get(groups, i), field);
        if (!here)
            continue;
        if (value && !ls_value_equal(value, here))
            return true;
        value = here;
        having++;
    }
    return having && having < json_array_size(groups) && is_left_out(groups, field);
}

/* "batch" of batch_global, "ps-mode" of ps_mode. */
static const char *write_title(const char *field, char text[64])
{
    ls_escape_copy(text, 64, strcmp(field, "batch_global") == 0 ? "batch" : field, LS_ESCAPE_LINE);
    for (char *c = text; *c; c++)
        if (*c == '_')
            *c = '-';
    return text;
}

ls_column ls_case_column(const char *field, char title[64], char path[80])
{
    const bool devices = strcmp(field, "devices") == 0;
    const bool may_be_none = strcmp(field, "link") == 0 || strcmp(field, "inject") == 0;
    snprintf(path, 80, "case.%s", field);
    return (ls_column){write_title(field, title),
                       path,
                       devices ? 20 : LS_WIDTH_ANY,
                       false,
                       devices                           ? LS_CELL_DEVICES
                       : may_be_none                     ? LS_CELL_OR_NONE
                       : strcmp(field, "optimizer") == 0 ? LS_CELL_TELLING
                                                         : LS_CELL_TEXT,
                       0};
}

/* Whether it equals one of the last: lists have many rows of few cases, which share groups. */
static bool is_known(const json_t *groups, const json_t *group)
{
    const size_t count = json_array_size(groups);
    for (size_t i = count > LOOKED_BACK ? count - LOOKED_BACK : 0; i < count; i++)
        if (json_array_get(groups, i) == group)
            return true;
    return false;
}

json_t *ls_case_groups(const json_t *rows)
{
    json_t *groups = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *group = json_object_get(json_array_get(rows, i), "case");
        if (group && !is_known(groups, group))
            json_array_append(groups, group);
    }
    return groups;
}
