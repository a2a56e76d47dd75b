/* SPDX-License-Identifier: MIT */
/*
 * What is said below a table. The ratio of two medians has the interval that the two have
 * together: half widths of their logarithms, added as independent errors are (in quadrature).
 */
#include "bench/output/table_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- The fastest ---------------------------------------------------------------------------- */

typedef struct timed {
    const json_t *row;
    double rate, low, high; /* samples per second, and the interval of that */
} timed;

static const char *text_at(const json_t *row, const char *group, const char *name)
{
    const char *text = json_string_value(json_object_get(json_object_get(row, group), name));
    return text ? text : "";
}

/* False where the row has no time to compare. */
static bool read_time(const json_t *row, timed *out)
{
    const json_t *time = json_object_get(row, "time"), *step = json_object_get(time, "step_ms");
    const json_t *interval = json_object_get(step, "ci95");
    const double median = json_number_value(json_object_get(step, "median"));
    const double low = json_number_value(json_array_get(interval, 0));
    const double high = json_number_value(json_array_get(interval, 1));
    *out = (timed){.row = row, .rate = json_number_value(json_object_get(time, "samples_per_s"))};
    if (ls_row_is_bad(row) || !(out->rate > 0 && median > 0 && low > 0 && high >= low))
        return false;
    out->low = out->rate * median / high;
    out->high = out->rate * median / low;
    return true;
}

static int by_rate(const void *a, const void *b)
{
    const double x = ((const timed *)a)->rate, y = ((const timed *)b)->rate;
    return (x < y) - (x > y);
}

/* What tells the case from the others: "mirrored 2 cpu batch 512". */
static void print_name(FILE *stream, const json_t *row, const json_t *fields)
{
    bool any = false;
    for (size_t i = 0; i < json_array_size(fields); i++) {
        char title[64], path[80], cell[LS_CELL_SIZE];
        const ls_column column =
            ls_case_column(json_string_value(json_array_get(fields, i)), title, path);
        ls_cell_write(&column, row, cell);
        const bool plain = strcmp(title, "strategy") == 0 || strcmp(title, "devices") == 0;
        if (!*cell || strcmp(title, "model") == 0 || strcmp(title, "data") == 0)
            continue;
        fprintf(stream, "%s%s%s%s", any ? " " : "", plain ? "" : title, plain ? "" : " ", cell);
        any = true;
    }
}

/* Cases [count], the fastest first. */
static void print_rank(FILE *stream, const timed *cases, size_t count, const json_t *fields)
{
    const timed *best = &cases[0], *next = &cases[1];
    size_t near = 1;
    print_name(stream, best->row, fields);
    while (near < count && cases[near].high >= best->low)
        near++;
    if (near > 1) {
        fputs("; within the noise of it: ", stream);
        for (size_t i = 1; i < near; i++) {
            fputs(i > 1 ? ", " : "", stream);
            print_name(stream, cases[i].row, fields);
        }
        return;
    }
    const double ratio = best->rate / next->rate;
    const double half = hypot(log(best->high / best->low) / 2, log(next->high / next->low) / 2);
    fprintf(stream, ", %.2f times as fast as the next (%.2f to %.2f), ", ratio, ratio * exp(-half),
            ratio * exp(half));
    print_name(stream, next->row, fields);
}

/* How many cases these fields tell apart. */
static size_t count_names(const timed *cases, size_t count, const json_t *fields)
{
    json_t *names = json_object();
    for (size_t i = 0; i < count; i++) {
        char *name = NULL;
        size_t size;
        FILE *stream = open_memstream(&name, &size);
        if (!stream)
            continue;
        print_name(stream, cases[i].row, fields);
        if (fclose(stream) == 0)
            json_object_set_new_nocheck(names, name, json_true());
        free(name);
    }
    const size_t found = json_object_size(names);
    json_decref(names);
    return found;
}

/* Options in which these cases differ, but for those that say nothing which the ones before have
 * not said. */
static json_t *differing(const timed *cases, size_t count)
{
    json_t *groups = json_array(), *fields, *differ = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append(groups, json_object_get(cases[i].row, "case"));
    fields = ls_case_fields(groups);
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *name = json_string_value(json_array_get(fields, i));
        const size_t before = count_names(cases, count, differ);
        if (!ls_case_differs(groups, name))
            continue;
        json_array_append(differ, json_array_get(fields, i));
        if (count_names(cases, count, differ) == before && strcmp(name, "devices") != 0)
            json_array_remove(differ, json_array_size(differ) - 1);
    }
    json_decref(fields);
    json_decref(groups);
    return differ;
}

/* Of the cases with the model and data of `like`. */
static void rank_like(ls_writer *writer, const json_t *rows, const json_t *like, bool only)
{
    timed *cases = calloc(json_array_size(rows) + 1, sizeof *cases);
    size_t count = 0;
    char *text = NULL;
    size_t size;
    for (size_t i = 0; cases && i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (strcmp(text_at(row, "case", "model"), text_at(like, "case", "model")) == 0 &&
            strcmp(text_at(row, "case", "data"), text_at(like, "case", "data")) == 0)
            count += read_time(row, &cases[count]);
    }
    FILE *stream = count > 1 ? open_memstream(&text, &size) : NULL;
    if (stream) {
        qsort(cases, count, sizeof *cases, by_rate);
        json_t *fields = differing(cases, count);
        fprintf(stream, "fastest%s%s: ", only ? "" : " of ",
                only ? "" : text_at(like, "case", "model"));
        print_rank(stream, cases, count, fields);
        json_decref(fields);
        if (fclose(stream) == 0)
            ls_text_wrap(writer->stream, text, 0, 0, writer->width);
        free(text);
    }
    free(cases);
}

void ls_table_rank(ls_writer *writer, const json_t *rows)
{
    json_t *seen = json_object();
    for (int pass = 0; pass < 2; pass++) /* how many there are; then each */
        for (size_t i = 0; i < json_array_size(rows); i++) {
            const json_t *row = json_array_get(rows, i);
            char key[1024];
            snprintf(key, sizeof key, "%s|%s", text_at(row, "case", "model"),
                     text_at(row, "case", "data"));
            const json_int_t done = json_integer_value(json_object_get(seen, key));
            if (done > pass)
                continue;
            json_object_set_new_nocheck(seen, key, json_integer(pass + 1));
            if (pass)
                rank_like(writer, rows, row, json_object_size(seen) == 1);
        }
    json_decref(seen);
}

/* ---- What was compared ---------------------------------------------------------------------- */

/* With what, of a row that passes. */
static void print_compared(FILE *stream, const json_t *row)
{
    const json_t *gate = json_object_get(row, "equivalence");
    const char *grade = text_at(row, "equivalence", "grade");
    const json_int_t steps = json_integer_value(json_object_get(gate, "steps"));
    if (strcmp(grade, "none") == 0) {
        fputs(text_at(row, "equivalence", "oracle"), stream); /* begins with "not compared" */
        return;
    }
    fprintf(stream, "%s: after each of %lld steps ", grade, (long long)steps);
    if (strcmp(text_at(row, "case", "strategy"), "single") == 0)
        fputs("the bits of a second, fresh run", stream);
    else if (strcmp(grade, "exact") == 0)
        fputs("the bits of single --reduce exact", stream);
    else if (json_object_get(gate, "library_rel"))
        fputs("the reduced gradient is that of the slices, summed in float64 (at most 1e-5 apart), "
              "and the update has the bits that single's optimizer makes of it",
              stream);
    else
        fputs("the bits of an oracle that computes each replica's slice by itself, on one device, "
              "and sums in this strategy's order",
              stream);
    if (json_object_get(gate, "gradient_rel"))
        fprintf(stream,
                "; gradient: how far the first one is from single's of the whole batch "
                "(at most %g)",
                json_number_value(json_object_get(gate, "bound")));
}

/* Sentences and, with each, the strategies of which it is true. */
static json_t *list_sentences(const json_t *rows)
{
    json_t *sentences = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        char *text = NULL;
        size_t size;
        FILE *stream = json_object_get(row, "equivalence") && !ls_row_is_bad(row)
                           ? open_memstream(&text, &size)
                           : NULL;
        if (!stream)
            continue;
        print_compared(stream, row);
        if (fclose(stream) == 0) {
            json_t *names = json_object_get(sentences, text);
            if (!names)
                json_object_set_new(sentences, text, names = json_object());
            json_object_set_new(names, text_at(row, "case", "strategy"), json_true());
        }
        free(text);
    }
    return sentences;
}

static void print_sentence(ls_writer *writer, const char *sentence, json_t *names)
{
    char *text = NULL;
    const char *name;
    size_t size, count = 0;
    json_t *value;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return;
    json_object_foreach(names, name, value)
    {
        fprintf(stream, "%s%s", count++ ? ", " : "", name);
    }
    fprintf(stream, ", %s", sentence);
    if (fclose(stream) == 0)
        ls_text_wrap(writer->stream, text, 0, 0, writer->width);
    free(text);
}

void ls_table_compare(ls_writer *writer, const json_t *rows)
{
    json_t *sentences = list_sentences(rows), *names;
    const char *sentence;
    bool drifts = false;
    json_object_foreach(sentences, sentence, names)
    {
        print_sentence(writer, sentence, names);
    }
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *drift = ls_row_find(json_array_get(rows, i), "equivalence.max_rel");
        drifts |= json_number_value(drift) > 0;
        json_decref(drift);
    }
    if (drifts)
        ls_text_wrap(writer->stream,
                     "drift: how far the parameters came from those of single; it judges nothing, "
                     "for sums in two correct orders drift apart",
                     0, 0, writer->width);
    json_decref(sentences);
}
