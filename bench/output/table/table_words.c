/* SPDX-License-Identifier: MIT */
/* The lines below a table; see table_parts.h. */
#include "bench/output/table/table_parts.h"

#include "bench/output/table/ranking.h"
#include "bench/output/row_same.h"

#include "impl/strategies.h"

#include <stdlib.h>
#include <string.h>

/* ---- The fastest ---------------------------------------------------------------------------- */

/* Lists the rows that have a time to compare in `out` [as many as rows]; returns how many. A case
 * that all groups have, since it is their baseline, stands for itself once. */
static size_t read_times(const json_t *rows, ls_rank_by by, ls_ranked *out)
{
    size_t count = 0;
    json_auto_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (ls_row_is_bad(row) || !(ls_row_number(row, "time.samples_per_s") > 0))
            continue;
        char *key = by == LS_RANK_SPEEDUP ? ls_row_identity(row, LS_BUT_TRAINED, 0) : NULL;
        const bool again = key && json_object_get(seen, key);
        if (key)
            json_object_set_new_nocheck(seen, key, json_true());
        free(key);
        if (again)
            continue;
        out[count].row = row;
        out[count].noisy = ls_row_is_noisy(row);
        out[count].known = ls_rank_rate(row, by, &out[count].rate);
        count++;
    }
    return count;
}

/* The options that distinguish the case: "mirrored 2 cpu batch 512". */
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

static void print_case(FILE *stream, const ls_ranked *one, const json_t *fields)
{
    print_name(stream, one->row, fields);
    fputs(one->noisy ? " (noisy)" : "", stream);
}

static void print_names(FILE *stream, const ls_ranked *cases, size_t count, const json_t *fields)
{
    for (size_t i = 0; i < count; i++) {
        fputs(i > 0 ? ", " : "", stream);
        print_case(stream, &cases[i], fields);
    }
}

/* Cases [count > 1], fastest first. */
static void print_rank(FILE *stream, const ls_ranked *cases, size_t count, const json_t *fields)
{
    const ls_ranked *best = &cases[0], *next = &cases[1];
    const size_t near = ls_rank_near(cases, count);
    print_case(stream, best, fields);
    if (near > 1) {
        fputs("; within the noise of it: ", stream);
        print_names(stream, cases + 1, near - 1, fields);
        return;
    }
    const ls_interval ratio = ls_statistics_ratio(best->rate, next->rate);
    fprintf(stream, ", %.2f times as fast as the next (%.2f to %.2f), ", ratio.value, ratio.low,
            ratio.high);
    print_case(stream, next, fields);
}

/* Strategies that are not meant to be equal to `single`, with their rate over the fastest's. */
static void print_unequal(FILE *stream, const ls_ranked *cases, size_t count, double fastest,
                          const json_t *fields)
{
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : "; not meant to be equal to single, so not ranked: ", stream);
        print_case(stream, &cases[i], fields);
        fprintf(stream, " (%.2f times as fast)", cases[i].rate.value / fastest);
    }
}

/* {name: [indices]}: the cases by what these fields distinguish. */
static json_t *group_names(const ls_ranked *cases, size_t count, const json_t *fields)
{
    json_t *names = json_object();
    for (size_t i = 0; i < count; i++) {
        char *name = NULL;
        size_t size;
        FILE *stream = open_memstream(&name, &size);
        if (!stream)
            continue;
        print_name(stream, cases[i].row, fields);
        if (fclose(stream) == 0 && !json_object_get(names, name))
            json_object_set_new_nocheck(names, name, json_array());
        json_array_append_new(json_object_get(names, name), json_integer((json_int_t)i));
        free(name);
    }
    return names;
}

static size_t count_names(const ls_ranked *cases, size_t count, const json_t *fields)
{
    json_auto_t *names = group_names(cases, count, fields);
    return json_object_size(names);
}

/* Makes one of the repeats of each case, in place, by the median of their rates and the range of
 * all, as a report does. Returns how many are left. */
static size_t fold(ls_ranked *cases, size_t count, const json_t *fields)
{
    json_auto_t *names = group_names(cases, count, fields);
    double *rates = calloc(count + 1, sizeof *rates);
    size_t used = 0; /* no later name has a case before that */
    const char *name;
    json_t *indices;
    json_object_foreach(names, name, indices)
    {
        const size_t repeats = json_array_size(indices);
        ls_ranked one = cases[json_integer_value(json_array_get(indices, 0))];
        (void)name;
        for (size_t i = 0; rates && i < repeats; i++) {
            const ls_ranked *each = &cases[json_integer_value(json_array_get(indices, i))];
            rates[i] = each->rate.value;
            one.noisy |= each->noisy;
        }
        if (rates && repeats > 1) {
            one.rate = ls_statistics_repeats(rates, repeats);
            one.known = true;
        }
        cases[used++] = one;
    }
    free(rates);
    return used;
}

/* Whether cases may differ in the field for no reason of their own: `steps` that were trained where
 * others were asked for, and what follows from other options. */
static bool is_outcome(const json_t *groups, const char *name)
{
    bool other = false;
    for (size_t i = 0; i < json_array_size(groups) && strcmp(name, "steps") == 0; i++)
        other = other || json_object_get(json_array_get(groups, i), "steps_asked");
    return other || ls_case_follows(name);
}

/* Options in which these cases differ, without outcomes that distinguish no more cases than the
 * options before. */
static json_t *differing(const ls_ranked *cases, size_t count)
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
        if (is_outcome(groups, name) && count_names(cases, count, differ) == before)
            json_array_remove(differ, json_array_size(differ) - 1);
    }
    json_decref(fields);
    json_decref(groups);
    return differ;
}

/* Names the environment of a pool by what differs between all, and its group if it is of one: " of
 * mlp, batch 256, 2 cpu, group 2 of 3". */
static void print_environment(FILE *stream, const json_t *pool, const json_t *groups)
{
    const json_t *row = json_array_get(json_object_get(pool, "rows"), 0);
    const json_int_t group = json_integer_value(json_object_get(pool, "group"));
    const char *before = " of ";
    for (size_t i = 0; ls_rank_environment[i]; i++) {
        char title[64], path[80], cell[LS_CELL_SIZE];
        const ls_column column = ls_case_column(ls_rank_environment[i], title, path);
        ls_cell_write(&column, row, cell);
        if (!ls_case_differs(groups, ls_rank_environment[i]))
            continue;
        const bool named = strcmp(title, "batch") == 0 || strcmp(title, "link") == 0;
        fprintf(stream, "%s%s%s%s", before, named ? title : "", named ? " " : "",
                *cell ? cell : "none");
        before = ", ";
    }
    if (group)
        fprintf(stream, "%sgroup %lld of %.0f", before, (long long)group,
                ls_row_number(row, "time.groups"));
}

static const char *const by_words[] = {
    [LS_RANK_MEDIAN] = ": ",
    [LS_RANK_MEAN] = " by samples trained / time: ",
    [LS_RANK_SPEEDUP] = " by speed-up over single in each group's own turns: ",
};

/* The line of a pool, owned by the caller (free); NULL where fewer than two have a time. */
static char *rank_pool(const json_t *pool, const json_t *groups)
{
    const json_t *rows = json_object_get(pool, "rows");
    const ls_rank_by by = (ls_rank_by)json_integer_value(json_object_get(pool, "by"));
    ls_ranked *cases = calloc(json_array_size(rows) + 1, sizeof *cases);
    size_t count = cases ? read_times(rows, by, cases) : 0, size, others = 0;
    char *text = NULL;
    FILE *stream = count > 1 ? open_memstream(&text, &size) : NULL;
    if (stream) {
        json_auto_t *fields = differing(cases, count);
        count = fold(cases, count, fields);
        const size_t ranked = ls_rank_sort(cases, count, &others), known = ranked + others;
        const bool alike = count < 2; /* one case, timed twice */
        fputs("fastest", stream);
        print_environment(stream, pool, groups);
        fputs(by_words[by], stream);
        if (ranked > 1)
            print_rank(stream, cases, ranked, fields);
        else if (known > 1)
            print_case(stream, cases, fields);
        else
            fputs("cannot be told", stream);
        if (known > 1)
            print_unequal(stream, cases + ranked, others, cases->rate.value, fields);
        if (known < count) {
            fputs("; without an interval, so not ranked: ", stream);
            print_names(stream, cases + known, count - known, fields);
        }
        if (fclose(stream) != 0 || alike) {
            free(text);
            text = NULL;
        }
    }
    free(cases);
    return text;
}

json_t *ls_rank_lines(const json_t *rows)
{
    json_auto_t *pools = ls_rank_pools(rows), *groups = ls_case_groups(rows);
    json_t *lines = json_array();
    bool apart = false, mean = false;
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        char *text = rank_pool(pool, groups);
        apart |= json_is_true(json_object_get(pool, "apart"));
        mean |= json_integer_value(json_object_get(pool, "by")) == LS_RANK_MEAN;
        if (text)
            json_array_append_new(lines, json_string(text));
        free(text);
    }
    if (apart)
        json_array_append_new(
            lines,
            json_sprintf("groups ran one after the other, so that the machine may have changed "
                         "between them; %s",
                         mean ? "fewer cases in a command are one group"
                              : "--baseline yes compares them by speed-up"));
    return lines;
}

void ls_table_rank(ls_writer *writer, const json_t *rows)
{
    json_auto_t *lines = ls_rank_lines(rows);
    for (size_t i = 0; i < json_array_size(lines); i++)
        ls_text_wrap(writer->stream, json_string_value(json_array_get(lines, i)), 0, 0,
                     writer->width);
}

/* ---- What was compared ---------------------------------------------------------------------- */

/* What a row that passes was compared with. */
static void print_compared(FILE *stream, const json_t *row)
{
    const json_t *gate = json_object_get(row, "equivalence");
    const char *grade = ls_row_text(row, "equivalence", "grade");
    const json_int_t steps = json_integer_value(json_object_get(gate, "steps"));
    const ls_strategy *strategy = ls_row_strategy(row);
    if (strcmp(grade, "none") == 0 && !steps) {
        fputs(ls_row_text(row, "equivalence", "oracle"), stream); /* "not compared" and why */
        return;
    }
    fprintf(stream, "%s: after each of %lld steps ", grade, (long long)steps);
    if (strcmp(grade, "none") == 0)
        fprintf(stream,
                "every replica has the bits of its replay, in sequence on one device%s; not "
                "compared with single",
                json_object_get(gate, "library_rel") ? ", with the library's means" : "");
    else if (strategy == &ls_strategy_single)
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

/* Sentences, each with the strategies for which it is true. */
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
            json_object_set_new(names, ls_row_text(row, "case", "strategy"), json_true());
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
