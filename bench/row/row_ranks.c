/* SPDX-License-Identifier: MIT */
/* Joins the rows of several ranks into one; see row.h. */
#include "bench/output/format_parts.h"
#include "bench/row/row.h"
#include "bench/train/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields per device: lists of all ranks are concatenated. */
static const char *const of_devices[][2] = {
    {"case", "devices"},     {"case", "batch_per_device"},
    {"memory", "devices"},   {"provenance", "cores_per_device"},
    {"provenance", "cores"}, {"provenance", "gpus"}};

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

/* The maximum over all ranks, or their sum. */
static void join_memory(const json_t *rows, int ranks)
{
    json_t *memory = json_object_get(row_at(rows, 0), "memory");
    json_int_t most = 0;
    double growth = 0;
    for (int r = 0; r < ranks; r++) {
        json_int_t rss = json_integer_value(group_of(row_at(rows, r), "memory", "rss_peak"));
        most = rss > most ? rss : most;
        growth += json_number_value(group_of(row_at(rows, r), "memory", "growth_per_step"));
    }
    if (json_object_get(memory, "rss_peak"))
        json_object_set_new(memory, "rss_peak", json_integer(most));
    if (json_object_get(memory, "growth_per_step"))
        json_object_set_new(memory, "growth_per_step", json_real(growth));
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

static void join_environment(const json_t *rows, int ranks, json_t *provenance)
{
    json_auto_t *groups = json_array(), *all = json_array(), *joined = json_object();
    const char *name;
    json_t *value;
    for (int r = 0; r < ranks; r++) {
        json_array_append(all, json_object_get(row_at(rows, r), "provenance"));
        json_t *one = group_of(row_at(rows, r), "provenance", "environment");
        json_array_append_new(groups, one ? json_incref(one) : json_object());
    }
    for (int r = 0; r < ranks; r++)
        json_object_foreach(json_array_get(groups, (size_t)r), name, value)
        {
            if (!json_object_get(joined, name))
                join_named(joined, groups, name);
        }
    if (json_object_size(joined))
        json_object_set(provenance, "environment", joined);
    join_named(provenance, all, "loops_isa");
    join_named(provenance, all, "library_isa");
}

static void join(const json_t *rows, int ranks)
{
    json_t *provenance = json_object_get(row_at(rows, 0), "provenance");
    const bool shared = ranks_share(rows, ranks, "provenance.cores");
    const bool crowded =
        shared || any_crowded(rows, ranks) || ranks_share(rows, ranks, "provenance.gpus.pci");
    json_t *list = list_ranks(rows, ranks);
    join_memory(rows, ranks);
    ls_row_join_noise(rows, ranks, shared);
    for (size_t i = 0; i < sizeof of_devices / sizeof *of_devices; i++) {
        json_t *all = json_array();
        for (int r = 0; r < ranks; r++)
            json_array_extend(all, group_of(row_at(rows, r), of_devices[i][0], of_devices[i][1]));
        json_t *group = json_object_get(row_at(rows, 0), of_devices[i][0]);
        if (group && (json_array_size(all) || json_object_get(group, of_devices[i][1])))
            json_object_set(group, of_devices[i][1], all);
        json_decref(all);
    }
    for (int r = 1; r < ranks; r++)
        for (int i = 0; i < 2; i++) {
            const char *load = i ? "server_load" : "device_load";
            json_array_extend(json_object_get(row_at(rows, 0), load),
                              json_object_get(row_at(rows, r), load));
        }
    join_environment(rows, ranks, provenance);
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
