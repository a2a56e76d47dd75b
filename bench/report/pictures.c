/* SPDX-License-Identifier: MIT */
/* Pictures: the points and texts of each; see pictures.h. */
#include "bench/report/pictures.h"

#include "bench/output/format_parts.h"
#include "bench/output/results_query.h"
#include "bench/output/row_same.h"
#include "bench/output/row_shares.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw_look.h"
#include "bench/report/text.h"
#include "common/base/numbers.h"
#include "common/device/link.h"

#include "generated/pictures.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { OF_A_KIND = 3, SERIES_MOST = 14, CATEGORIES_MOST = 24, HEAD = 600 };
enum { MACHINE = LS_OF_CLASS | LS_OF_HOST };

static const struct {
    const char *name, *sql;
} pictures[] = {
#define PICTURE(name, sql) {name, sql},
    PICTURES
#undef PICTURE
};

typedef struct album {
    ls_results *db;
    json_t *rows; /* that are ok; number n of the database is element n - 1 */
    const char *against;
    json_t *figures;
    json_t *reasons; /* {what is missing: {name: true}} */
    json_t *missing; /* {what would make it: {name: true}}: pictures of which there is none */
} album;

/* What the picture's head says of it; "" if nothing. */
static const char *said(const char *sql, const char *what, char out[HEAD])
{
    char line[32];
    snprintf(line, sizeof line, "-- %s: ", what);
    const char *at = strstr(sql, line);
    *out = 0;
    if (at)
        ls_text_add(out, HEAD, "%.*s", (int)strcspn(at + strlen(line), "\n"), at + strlen(line));
    return out;
}

static bool says(const char *sql, const char *what, const char *word)
{
    char text[HEAD];
    return strstr(said(sql, what, text), word);
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

/* ---- Rows in the database ------------------------------------------------------------------- */

static const char tables_sql[] =
    "CREATE TEMP TABLE facts (number INTEGER PRIMARY KEY, trainers REAL, machine INTEGER,"
    " delay REAL, bandwidth REAL, latency REAL, held_over REAL, step_over REAL, step_over_low REAL,"
    " step_over_high REAL, against TEXT, name TEXT);"
    "CREATE TEMP VIEW r AS SELECT * FROM s JOIN temp.facts USING (number);"
    "CREATE TEMP TABLE point (id INTEGER PRIMARY KEY, number INTEGER, series TEXT, x REAL, y REAL,"
    " low REAL, high REAL);"
    "CREATE TEMP TABLE used (number INTEGER PRIMARY KEY);";

/* Runs one statement with a number and a text. */
static ls_status run(const album *all, const char *sql, int64_t number, const char *text)
{
    sqlite3_stmt *statement;
    bool more = false;
    LS_TRY(ls_results_prepare(all->db, sql, &statement));
    sqlite3_bind_int64(statement, 1, number);
    sqlite3_bind_text(statement, 2, text, -1, SQLITE_STATIC);
    ls_status status = ls_results_step(all->db, statement, &more);
    sqlite3_finalize(statement);
    return status;
}

static void bind_if(sqlite3_stmt *statement, int at, double value, bool known)
{
    if (known)
        sqlite3_bind_double(statement, at, value);
    else
        sqlite3_bind_null(statement, at);
}

/* What is known of a fault's delay, ms: 0 without a fault, negative of another one. */
static double delay_of(const json_t *row)
{
    char text[128];
    uint64_t ns;
    const char *colon = strchr(ls_report_text(row, "case.inject", text, sizeof text), ':');
    if (!*text)
        return 0;
    return strncmp(text, "delay=", 6) == 0 && colon && ls_parse_duration(colon + 1, &ns)
               ? (double)ns * 1e-6
               : -1;
}

static void bind_facts(sqlite3_stmt *statement, const json_t *row, const json_t *rows)
{
    static const char flat[] = "flat:";
    char text[128];
    ls_link link = {0};
    ls_report_text(row, "case.link", text, sizeof text);
    if (!*text) /* where it is predicted */
        ls_report_text(row, "prediction.platform", text, sizeof text);
    if (*text)
        ls_status_free(
            ls_link_parse(text + (strncmp(text, flat, strlen(flat)) == 0 ? strlen(flat) : 0), &link));
    const json_t *beside = ls_row_has_shares(row) ? ls_row_beside(row, rows) : NULL;
    const ls_saving over = beside ? ls_row_saving(row, beside) : (ls_saving){0};
    sqlite3_bind_double(statement, 2, ls_report_devices(row));
    sqlite3_bind_double(statement, 4, delay_of(row));
    bind_if(statement, 5, link.bytes_per_s * 1e-6, link.bytes_per_s > 0);
    sqlite3_bind_double(statement, 6, (double)link.latency_ns * 1e-3);
    bind_if(statement, 7, over.held / over.whole_held, over.whole_held > 0);
    bind_if(statement, 8, over.step.value, over.step.value > 0);
    bind_if(statement, 9, over.step.low, over.step.low > 0);
    bind_if(statement, 10, over.step.high, over.step.low > 0);
}

/* Whether the key stands for machines (it is a fact of them, or a label), one for each value. Only
 * then are machines compared. */
static bool has_one_machine_each(const json_t *rows, const char *against)
{
    json_auto_t *machines = json_object(), *known = json_array();
    bool one = against && ls_row_is_of(against, MACHINE | LS_OF_LABEL);
    for (size_t i = 0; i < json_array_size(rows) && one; i++) {
        char value[LS_KEY_SIZE];
        const json_t *row = json_array_get(rows, i);
        json_auto_t *machine = json_integer((json_int_t)ls_row_machine(known, row, MACHINE));
        ls_report_text(row, against, value, sizeof value);
        one = !json_object_get(machines, value) ||
              json_equal(json_object_get(machines, value), machine);
        json_object_set(machines, value, machine);
    }
    return one;
}

size_t ls_figure_machines(const json_t *rows)
{
    json_auto_t *known = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++)
        ls_row_machine(known, json_array_get(rows, i), MACHINE);
    return json_array_size(known);
}

json_t *ls_figure_groups(const json_t *rows, const char *const *paths, const char *against)
{
    json_t *groups = json_object();
    json_auto_t *known = json_array();
    const bool together = has_one_machine_each(rows, against);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *row = json_array_get(rows, i);
        char key[LS_KEY_SIZE] = "", part[256];
        if (!together)
            snprintf(key, sizeof key, "%zu", ls_row_machine(known, row, MACHINE));
        for (size_t p = 0; paths[p]; p++)
            ls_text_add(key, sizeof key, "|%s", ls_report_text(row, paths[p], part, sizeof part));
        ls_report_text(row, "case.model_digest", part, sizeof part); /* a file's other text */
        ls_text_add(key, sizeof key, "|%s", part);
        ls_report_collect(groups, key, row);
    }
    return groups;
}

static ls_status insert_row(const album *all, sqlite3_stmt *statement, const json_t *row)
{
    bool more;
    char *text = json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(17));
    if (!text)
        return ls_fail_memory("report", 0);
    sqlite3_bind_text(statement, 2, text, -1, free);
    LS_TRY(ls_results_step(all->db, statement, &more));
    sqlite3_reset(statement);
    return LS_OK;
}

static ls_status fill(const album *all)
{
    json_auto_t *known = json_array();
    sqlite3_stmt *rows, *facts;
    const bool together = has_one_machine_each(all->rows, all->against);
    bool more;
    LS_TRY(ls_results_prepare(all->db, "INSERT INTO main.rows(rowid, id, row) VALUES (?1, ?1, ?2)",
                              &rows));
    ls_status status = LS_OK;
    for (const char *sql = tables_sql; *sql && !status; sql = strchr(sql, ';') + 1)
        status = run(all, sql, 0, NULL);
    if (!status)
        status = ls_results_prepare(
            all->db, "INSERT INTO facts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, '')",
            &facts);
    for (size_t i = 0; i < json_array_size(all->rows) && !status; i++) {
        const json_t *row = json_array_get(all->rows, i);
        char value[LS_KEY_SIZE] = "", text[LS_KEY_SIZE];
        if (all->against)
            snprintf(value, sizeof value, ", %s",
                     ls_report_text(row, all->against, text, sizeof text - 2));
        sqlite3_bind_int64(rows, 1, (int64_t)i + 1);
        sqlite3_bind_int64(facts, 1, (int64_t)i + 1);
        sqlite3_bind_int64(facts, 3,
                           together ? 0 : (int64_t)ls_row_machine(known, row, MACHINE));
        bind_facts(facts, row, all->rows);
        sqlite3_bind_text(facts, 11, value, -1, SQLITE_TRANSIENT);
        status = insert_row(all, rows, row);
        if (!status)
            status = ls_results_step(all->db, facts, &more);
        sqlite3_reset(facts);
    }
    sqlite3_finalize(rows);
    sqlite3_finalize(facts);
    return status;
}

/* ---- Points --------------------------------------------------------------------------------- */

/* The query's points, of the chosen rows; what no axis can hold is left out. */
static ls_status find_points(const album *all, const char *sql)
{
    static const char format[] =
        "WITH q(number, part, x, y, low, high) AS (%s) INSERT INTO point(number, series, x, y, low,"
        " high) SELECT q.number, coalesce(part, iif(name = '', 'all', name)), x, y,"
        " iif(abs(low) <= 1e100, low, y), iif(abs(high) <= 1e100, high, y)"
        " FROM q LEFT JOIN facts USING (number)"
        " WHERE x BETWEEN 0 AND 1e100 AND y BETWEEN 0 AND 1e100";
    char *text;
    LS_TRY(run(all, "DELETE FROM point", 0, NULL));
    if (asprintf(&text, format, sql) < 0)
        return ls_fail_memory("report", strlen(sql));
    ls_status status = run(all, text, 0, NULL);
    free(text);
    return status;
}

/* Points of one series and x become one: their median, with their range. */
static const char merged_sql[] =
    "SELECT series, max(number), x, avg(y) FILTER (WHERE k IN ((n + 1) / 2, (n + 2) / 2)),"
    " iif(n = 1, min(low), min(y)), iif(n = 1, max(high), max(y))"
    " FROM (SELECT *, row_number() OVER (PARTITION BY series, x ORDER BY y) AS k,"
    " count(*) OVER (PARTITION BY series, x) AS n, min(id) OVER (PARTITION BY series) AS first"
    " FROM point) GROUP BY first, x ORDER BY first, x";

/* Adds an empty series. Those of one colour are told by marks and dashes, a predicted one from what
 * was measured of the same by a hollow mark. */
static json_t *add_series(const album *all, json_t *list, const char *name, int64_t number,
                          bool parts)
{
    static const char predicted[] = " (predicted)";
    const json_t *row = number ? json_array_get(all->rows, (size_t)number - 1) : NULL;
    const bool is_predicted = strstr(name, predicted);
    const int style = !row                         ? LS_STYLE_IDEAL
                      : parts                      ? (int)json_array_size(list)
                      : ls_report_is_peer(row)     ? LS_STYLE_PEER
                      : json_object_get(row, "micro") ? LS_STYLE_NEUTRAL
                                                   : ls_report_strategy_index(row);
    int variant = 0;
    for (size_t i = 0; i < json_array_size(list) && !parts; i++) {
        const json_t *one = json_array_get(list, i);
        const int its = (int)json_integer_value(json_object_get(one, "style"));
        const bool like = its == style || (style >= 0 && !ls_look_is_own(style) && its >= 0 && !ls_look_is_own(its));
        const char *other = ls_text_of(one, "name");
        variant += like && !(!is_predicted && strstr(other, predicted));
    }
    json_array_append_new(list, json_pack("{s:s,s:i,s:i,s:b,s:[]}", "name", name, "style", style,
                                          "variant", variant, "predicted", is_predicted, "points"));
    return json_array_get(list, json_array_size(list) - 1);
}

static ls_status read_series(const album *all, bool parts, json_t *list)
{
    sqlite3_stmt *statement;
    bool more;
    json_t *series = NULL;
    LS_TRY(ls_results_prepare(all->db, merged_sql, &statement));
    ls_status status;
    while (!(status = ls_results_step(all->db, statement, &more)) && more) {
        const char *name = ls_results_text(statement, 0);
        json_t *point = json_array();
        if (!series || strcmp(ls_text_of(series, "name"), name) != 0)
            series = add_series(all, list, name, sqlite3_column_int64(statement, 1), parts);
        for (int i = 2; i < 6; i++)
            json_array_append_new(point, json_real(sqlite3_column_double(statement, i)));
        json_array_append_new(json_object_get(series, "points"), point);
    }
    sqlite3_finalize(statement);
    return status;
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
    const json_t *x = ls_case_row(a, NULL), *y = ls_case_row(b, NULL);
    const int peers = ls_report_is_peer(x) - ls_report_is_peer(y);
    const int order = ls_report_strategy_index(x) - ls_report_strategy_index(y);
    return peers   ? peers
           : order ? order
                   : strverscmp(ls_text_of(a, "label"), ls_text_of(b, "label")); /* 2 before 16 */
}

/* The number of a row in the database. */
static int64_t number_of(const album *all, const json_t *row)
{
    size_t i = 0;
    while (json_array_get(all->rows, i) != row)
        i++;
    return (int64_t)i + 1;
}

/* Names the rows and chooses them, or of each case the median one; which `categories` then names.
 */
static ls_status choose(const album *all, const char *name, const char *sql, const json_t *rows,
                        json_t *categories)
{
    char path[HEAD], by[HEAD], differ[LS_KEY_SIZE];
    const bool devices = says(sql, "x", "devices") || ls_report_shared_devices(rows) > 0;
    const bool median = says(sql, "median", "yes");
    said(sql, "at", path);
    json_auto_t *differences = ls_report_differences(rows, *path ? path : NULL, all->against);
    json_auto_t *found = ls_report_cases(rows, *said(sql, "series", by) ? by : NULL, differences,
                                         !devices, all->against);
    json_auto_t *cases = ls_report_sorted(found, median && !*by ? by_strategy : NULL);
    json_t *one;
    size_t i, k, place = 0, repeats = 0, beyond = 0;
    LS_TRY(run(all, "DELETE FROM chosen", 0, NULL));
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
            LS_TRY(run(all, "UPDATE facts SET name = ?2 WHERE number = ?1", number, label));
            LS_TRY(run(all, "INSERT OR IGNORE INTO used VALUES (?1)", number, NULL));
        }
        repeats += median ? json_array_size(same) - 1 : 0;
        if (categories)
            json_array_append_new(categories, json_string(label));
        row = median ? ls_case_row(one, NULL) : NULL;
        for (k = 0; k < (row ? 1 : json_array_size(same)); k++, place++) {
            char text[32];
            snprintf(text, sizeof text, "%zu", median ? place : (size_t)number_of(all, json_array_get(same, k)));
            LS_TRY(run(all, "INSERT INTO chosen(place, number) VALUES (CAST(?2 AS INTEGER), ?1)",
                       number_of(all, row ? row : json_array_get(same, k)), text));
        }
    }
    if (repeats)
        note(all->reasons, name, "rows of cases whose median row is shown: %zu", repeats);
    if (beyond)
        note(all->reasons, name, "rows beyond the %d bars of a picture (--where chooses): %zu",
             CATEGORIES_MOST, beyond);
    const size_t merged = ls_report_merged(found, *path ? path : categories ? all->against : NULL,
                                           !categories, differ, sizeof differ);
    if (merged)
        note(all->reasons, name, "rows of one %s that differ in %s: %zu",
             categories ? "case" : "line", differ, merged);
    return LS_OK;
}

/* Removes series that show nothing: those of one place, parts that are 0 everywhere, and the
 * shortest of those beyond what a picture can hold. */
static void tidy(const album *all, const char *name, const char *sql, bool bars, json_t *list)
{
    char wanted[HEAD], path[HEAD];
    const bool lines = says(sql, "template", "lines");
    const bool apart = *said(sql, "at", path), ends = lines && !says(sql, "one", "yes");
    size_t alone = 0, many = 0, ours = 0;
    for (size_t i = json_array_size(list); i-- > 0;) {
        const json_t *one = json_array_get(list, i);
        double sum = 0;
        for (size_t p = 0; p < length_of(one); p++)
            sum += at(one, p, 1);
        const bool short_line = length_of(one) < 2 && lines && (apart || !is_ours(one));
        alone += short_line && is_ours(one);
        if (short_line || (bars && !(sum > 0)))
            json_array_remove(list, i);
        else
            ours += is_ours(one);
    }
    (void)ends;
    for (; ours > SERIES_MOST && !bars; ours--, many++) {
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
        note(all->reasons, name, "series of one place (wanted: %s): %zu", said(sql, "wanted", wanted),
             alone);
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
    static const char *const paths[][2] = {{"case.model", ""},
                                           {"case.data", ""},
                                           {"case.batch_global", "global batch "},
                                           {"micro.op", ""},
                                           {"micro.shape", ""},
                                           {"micro.ranks", "ranks "},
                                           {"micro.comm", ""},
                                           {"case.link", "link "},
                                           {"prediction.platform", "platform "}};
    char text[96];
    const double devices = ls_report_shared_devices(rows);
    *out = 0;
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (*shared_text(rows, paths[i][0], text, sizeof text))
            ls_text_add(out, size, "%s%s%s", *out ? ", " : "", paths[i][1], text);
    if (devices > 0)
        ls_text_add(out, size, "%s%g device%s", *out ? ", " : "", devices, devices > 1 ? "s" : "");
    if (*each)
        ls_text_add(out, size, "%s%s scaling", *out ? ", " : "", each);
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
static void add_figure(const album *all, const char *name, const char *sql, const json_t *rows,
                       const char *sub, json_t *series, json_t *categories)
{
    char text[HEAD], title[HEAD], x[HEAD], y[HEAD], unit[HEAD], kind[HEAD], caption[HEAD + 128], foot[512];
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
    snprintf(caption, sizeof caption, "%s%s", said(sql, "caption", text),
             bars && !categories ? " Bars: ci95 of the row, or, where several rows are one point "
                                   "(their median), the lowest and the highest."
                                 : "");
    if (bars && !categories)
        ls_text_add(foot, sizeof foot, ", bars: ci95 of a row or range of several");
    said(sql, "title", title);
    said(sql, "x", x);
    said(sql, "y", y);
    said(sql, "unit", unit);
    said(sql, "template", kind);
    ls_read_double(said(sql, "place", text), &place);
    json_t *figure = json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:o,s:b,s:b,s:f,s:O}", "name", name, "title", title,
        "sub", sub, "foot", foot, "caption", caption, "kind", categories ? kind : "lines", "x",
        categories ? y : x, "y", categories ? "" : y, "unit", unit, "alt",
        json_sprintf("%s (%s), %zu series", title, sub, json_array_size(series)), "log_x",
        wide || says(sql, "log", "x"), "log_y",
        (wide && strcmp(unit, "%") != 0) || says(sql, "log", "y"), "place", place, "series", series);
    if (categories)
        json_object_set(figure, "categories", categories);
    size_t before = json_array_size(all->figures);
    while (before > 0 && json_number_value(json_object_get(json_array_get(all->figures, before - 1),
                                                           "place")) > place)
        before--;
    json_array_insert_new(all->figures, before, figure);
}

/* Makes the picture of these rows, unless they show nothing. */
static ls_status make(const album *all, const char *name, const char *sql, const json_t *rows,
                      const char *each, size_t *made)
{
    const bool bars = says(sql, "template", "bars") || says(sql, "template", "ranges");
    char own[80], sub[512], wanted[HEAD];
    json_auto_t *series = json_array(), *categories = bars ? json_array() : NULL;
    size_t longest = 0;
    double highest = 0;
    snprintf(own, sizeof own, *made > 0 ? "%s-%zu" : "%s", name, *made + 1);
    describe_rows(rows, each, sub, sizeof sub);
    json_auto_t *reasons = json_object();
    album apart = *all;
    apart.reasons = reasons;
    LS_TRY(choose(&apart, own, sql, rows, categories));
    LS_TRY(find_points(all, sql));
    if (all->against && says(sql, "unit", "samples/s")) { /* as each value has its own */
        LS_TRY(run(all, "DELETE FROM point WHERE number IS NULL", 0, NULL));
    }
    LS_TRY(read_series(all, bars, series));
    for (size_t i = 0; i < json_array_size(series); i++) {
        const json_t *one = json_array_get(series, i);
        longest = is_ours(one) && length_of(one) > longest ? length_of(one) : longest;
        for (size_t p = 0; p < length_of(one); p++)
            highest = fmax(highest, is_ours(one) ? at(one, p, 1) : 0);
    }
    said(sql, "wanted", wanted);
    if (!(highest > 0))
        note(all->reasons, own, "rows of %s, which have 0: %zu", sub, json_array_size(rows));
    else if (longest < 2 && says(sql, "template", "lines") && !says(sql, "one", "yes"))
        note(all->reasons, own, "rows of %s, with one place only (wanted: %s): %zu", sub, wanted,
             json_array_size(rows));
    else {
        tidy(&apart, own, sql, bars, series);
        add_figure(all, own, sql, rows, sub, series, categories);
        json_object_update(all->reasons, reasons);
        (*made)++;
    }
    return LS_OK;
}

/* ---- All pictures --------------------------------------------------------------------------- */

/* [[each, [number, ..]], ..] of the rows that have points: groups by `each`, the largest first. */
static ls_status find_groups(const album *all, const char *sql, json_t **out)
{
    static const char format[] =
        "SELECT json_group_array(json_array(each, json(numbers))) FROM (SELECT each,"
        " json_group_array(number) AS numbers FROM (SELECT number, %s AS each,"
        " json_array(machine, \"case.model_digest\", %s) AS key FROM r"
        " WHERE number IN (SELECT number FROM point) ORDER BY place) WHERE each IS NOT NULL"
        " GROUP BY each, key ORDER BY each, count(*) DESC, min(number))";
    char each[HEAD], by[HEAD], *text;
    sqlite3_stmt *statement;
    bool more;
    LS_TRY(run(all, "DELETE FROM chosen", 0, NULL));
    LS_TRY(run(all, "INSERT INTO chosen(place, number) SELECT number, number FROM facts", 0, NULL));
    LS_TRY(find_points(all, sql));
    said(sql, "each", each);
    if (asprintf(&text, format, *each ? each : "''", said(sql, "by", by)) < 0)
        return ls_fail_memory("report", strlen(sql));
    ls_status status = ls_results_prepare(all->db, text, &statement);
    free(text);
    if (!status)
        status = ls_results_step(all->db, statement, &more);
    if (!status)
        *out = json_loads(ls_results_text(statement, 0), 0, NULL);
    sqlite3_finalize(statement);
    return status;
}

static ls_status make_all(const album *all, const char *kind, const char *sql)
{
    json_auto_t *groups = NULL;
    json_t *group, *number;
    size_t i, k, made = 0, others = 0, more = 0;
    char name[80] = "", wanted[HEAD], last[32] = "?";
    LS_TRY(find_groups(all, sql, &groups));
    json_array_foreach(groups, i, group)
    {
        const char *each = json_string_value(json_array_get(group, 0));
        json_auto_t *rows = json_array();
        json_array_foreach(json_array_get(group, 1), k, number)
        {
            json_array_append(rows, json_array_get(all->rows, (size_t)json_integer_value(number) - 1));
        }
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
    if (others)
        note(all->reasons, kind,
             "rows of %zu smaller groups (model, batch, machine; --where chooses): %zu", more, others);
    if (json_array_size(groups) == 0)
        note(all->missing, kind, "no rows for it; wanted: %s", said(sql, "wanted", wanted));
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

static ls_status count_unused(const album *all, size_t bad, json_t *left_out)
{
    sqlite3_stmt *statement;
    bool more;
    LS_TRY(ls_results_prepare(all->db, "SELECT (SELECT count(*) FROM facts) - count(*) FROM used",
                              &statement));
    ls_status status = ls_results_step(all->db, statement, &more);
    const int unused = status ? 0 : sqlite3_column_int(statement, 0);
    sqlite3_finalize(statement);
    if (bad > 0)
        json_array_append_new(left_out, json_sprintf("rows that failed a check, could not run or "
                                                     "were interrupted: %zu; they are in the table",
                                                     bad));
    tell(all->reasons, left_out);
    tell(all->missing, left_out);
    if (unused > 0)
        json_array_append_new(
            left_out, json_sprintf("rows that fit no picture: %d; they are in the table", unused));
    return status;
}

ls_status ls_pictures(const json_t *rows, const char *against, json_t *left_out, json_t **out)
{
    album all = {.rows = ls_report_those(rows, ls_report_is_ok, NULL),
                 .against = against,
                 .figures = json_array(),
                 .reasons = json_object(),
                 .missing = json_object()};
    ls_status status = ls_results_memory(&all.db);
    if (!status)
        status = fill(&all);
    for (size_t i = 0; i < sizeof pictures / sizeof *pictures && !status; i++)
        status = make_all(&all, pictures[i].name, pictures[i].sql);
    if (!status)
        status = count_unused(&all, json_array_size(rows) - json_array_size(all.rows), left_out);
    ls_results_close(all.db);
    json_decref(all.missing);
    json_decref(all.reasons);
    json_decref(all.rows);
    *out = all.figures;
    return status;
}
