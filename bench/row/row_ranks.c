/* SPDX-License-Identifier: MIT */
/* Joins the rows of several ranks into one; see row.h. */
#include "bench/output/format_parts.h"
#include "bench/output/value_order.h"
#include "bench/row/row.h"
#include "bench/train/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *group_of(json_t *row, const char *group, const char *name)
{
    return json_object_get(json_object_get(row, group), name);
}

static json_t *row_at(const json_t *rows, int rank)
{
    return json_array_get(rows, (size_t)rank);
}

/* Whether two values, or (nested) lists, have an element in common. */
static bool share(const json_t *a, const json_t *b)
{
    const json_t *list = json_is_array(a) ? a : b, *other = list == a ? b : a;
    if (!json_is_array(list))
        return json_equal(a, b);
    for (size_t i = 0; i < json_array_size(list); i++)
        if (share(json_array_get(list, i), other))
            return true;
    return false;
}

/* Whether a field of two rows has an element in common. */
static bool share_field(const json_t *a, const json_t *b, const char *path)
{
    json_t *x = ls_row_find(a, path), *y = ls_row_find(b, path);
    const bool shared = x && y && share(x, y);
    json_decref(x);
    json_decref(y);
    return shared;
}

/* Whether ranks on one host share a core, or a GPU, by that field. */
static bool ranks_share(const json_t *rows, int ranks, const char *path)
{
    for (int a = 0; a < ranks; a++)
        for (int b = 0; b < a; b++)
            if (share_field(row_at(rows, a), row_at(rows, b), "host") &&
                share_field(row_at(rows, a), row_at(rows, b), path))
                return true;
    return false;
}

static bool any_crowded(const json_t *rows, int ranks)
{
    for (int r = 0; r < ranks; r++)
        if (json_is_true(group_of(row_at(rows, r), "provenance", "oversubscribed")))
            return true;
    return false;
}

static json_t *list_ranks(const json_t *rows, int ranks)
{
    json_t *list = json_array();
    for (int r = 0; r < ranks; r++) {
        json_t *rank = json_object();
        json_object_set(rank, "host", group_of(row_at(rows, r), "provenance", "host"));
        json_object_set(rank, "cores", group_of(row_at(rows, r), "provenance", "cores"));
        json_array_append_new(list, rank);
    }
    return list;
}

/* ---- What ranks should have in common, and may not ------------------------------------------- */

/* "ranks 0+2", and in runs: "ranks 0-3"; those whose text is the one of rank `first`. */
static void print_ranks(FILE *stream, const json_t *texts, size_t first)
{
    const size_t count = json_array_size(texts);
    const json_t *text = json_array_get(texts, first);
    const char *before = "ranks ";
    for (size_t r = first, last; r < count; r = last + 1, before = "+") {
        while (r < count && !json_equal(json_array_get(texts, r), text))
            r++;
        for (last = r; last + 1 < count && json_equal(json_array_get(texts, last + 1), text);)
            last++;
        if (r < count)
            fprintf(stream, r < last ? "%s%zu-%zu" : "%s%zu", before, r, last);
    }
}

/* The text of all ranks; of different ones each, with its ranks: "1 (ranks 0-2), unset (ranks 3)".
 * `texts` has null for a rank without one. NULL: none has, or no memory. */
static json_t *join_texts(const json_t *texts)
{
    char *joined = NULL;
    size_t size, distinct = 0;
    FILE *stream = open_memstream(&joined, &size);
    for (size_t r = 0, earlier; stream && r < json_array_size(texts); r++) {
        const json_t *text = json_array_get(texts, r);
        for (earlier = 0; !json_equal(json_array_get(texts, earlier), text);)
            earlier++;
        if (earlier < r)
            continue;
        fprintf(stream, "%s%s (", distinct++ ? ", " : "",
                json_is_null(text) ? "unset" : json_string_value(text));
        print_ranks(stream, texts, r);
        fputc(')', stream);
    }
    const bool whole = stream && fclose(stream) == 0;
    json_t *first = json_array_get(texts, 0);
    json_t *out = !whole ? NULL : distinct > 1 ? json_string(joined) : json_incref(first);
    free(joined);
    return json_is_null(out) ? NULL : out;
}

/* Sets group[name] to what the ranks' groups say. */
static void join_named(json_t *group, const json_t *groups, const char *name)
{
    json_auto_t *texts = json_array();
    for (size_t r = 0; r < json_array_size(groups); r++) {
        json_t *text = json_object_get(json_array_get(groups, r), name);
        json_array_append_new(texts, text ? json_incref(text) : json_null());
    }
    json_t *joined = join_texts(texts);
    if (joined)
        json_object_set_new(group, name, joined);
}

/* Joins maps of texts, name by name (join_texts). NULL if no rank has any. */
static json_t *join_maps(const json_t *maps)
{
    json_t *joined = json_object(), *value;
    const char *name;
    for (size_t r = 0; r < json_array_size(maps); r++)
        json_object_foreach(json_array_get(maps, r), name, value)
        {
            if (!json_object_get(joined, name))
                join_named(joined, maps, name);
        }
    if (json_object_size(joined))
        return joined;
    json_decref(joined);
    return NULL;
}

/* ---- By the table of fields ----------------------------------------------------------------- */

/* The lists of all ranks as one. */
static json_t *concatenate(const json_t *lists)
{
    json_t *all = json_array();
    bool any = false;
    for (size_t r = 0; r < json_array_size(lists); r++) {
        any |= json_is_array(json_array_get(lists, r));
        json_array_extend(all, json_array_get(lists, r));
    }
    if (any)
        return all;
    json_decref(all);
    return NULL;
}

static json_t *largest(const json_t *values)
{
    const json_t *most = NULL;
    for (size_t r = 0; r < json_array_size(values); r++) {
        const json_t *one = json_array_get(values, r);
        if (json_is_number(one) && (!most || ls_number_order(one, most) > 0))
            most = one;
    }
    return json_incref((json_t *)(size_t)most);
}

static json_t *sum_of(const json_t *values)
{
    double sum = 0;
    for (size_t r = 0; r < json_array_size(values); r++)
        sum += json_number_value(json_array_get(values, r));
    return json_is_number(json_array_get(values, 0)) ? json_real(sum) : NULL;
}

/* Joins the field's values of all ranks into rank 0's row. */
static void join_field(const json_t *rows, int ranks, const char *path, ls_join how)
{
    json_t *joined = NULL;
    if (how == LS_JOIN_FIRST)
        return;
    json_auto_t *values = json_array(); /* of each rank; null where it has none */
    for (int r = 0; r < ranks; r++) {
        json_t *value = ls_row_find(row_at(rows, r), path);
        json_array_append_new(values, value ? value : json_null());
    }
    switch (how) {
    case LS_JOIN_CONCAT:
        joined = concatenate(values);
        break;
    case LS_JOIN_MAX:
        joined = largest(values);
        break;
    case LS_JOIN_SUM:
        joined = sum_of(values);
        break;
    default:
        joined = ls_field_find(path)->type == LS_TYPE_MAP ? join_maps(values) : join_texts(values);
    }
    if (joined)
        ls_row_put(row_at(rows, 0), path, joined);
}

void ls_row_join_fields(const json_t *rows, int ranks)
{
    for (size_t i = 0; i < LS_FIELDS; i++)
        join_field(rows, ranks, ls_fields[i].path, ls_fields[i].join);
    for (size_t i = 0; i < ls_field_group_count; i++)
        join_field(rows, ranks, ls_field_groups[i].path, ls_field_groups[i].join);
}

static void join(const json_t *rows, int ranks)
{
    json_t *provenance = json_object_get(row_at(rows, 0), "provenance");
    const bool shared = ranks_share(rows, ranks, "provenance.cores");
    const bool crowded =
        shared || any_crowded(rows, ranks) || ranks_share(rows, ranks, "provenance.gpus.pci");
    json_t *list = list_ranks(rows, ranks);
    ls_row_join_noise(rows, ranks, shared);
    ls_row_join_fields(rows, ranks);
    json_object_set_new(provenance, "oversubscribed", json_boolean(crowded));
    json_object_set_new(provenance, "ranks", list);
}

ls_status ls_row_join(const ls_processes *processes, json_t *row)
{
    json_t *rows;
    if (row)
        json_object_set_new(row, "host", json_integer(processes->host));
    ls_status status = ls_world_gather_json(processes->comm, row, &rows);
    if (!status && processes->rank == 0 && json_array_set(rows, 0, row) == 0)
        join(rows, processes->size);
    json_object_del(row, "host");
    json_decref(rows);
    return status;
}
