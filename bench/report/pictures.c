/* SPDX-License-Identifier: MIT */
/* Pictures: the points and texts of each; see pictures.h. */
#include "bench/report/pictures.h"

#include "bench/output/format.h"
#include "bench/report/album.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw.h"
#include "bench/report/text.h"

#include "template_pictures.h"
#include "template_queries.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { OF_A_KIND = 3, SERIES_MOST = 14, CATEGORIES_MOST = 24 };
static const struct {
    const char *name, *sql;
} pictures[] = {
#define PICTURE(name, sql) {name, sql},
    PICTURES
#undef PICTURE
};

/* Of all pictures, and of the page. */
static ls_status read_fields(const ls_album *all)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    for (size_t i = 0; stream && i < sizeof pictures / sizeof *pictures; i++)
        fputs(pictures[i].sql, stream);
    if (stream)
        fputs(ls_template_queries, stream);
    if (!stream || fclose(stream) != 0)
        return ls_fail_memory("report", 0);
    ls_status status = ls_album_read(all, text);
    free(text);
    return status;
}

static bool says(const char *sql, const char *what, const char *word)
{
    char text[LS_HEAD];
    return strstr(ls_picture_said(sql, what, text), word);
}

static void note(json_t *reasons, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void note(json_t *reasons, const char *name, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    json_auto_t *why = json_vsprintf(format, arguments);
    va_end(arguments);
    if (!json_object_get(reasons, json_string_value(why)))
        json_object_set_new(reasons, json_string_value(why), json_object());
    json_object_set_new(json_object_get(reasons, json_string_value(why)), name, json_true());
}

/* ---- One picture ---------------------------------------------------------------------------- */

static double at(const json_t *series, size_t point, size_t index)
{
    return ls_figure_at(json_array_get(json_object_get(series, "points"), point), index);
}

static size_t length_of(const json_t *series)
{
    return json_array_size(json_object_get(series, "points"));
}

static bool is_ours(const json_t *series)
{
    return json_integer_value(json_object_get(series, "style")) != LS_STYLE_IDEAL;
}

/* Orders strategies as their registry does, then peers. */
static int by_strategy(const json_t *a, const json_t *b)
{
    const json_t *x = json_array_get(json_object_get(a, "rows"), 0);
    const json_t *y = json_array_get(json_object_get(b, "rows"), 0);
    const int peers = ls_report_is_peer(x) - ls_report_is_peer(y);
    const int order = ls_report_strategy_index(x) - ls_report_strategy_index(y);
    return peers   ? peers
           : order ? order
                   : strverscmp(ls_text_of(a, "label"), ls_text_of(b, "label")); /* 2 before 16 */
}

/* A row's style in bars and ranges: that of its series in lines. */
static int style_of(const json_t *row)
{
    return ls_report_is_peer(row)          ? LS_STYLE_PEER
           : ls_row_group(row, LS_G_micro) ? LS_STYLE_NEUTRAL
                                           : ls_report_strategy_index(row);
}

/* The number of a row in the database. */
static int64_t number_of(const ls_album *all, const json_t *row)
{
    size_t i = 0;
    while (json_array_get(all->rows, i) != row)
        i++;
    return (int64_t)i + 1;
}

/* Names the rows and chooses them, or of each case the median one; `categories` then has the name
 * and the style of each. */
static ls_status choose(const ls_album *all, const char *name, const char *sql, const json_t *rows,
                        json_t *categories)
{
    char path[LS_HEAD], by[LS_HEAD], differ[LS_KEY_SIZE];
    const bool devices = says(sql, "x", "devices") || ls_report_shared_devices(rows) > 0;
    const bool median = says(sql, "median", "yes");
    ls_picture_said(sql, "at", path);
    json_auto_t *differences = ls_report_differences(rows, *path ? path : NULL, all->against);
    json_auto_t *found = ls_report_cases(rows, *ls_picture_said(sql, "series", by) ? by : NULL,
                                         differences, !devices, all->against);
    json_auto_t *cases = ls_report_sorted(found, categories && !*by ? by_strategy : NULL);
    json_t *one;
    size_t i, k, place = 0, repeats = 0, beyond = 0;
    LS_TRY(ls_album_run(all, "DELETE FROM picked", 0, NULL));
    json_array_foreach(cases, i, one)
    {
        const json_t *same = json_object_get(one, "rows"), *row;
        const char *label = ls_text_of(one, "label");
        if (categories && i >= CATEGORIES_MOST) {
            beyond += json_array_size(same);
            continue;
        }
        json_array_foreach(same, k, row)
        {
            const int64_t number = number_of(all, row);
            LS_TRY(
                ls_album_run(all, "UPDATE facts SET name = ?2 WHERE number = ?1", number, label));
            LS_TRY(ls_album_run(all, "INSERT OR IGNORE INTO used VALUES (?1)", number, NULL));
        }
        repeats += median ? json_array_size(same) - 1 : 0;
        if (categories)
            json_array_append_new(categories, json_pack("{s:s,s:i}", "name", label, "style",
                                                        style_of(json_array_get(same, 0))));
        row = median ? ls_report_median(same) : NULL;
        for (k = 0; k < (row ? 1 : json_array_size(same)); k++, place++) {
            char text[32];
            snprintf(text, sizeof text, "%zu",
                     median ? place : (size_t)number_of(all, json_array_get(same, k)));
            LS_TRY(ls_album_run(
                all, "INSERT INTO picked(place, number) VALUES (CAST(?2 AS INTEGER), ?1)",
                number_of(all, row ? row : json_array_get(same, k)), text));
        }
    }
    if (repeats)
        note(all->reasons, name, "rows of cases whose median row is shown: %zu", repeats);
    if (beyond)
        note(all->reasons, name, "rows beyond the %d bars of a picture (--where chooses): %zu",
             CATEGORIES_MOST, beyond);
    const size_t merged = ls_report_merged(found,
                                           *path        ? path
                                           : categories ? all->against
                                                        : NULL,
                                           !categories, differ, sizeof differ);
    if (merged)
        note(all->reasons, name, "rows of one %s that differ in %s: %zu",
             categories ? "case" : "line", differ, merged);
    return LS_OK;
}

/* Removes series that show nothing: lines of one place, parts that are 0 everywhere, and the
 * shortest of those beyond what a picture can hold. */
static void tidy(const ls_album *all, const char *name, const char *sql, bool bars, json_t *list)
{
    char wanted[LS_HEAD], path[LS_HEAD];
    const bool apart = *ls_picture_said(sql, "at", path),
               one_is_enough = bars || says(sql, "one", "yes");
    size_t alone = 0, many = 0, ours = 0;
    for (size_t i = json_array_size(list); i-- > 0;) {
        const json_t *one = json_array_get(list, i);
        double sum = 0;
        for (size_t p = 0; p < length_of(one); p++)
            sum += at(one, p, 1);
        const bool short_line = length_of(one) < 2 && !one_is_enough && (apart || !is_ours(one));
        alone += short_line && is_ours(one);
        ours += !short_line && is_ours(one);
        if (short_line || (bars && !(sum > 0)))
            json_array_remove(list, i);
    }
    for (; ours > SERIES_MOST; ours--, many++) {
        size_t shortest = SIZE_MAX;
        for (size_t i = json_array_size(list); i-- > 0;) {
            const json_t *one = json_array_get(list, i);
            if (is_ours(one) && (shortest == SIZE_MAX ||
                                 length_of(one) < length_of(json_array_get(list, shortest))))
                shortest = i;
        }
        json_array_remove(list, shortest);
    }
    if (alone)
        note(all->reasons, name, "series of one place (wanted: %s): %zu",
             ls_picture_said(sql, "wanted", wanted), alone);
    if (many)
        note(all->reasons, name, "series beyond the %d that a picture holds (--where chooses): %zu",
             SERIES_MOST, many);
}

/* The text at the path if it is the same in all rows, otherwise "". */
static char *shared_text(const json_t *rows, const char *path, char *out, size_t size)
{
    char other[96];
    ls_report_text(json_array_get(rows, 0), path, out, size);
    for (size_t i = 1; i < json_array_size(rows) && *out; i++)
        if (strcmp(ls_report_text(json_array_get(rows, i), path, other, sizeof other), out) != 0)
            *out = 0;
    return out;
}

/* "poly, synthetic, global batch 100": what the rows have in common. */
static void describe_rows(const json_t *rows, const char *each, char *out, size_t size)
{
    static const char *const paths[][2] = {
        {"case.model", ""}, {"case.data", ""},      {"case.batch_global", "global batch "},
        {"micro.op", ""},   {"micro.shape", ""},    {"micro.ranks", "ranks "},
        {"micro.comm", ""}, {"case.link", "link "}, {"prediction.platform", "platform "}};
    char text[96];
    const double devices = ls_report_shared_devices(rows);
    *out = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (*shared_text(rows, paths[i][0], text, sizeof text))
            ls_text_add(out, size, "%s%s%s", *out ? ", " : "", paths[i][1], text);
    if (devices > 0)
        ls_text_add(out, size, "%s%g device%s", *out ? ", " : "", devices, devices > 1 ? "s" : "");
    if (*each)
        ls_text_add(out, size, "%s%s scaling%s", *out ? ", " : "", each,
                    strcmp(each, "weak") == 0 ? " (the batch grows with the devices)" : "");
}

static void describe_origin(const json_t *rows, char *out, size_t size)
{
    char commit[64], known[64], day[11], machine[LS_MACHINE_SIZE];
    const json_t *row = json_array_get(rows, json_array_size(rows) - 1);
    ls_report_commit(row, 7, commit);
    ls_report_text(row, "timestamp", day, sizeof day);
    if (ls_figure_machines(rows) > 1)
        snprintf(machine, sizeof machine, "several machines");
    else
        ls_report_machine(row, machine, sizeof machine);
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (strcmp(ls_report_commit(json_array_get(rows, i), 7, known), commit) != 0)
            snprintf(commit, sizeof commit, "several");
    *out = 0; /* with non-breaking spaces */
    ls_text_add(out, size, "%s%scommit\xc2\xa0%s, %s, rows:\xc2\xa0%zu", machine,
                *machine ? ", " : "", commit, day, json_array_size(rows));
}

/* Adds the picture of these series. */
static void add_figure(const ls_album *all, const char *name, const char *sql, const json_t *rows,
                       const char *sub, json_t *series, json_t *categories)
{
    char text[LS_HEAD], title[LS_HEAD], x[LS_HEAD], y[LS_HEAD], unit[LS_HEAD], kind[LS_HEAD],
        caption[LS_HEAD + 128], foot[512];
    double farthest = 0, place = 0;
    size_t bars = 0;
    for (size_t i = 0; i < json_array_size(series); i++) {
        const json_t *one = json_array_get(series, i);
        farthest = fmax(farthest, at(one, length_of(one) - 1, 0));
        for (size_t p = 0; p < length_of(one); p++)
            bars += at(one, p, 2) < at(one, p, 3);
    }
    const bool wide = says(sql, "x", "devices") && farthest > 32;
    describe_origin(rows, foot, sizeof foot);
    snprintf(caption, sizeof caption, "%s%s", ls_picture_said(sql, "caption", text),
             bars && !categories ? " Bars: ci95 of the row, or, where several rows are one point "
                                   "(their median), the lowest and the highest."
                                 : "");
    if (bars && !categories)
        ls_text_add(foot, sizeof foot, ", bars: ci95 of a row or range of several");
    ls_picture_said(sql, "title", title);
    ls_picture_said(sql, "x", x);
    ls_picture_said(sql, "y", y);
    ls_picture_said(sql, "unit", unit);
    ls_picture_said(sql, "template", kind);
    place = strtod(ls_picture_said(sql, "place", text), NULL);
    json_t *figure =
        json_pack("{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:b,s:b,s:f,s:O}", "name", name, "title",
                  title, "sub", sub, "foot", foot, "caption", caption, "kind",
                  categories ? kind : "lines", "x", categories ? y : x, "y", categories ? "" : y,
                  "unit", unit, "log_x", wide || says(sql, "log", "x"), "log_y",
                  (wide && strcmp(unit, "%") != 0) || says(sql, "log", "y"), "place", place,
                  "series", series);
    for (size_t i = 0; i < json_array_size(categories); i++) {
        const json_t *one = json_array_get(categories, i);
        if (i == 0)
            json_object_update_new(figure, json_pack("{s:[],s:[]}", "categories", "styles"));
        json_array_append(json_object_get(figure, "categories"), json_object_get(one, "name"));
        json_array_append(json_object_get(figure, "styles"), json_object_get(one, "style"));
    }
    size_t before = json_array_size(all->figures);
    while (before > 0 && json_number_value(json_object_get(json_array_get(all->figures, before - 1),
                                                           "place")) > place)
        before--;
    json_array_insert_new(all->figures, before, figure);
}

/* Makes the picture of these rows, unless they show nothing. */
static ls_status make(const ls_album *all, const char *name, const char *sql, const json_t *rows,
                      const char *each, size_t *made)
{
    const bool bars = says(sql, "template", "bars") || says(sql, "template", "ranges");
    char own[80], sub[512], wanted[LS_HEAD], passed[LS_HEAD];
    json_auto_t *series = json_array(), *categories = bars ? json_array() : NULL;
    size_t longest = 0;
    double highest = 0;
    snprintf(own, sizeof own, *made > 0 ? "%s-%zu" : "%s", name, *made + 1);
    describe_rows(rows, each, sub, sizeof sub);
    json_auto_t *reasons = json_object();
    ls_album apart = *all;
    apart.reasons = reasons;
    LS_TRY(choose(&apart, own, sql, rows, categories));
    LS_TRY(ls_album_points(all, sql));
    if (all->against && says(sql, "unit", "samples/s")) {
        LS_TRY(ls_album_run(all, "DELETE FROM point WHERE number IS NULL", 0, NULL));
        note(reasons, own, "ideal lines, as each value of %s has its own", all->against);
    }
    LS_TRY(ls_album_series(all, bars, series));
    for (size_t i = 0; i < json_array_size(series); i++) {
        const json_t *one = json_array_get(series, i);
        longest = is_ours(one) && length_of(one) > longest ? length_of(one) : longest;
        for (size_t p = 0; p < length_of(one); p++)
            highest = fmax(highest, is_ours(one) ? at(one, p, 1) : 0);
    }
    ls_picture_said(sql, "wanted", wanted);
    if (*ls_picture_said(sql, "passed", passed)) {
        int64_t count;
        LS_TRY(ls_results_ask(all->db,
                              "SELECT count(*) FROM picked WHERE number NOT IN (SELECT number FROM "
                              "point WHERE number NOT NULL)",
                              &count));
        if (count > 0)
            note(reasons, own, "%s: %d", passed, (int)count);
    }
    if (!(highest > 0) && *passed)
        note(all->reasons, own, "rows of %s, too few or too alike (wanted: %s): %zu", sub, wanted,
             json_array_size(rows));
    else if (!(highest > 0))
        note(all->reasons, own, "rows of %s, which have 0: %zu", sub, json_array_size(rows));
    else if (longest < 2 && says(sql, "template", "lines") && !says(sql, "one", "yes"))
        note(all->reasons, own, "rows of %s, with one place only (wanted: %s): %zu", sub, wanted,
             json_array_size(rows));
    else {
        tidy(&apart, own, sql, bars, series);
        add_figure(all, own, sql, rows, sub, series, categories);
        json_object_update_recursive(all->reasons, reasons);
        (*made)++;
    }
    return LS_OK;
}

/* ---- All pictures --------------------------------------------------------------------------- */

static ls_status make_all(const ls_album *all, const char *kind, const char *sql)
{
    json_auto_t *groups = NULL;
    json_t *group, *number;
    size_t i, k, made = 0, others = 0, more = 0, with = 0;
    char name[80] = "", wanted[LS_HEAD], lacked[LS_HEAD], last[32] = "?";
    ls_picture_said(sql, "without", lacked);
    LS_TRY(ls_album_groups(all, sql, &groups));
    json_array_foreach(groups, i, group)
    {
        const char *each = json_string_value(json_array_get(group, 0));
        json_auto_t *rows = json_array();
        json_array_foreach(json_array_get(group, 1), k, number)
        {
            json_array_append(rows,
                              json_array_get(all->rows, (size_t)json_integer_value(number) - 1));
        }
        with += json_array_size(rows);
        if (strcmp(last, each) != 0)
            made = 0;
        snprintf(last, sizeof last, "%s", each);
        snprintf(name, sizeof name, "%s%s%s", kind, *each ? "-" : "", each);
        if (made >= OF_A_KIND) {
            others += json_array_size(rows);
            more++;
            continue;
        }
        LS_TRY(make(all, name, sql, rows, each, &made));
    }
    int64_t count;
    LS_TRY(ls_results_ask(all->db, "SELECT count(*) FROM facts", &count));
    const size_t without = (size_t)count - with;
    if (json_array_size(groups) > 0 && without > 0)
        note(all->reasons, kind, "rows without %s: %zu", *lacked ? lacked : "its numbers", without);
    if (others)
        note(all->reasons, kind,
             "rows of %zu smaller groups (model, batch, machine; --where chooses): %zu", more,
             others);
    if (json_array_size(groups) == 0)
        note(all->missing, kind, "no rows for it; wanted: %s",
             ls_picture_said(sql, "wanted", wanted));
    return LS_OK;
}

/* "waterfall, memory: 4 older rows": each reason once. */
static void tell(const json_t *reasons, json_t *left_out)
{
    const char *why, *name;
    json_t *names, *unused;
    json_object_foreach((json_t *)(size_t)reasons, why, names)
    {
        char text[LS_KEY_SIZE] = "";
        json_object_foreach(names, name, unused)
        {
            (void)unused;
            ls_text_add(text, sizeof text, "%s%s", *text ? ", " : "", name);
        }
        json_array_append_new(left_out, json_sprintf("%s: %s", text, why));
    }
}

static ls_status count_unused(const ls_album *all, json_t *left_out)
{
    int64_t ok, used;
    LS_TRY(ls_results_ask(all->db, "SELECT count(*) FROM facts", &ok));
    LS_TRY(ls_results_ask(all->db, "SELECT count(*) FROM used", &used));
    const size_t bad = json_array_size(all->rows) - (size_t)ok;
    if (bad > 0)
        json_array_append_new(left_out, json_sprintf("rows that failed a check, could not run or "
                                                     "were interrupted: %zu; they are in the table",
                                                     bad));
    tell(all->reasons, left_out);
    tell(all->missing, left_out);
    if (ok > used)
        json_array_append_new(
            left_out,
            json_sprintf("rows that fit no picture: %d; they are in the table", (int)(ok - used)));
    return LS_OK;
}

ls_status ls_pictures(ls_results *results, const json_t *rows, const char *against,
                      json_t *left_out, json_t **out)
{
    ls_album all = {.db = results,
                    .rows = rows,
                    .against = against,
                    .figures = json_array(),
                    .reasons = json_object(),
                    .missing = json_object()};
    ls_status status = ls_album_fill(&all);
    if (!status)
        status = read_fields(&all);
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures && !status; i++)
        status = make_all(&all, pictures[i].name, pictures[i].sql);
    if (!status)
        status = count_unused(&all, left_out);
    ls_album_headings(&all);
    json_decref(all.missing);
    json_decref(all.reasons);
    *out = all.figures;
    return status;
}
