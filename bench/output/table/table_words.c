/* SPDX-License-Identifier: MIT */
/* The lines below a table; see table_parts.h. */
#include "bench/output/table/ranking.h"
#include "bench/output/table/table_parts.h"

#include "bench/output/row_same.h"
#include "impl/strategies.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_SIZE = 1024 };

/* ---- The fastest ---------------------------------------------------------------------------- */

typedef struct ranked_case {
    const json_t *row;
    ls_interval rate; /* what cases are compared by */
    bool known;       /* it has an interval */
    bool noisy;       /* a row of it is */
    bool equal;       /* its strategy is meant to compute what `single` does */
} ranked_case;

/* Lists the rows that have a time to compare in `out` [as many as rows]; returns how many. A case
 * that all groups have, since it is their baseline, stands for itself once. */
static size_t read_times(const json_t *rows, ls_rank_by by, ranked_case *out)
{
    size_t count = 0;
    json_auto_t *seen = json_object();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        if (!ls_row_is_timed(row))
            continue;
        char *key = by == LS_RANK_SPEEDUP ? ls_row_identity(row, LS_BUT_TRAINED, 0) : NULL;
        const bool again = key && json_object_get(seen, key);
        if (key)
            json_object_set_new_nocheck(seen, key, json_true());
        free(key);
        if (again)
            continue;
        out[count] = (ranked_case){
            .row = row, .noisy = ls_row_is_noisy(row), .equal = ls_row_is_candidate(row)};
        out[count].known = ls_rank_rate(row, by, &out[count].rate);
        count++;
    }
    return count;
}

/* Writes the options that distinguish the case: "mirrored 2 cpu batch 512". */
static void write_name(const json_t *row, const json_t *fields, char name[NAME_SIZE])
{
    name[0] = 0;
    for (size_t i = 0; i < json_array_size(fields); i++) {
        char title[LS_TITLE_SIZE], cell[LS_CELL_SIZE];
        ls_option_write(json_string_value(json_array_get(fields, i)), row, title, cell);
        const bool plain = strcmp(title, "strategy") == 0 || strcmp(title, "devices") == 0;
        const size_t used = strlen(name);
        if (*cell && strcmp(title, "model") != 0 && strcmp(title, "data") != 0)
            snprintf(name + used, NAME_SIZE - used, "%s%s%s%s", used ? " " : "", plain ? "" : title,
                     plain ? "" : " ", cell);
    }
}

/* Prints cases after `before`, with commas between them; `fastest`: with their rate over it. */
static void print_cases(FILE *stream, const char *before, const ranked_case *cases, size_t count,
                        const json_t *fields, double fastest)
{
    char name[NAME_SIZE];
    for (size_t i = 0; i < count; i++) {
        write_name(cases[i].row, fields, name);
        fprintf(stream, "%s%s%s", i ? ", " : before, name, cases[i].noisy ? " (noisy)" : "");
        if (fastest > 0)
            fprintf(stream, " (%.2f times as fast)", cases[i].rate.value / fastest);
    }
}

static size_t count_names(const ranked_case *cases, size_t count, const json_t *fields)
{
    json_auto_t *names = json_object();
    char name[NAME_SIZE];
    for (size_t i = 0; i < count; i++) {
        write_name(cases[i].row, fields, name);
        json_object_set_new_nocheck(names, name, json_true());
    }
    return json_object_size(names);
}

/* Makes one of the repeats of each case, in place, by the median of their rates and the range of
 * all, as a report does. Returns how many are left. */
static size_t fold(ranked_case *cases, size_t count, const json_t *fields)
{
    json_auto_t *names = json_object(); /* of each case the rates of its rows */
    char name[NAME_SIZE];
    json_t *rates;
    const char *key;
    for (size_t i = 0; i < count; i++) {
        write_name(cases[i].row, fields, name);
        size_t at = 0;
        for (void *it = json_object_iter(names); it && strcmp(json_object_iter_key(it), name) != 0;
             it = json_object_iter_next(names, it))
            at++;
        if (at == json_object_size(names)) {
            json_object_set_new_nocheck(names, name, json_array());
            cases[at] = cases[i]; /* at <= i, and cases[at] is folded already */
        }
        cases[at].noisy |= cases[i].noisy;
        json_array_append_new(json_object_get(names, name), json_real(cases[i].rate.value));
    }
    size_t used = 0;
    json_object_foreach(names, key, rates)
    {
        const size_t repeats = json_array_size(rates);
        double *values = repeats > 1 ? calloc(repeats, sizeof *values) : NULL;
        for (size_t i = 0; values && i < repeats; i++)
            values[i] = json_number_value(json_array_get(rates, i));
        if (values) {
            cases[used].rate = ls_statistics_repeats(values, repeats);
            cases[used].known = true;
        }
        free(values);
        used++;
    }
    return used;
}

/* Options in which these cases differ, without those that cases may differ in for no reason of
 * their own (`steps` that were trained where others were asked for, and what follows from other
 * options) where these distinguish no more cases than the options before. */
static json_t *differing(const ranked_case *cases, size_t count)
{
    json_auto_t *options = ls_options_new();
    json_t *differ = json_array();
    bool asked = false;
    for (size_t i = 0; i < count; i++) {
        ls_options_add(options, cases[i].row, "");
        asked |= ls_row_has(cases[i].row, LS_F_case_steps_asked);
    }
    json_auto_t *fields = ls_options_names(options);
    for (size_t i = 0; i < json_array_size(fields); i++) {
        const char *name = json_string_value(json_array_get(fields, i));
        if (!ls_options_differ(options, name))
            continue;
        const bool outcome = ls_option_follows(name) || (asked && strcmp(name, "steps") == 0);
        const size_t before = outcome ? count_names(cases, count, differ) : 0;
        json_array_append(differ, json_array_get(fields, i));
        if (outcome && count_names(cases, count, differ) == before)
            json_array_remove(differ, json_array_size(differ) - 1);
    }
    return differ;
}

/* Names the environment of a pool by what differs between all, and its group if it is of one: " of
 * mlp, batch 256, 2 cpu, group 2 of 3". */
static void print_environment(FILE *stream, const json_t *pool, const json_t *options)
{
    const json_t *row = json_array_get(json_object_get(pool, "rows"), 0);
    const json_int_t group = json_integer_value(json_object_get(pool, "group"));
    const char *before = " of ";
    for (size_t i = 0; ls_rank_environment[i]; i++) {
        char title[LS_TITLE_SIZE], cell[LS_CELL_SIZE];
        if (!ls_options_differ(options, ls_rank_environment[i]))
            continue;
        ls_option_write(ls_rank_environment[i], row, title, cell);
        const bool named = strcmp(title, "batch") == 0 || strcmp(title, "link") == 0;
        fprintf(stream, "%s%s%s%s", before, named ? title : "", named ? " " : "",
                *cell ? cell : "none");
        before = ", ";
    }
    if (group)
        fprintf(stream, "%sgroup %lld of %" PRId64, before, (long long)group,
                ls_row_integer(row, LS_F_time_groups));
}

/* Those with an interval first, of these those equal to `single`, of these the fastest. */
static int by_rate(const void *a, const void *b)
{
    const ranked_case *x = a, *y = b;
    if (x->known != y->known)
        return y->known - x->known;
    return x->equal != y->equal ? y->equal - x->equal
                                : (x->rate.value < y->rate.value) - (x->rate.value > y->rate.value);
}

/* Prints cases [count], of which at least two are different, after "fastest". Those that are not
 * meant to be equal to `single` are ranked only if all are such. */
static void print_ranking(FILE *stream, ranked_case *cases, size_t count, const json_t *fields)
{
    size_t known = 0, ranked = 0, near = 1;
    qsort(cases, count, sizeof *cases, by_rate);
    for (size_t i = 0; i < count; i++) {
        known += cases[i].known;
        ranked += cases[i].known && cases[i].equal == cases[0].equal;
    }
    while (near < ranked && cases[near].rate.high >= cases[0].rate.low)
        near++;
    if (known > 1)
        print_cases(stream, "", cases, 1, fields, 0);
    else
        fputs("cannot be told", stream);
    if (near > 1) {
        print_cases(stream, "; within the noise of it: ", cases + 1, near - 1, fields, 0);
    } else if (ranked > 1) {
        const ls_interval ratio = ls_statistics_ratio(cases[0].rate, cases[1].rate);
        fprintf(stream, ", %.2f times as fast as the next (%.2f to %.2f)", ratio.value, ratio.low,
                ratio.high);
        print_cases(stream, ", ", cases + 1, 1, fields, 0);
    }
    if (known > 1)
        print_cases(stream, "; not meant to be equal to single, so not ranked: ", cases + ranked,
                    known - ranked, fields, cases->rate.value);
    print_cases(stream, "; without an interval, so not ranked: ", cases + known, count - known,
                fields, 0);
}

/* The line of a pool, owned by the caller (free); NULL where fewer than two have a time. */
static char *rank_pool(const json_t *pool, const json_t *options)
{
    static const char *const by_words[] = {
        [LS_RANK_MEDIAN] = ": ",
        [LS_RANK_MEAN] = " by samples trained / time: ",
        [LS_RANK_SPEEDUP] = " by speed-up over single in each group's own turns: ",
    };
    const json_t *rows = json_object_get(pool, "rows");
    const ls_rank_by by = (ls_rank_by)json_integer_value(json_object_get(pool, "by"));
    ranked_case *cases = calloc(json_array_size(rows) + 1, sizeof *cases);
    size_t count = cases ? read_times(rows, by, cases) : 0, size;
    char *text = NULL;
    if (count > 1) {
        json_auto_t *fields = differing(cases, count);
        count = fold(cases, count, fields);
        FILE *stream = count > 1 ? open_memstream(&text, &size) : NULL; /* 1: timed twice */
        if (stream) {
            fputs("fastest", stream);
            print_environment(stream, pool, options);
            fputs(by_words[by], stream);
            print_ranking(stream, cases, count, fields);
            fclose(stream);
        }
    }
    free(cases);
    return text;
}

json_t *ls_rank_lines(const json_t *rows)
{
    json_auto_t *pools = ls_rank_pools(rows), *options = ls_options_of(rows);
    json_t *lines = json_array();
    bool apart = false, mean = false;
    for (size_t i = 0; i < json_array_size(pools); i++) {
        const json_t *pool = json_array_get(pools, i);
        char *text = rank_pool(pool, options);
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

/* ---- What was compared ---------------------------------------------------------------------- */

/* What a row that passes was compared with, without the strategy's name. */
static json_t *compared_with(const json_t *row)
{
    const char *grade = ls_row_string(row, LS_F_equivalence_grade);
    const int64_t steps = ls_row_integer(row, LS_F_equivalence_steps);
    const bool none = strcmp(grade, "none") == 0, exact = strcmp(grade, "exact") == 0,
               library = ls_row_has(row, LS_F_equivalence_library_rel);
    if (none && !steps) /* "not compared" and why */
        return json_string(ls_row_string(row, LS_F_equivalence_oracle));
    const char *what =
        none ? "every replica has the bits of its replay, in sequence on one device"
        : ls_row_strategy(row) == &ls_strategy_single ? "the bits of a second, fresh run"
        : exact                                       ? "the bits of single --reduce exact"
        : library
            ? "the reduced gradient is that of the slices, summed in float64 (at most 1e-5 apart), "
              "and the update has the bits that single's optimizer makes of it"
            : "the bits of an oracle that computes each replica's slice by itself, on one device, "
              "and sums in this strategy's order";
    char bound[128] = "";
    if (ls_row_has(row, LS_F_equivalence_gradient_rel))
        snprintf(bound, sizeof bound,
                 "; gradient: how far the first one is from single's of the whole batch (at most "
                 "%g)",
                 ls_row_real(row, LS_F_equivalence_bound));
    return json_sprintf("%s: after each of %" PRId64 " steps %s%s%s%s", grade, steps, what,
                        none && library ? ", with the library's means" : "",
                        none ? "; not compared with single" : "", bound);
}

char *ls_names_text(const char *before, const json_t *object)
{
    char *text = NULL;
    const char *name;
    size_t size;
    json_t *value;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    json_object_foreach((json_t *)(size_t)object, name, value)
    {
        fprintf(stream, "%s%s", before, name);
        before = ", ";
    }
    fclose(stream);
    return text;
}

json_t *ls_compared_lines(const json_t *rows)
{
    json_auto_t *sentences = json_object(); /* each with the strategies for which it is true */
    json_t *lines = json_array(), *names;
    const char *sentence;
    bool drifts = false;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        drifts |= ls_row_real(row, LS_F_equivalence_max_rel) > 0;
        if (!ls_row_group(row, LS_G_equivalence) || ls_row_is_bad(row))
            continue;
        json_auto_t *text = compared_with(row);
        if (!json_object_get(sentences, json_string_value(text)))
            json_object_set_new(sentences, json_string_value(text), json_object());
        json_object_set_new(json_object_get(sentences, json_string_value(text)),
                            ls_row_string(row, LS_F_case_strategy), json_true());
    }
    json_object_foreach(sentences, sentence, names)
    {
        char *text = ls_names_text("", names);
        json_array_append_new(lines, json_sprintf("%s, %s", text ? text : "", sentence));
        free(text);
    }
    if (drifts)
        json_array_append_new(
            lines, json_string("drift: distance from single's parameters; for information: two "
                               "correct orders of summation drift apart"));
    return lines;
}
