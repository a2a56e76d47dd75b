/* SPDX-License-Identifier: MIT */
/* Rows of pictures, and their points; see album.h and pictures.h. */
#include "bench/report/album.h"

#include "bench/output/format.h"
#include "bench/output/row_same.h"
#include "bench/output/row_shares.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw.h"
#include "bench/report/text.h"
#include "common/base/numbers.h"
#include "common/device/link.h"

#include <stdlib.h>
#include <string.h>

const char *ls_picture_said(const char *sql, const char *what, char out[LS_HEAD])
{
    char line[32];
    snprintf(line, sizeof line, "-- %s: ", what);
    const char *at = strstr(sql, line);
    *out = 0;
    if (at)
        ls_text_add(out, LS_HEAD, "%.*s", (int)strcspn(at + strlen(line), "\n"), at + strlen(line));
    return out;
}

static const char facts_sql[] =
    "CREATE TEMP TABLE picked (place INTEGER PRIMARY KEY, number INTEGER);"
    "CREATE TEMP TABLE facts (number INTEGER PRIMARY KEY, trainers REAL, machine INTEGER,"
    " delay REAL, bandwidth REAL, latency REAL, held_over REAL, step_over REAL, step_over_low REAL,"
    " step_over_high REAL, against TEXT, name TEXT);"
    "CREATE TEMP TABLE point (id INTEGER PRIMARY KEY, number INTEGER, series TEXT, x REAL, y REAL,"
    " low REAL, high REAL);"
    "CREATE TEMP TABLE used (number INTEGER PRIMARY KEY);";

ls_status ls_album_run(const ls_album *all, const char *sql, int64_t number, const char *text)
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
        ls_status_free(ls_link_parse(
            text + (strncmp(text, flat, strlen(flat)) == 0 ? strlen(flat) : 0), &link));
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

enum { MACHINE = LS_OF_CLASS | LS_OF_HOST };

ls_status ls_album_fill(const ls_album *all)
{
    json_auto_t *known = json_array();
    json_auto_t *ok = ls_report_those(all->rows, ls_report_is_ok, NULL);
    sqlite3_stmt *facts;
    const bool together = ls_report_machine_each(ok, all->against);
    bool more;
    ls_status status = LS_OK;
    for (const char *sql = facts_sql; *sql && !status; sql = strchr(sql, ';') + 1)
        status = ls_album_run(all, sql, 0, NULL);
    if (!status)
        status = ls_results_prepare(
            all->db, "INSERT INTO facts VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, '')",
            &facts);
    for (size_t i = 0; i < json_array_size(all->rows) && !status; i++) {
        const json_t *row = json_array_get(all->rows, i);
        char value[LS_KEY_SIZE] = "", text[LS_KEY_SIZE];
        if (!ls_report_is_ok(row, NULL))
            continue;
        if (all->against)
            snprintf(value, sizeof value, ", %s",
                     ls_report_text(row, all->against, text, sizeof text - 2));
        sqlite3_bind_int64(facts, 1, (int64_t)i + 1);
        sqlite3_bind_int64(facts, 3, together ? 0 : (int64_t)ls_row_machine(known, row, MACHINE));
        bind_facts(facts, row, ok);
        sqlite3_bind_text(facts, 11, value, -1, SQLITE_TRANSIENT);
        status = ls_results_step(all->db, facts, &more);
        sqlite3_reset(facts);
    }
    sqlite3_finalize(facts);
    return status;
}

/* ---- Points --------------------------------------------------------------------------------- */

/* Views and their long rows are read once: all that queries name as "group.field" becomes a table,
 * and `s` a view of that. */
ls_status ls_album_read(const ls_album *all, const char *queries)
{
    static const char derived[] =
        "place AS at, number AS of, rate, rate_low, rate_high, pace, pace_low, pace_high, uneven, "
        "is_bad, is_predicted, is_noisy, is_candidate, \"case.model_digest\", id, timestamp, "
        "label, "
        "command";
    static const char *const views[] = {
        "CREATE UNIQUE INDEX temp.read_at ON read (at)", "DROP VIEW temp.s",
        "CREATE TEMP VIEW s AS SELECT at AS place, of AS number, *,"
        " (SELECT row FROM main.rows WHERE rowid = of) AS row FROM temp.read",
        "CREATE TEMP VIEW r AS SELECT * FROM temp.picked JOIN temp.facts USING (number)"
        " JOIN temp.read ON at = number"};
    char *text = NULL;
    size_t size;
    json_auto_t *known = json_pack("{s:b}", "case.model_digest", 1);
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return ls_fail_memory("report", 0);
    fprintf(stream, "CREATE TEMP TABLE read AS SELECT %s", derived);
    for (const char *at = queries; (at = strchr(at, '"'));) {
        char name[80] = "";
        const size_t length = strcspn(++at, "\"");
        ls_text_add(name, sizeof name, "%.*s", (int)length, at);
        at += length + 1;
        if (strchr(name, '.') && !json_object_get(known, name))
            fprintf(stream, ", \"%s\"", name);
        json_object_set_new(known, name, json_true());
    }
    fputs(" FROM s ORDER BY place", stream);
    fclose(stream);
    ls_status status = ls_album_run(all, text, 0, NULL);
    free(text);
    for (size_t i = 0; i < sizeof views / sizeof *views && !status; i++)
        status = ls_album_run(all, views[i], 0, NULL);
    return status;
}

ls_status ls_album_points(const ls_album *all, const char *sql)
{
    static const char format[] =
        "WITH q(number, part, x, y, low, high) AS (%s) INSERT INTO point(number, series, x, y, low,"
        " high) SELECT q.number, coalesce(part, iif(name = '', 'all', name)), x, y,"
        " iif(abs(low) <= 1e100, low, y), iif(abs(high) <= 1e100, high, y)"
        " FROM q LEFT JOIN facts USING (number)"
        " WHERE x BETWEEN 0 AND 1e100 AND y BETWEEN 0 AND 1e100";
    char *text;
    LS_TRY(ls_album_run(all, "DELETE FROM point", 0, NULL));
    if (asprintf(&text, format, sql) < 0)
        return ls_fail_memory("report", strlen(sql));
    ls_status status = ls_album_run(all, text, 0, NULL);
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

/* Whether two names of series differ in nothing but that the rows of one were predicted. */
static bool is_same_but_predicted(const char *a, const char *b)
{
    static const char mark[] = " (predicted)";
    const char *rest_a = strstr(a, mark), *rest_b = strstr(b, mark);
    const size_t of_a = rest_a ? (size_t)(rest_a - a) : strlen(a);
    const size_t of_b = rest_b ? (size_t)(rest_b - b) : strlen(b);
    const size_t head = of_a < of_b ? of_a : of_b;
    return strncmp(a, b, head) == 0 && strcmp(rest_a ? rest_a + strlen(mark) : a + head,
                                              rest_b ? rest_b + strlen(mark) : b + head) == 0;
}

/* Adds an empty series. Those of one colour are told by marks and dashes, a predicted one from what
 * was measured of the same by a hollow mark. */
static json_t *add_series(const ls_album *all, json_t *list, const char *name, int64_t number,
                          bool parts)
{
    const json_t *row = number ? json_array_get(all->rows, (size_t)number - 1) : NULL;
    const bool is_predicted = strstr(name, " (predicted)");
    const int style = !row                            ? LS_STYLE_IDEAL
                      : parts                         ? (int)json_array_size(list)
                      : ls_report_is_peer(row)        ? LS_STYLE_PEER
                      : json_object_get(row, "micro") ? LS_STYLE_NEUTRAL
                                                      : ls_report_strategy_index(row);
    int variant = 0;
    for (size_t i = 0; i < json_array_size(list) && !parts; i++) {
        const json_t *one = json_array_get(list, i);
        const json_int_t its = json_integer_value(json_object_get(one, "style"));
        const json_int_t of_it = json_integer_value(json_object_get(one, "variant"));
        const bool same = is_same_but_predicted(name, ls_text_of(one, "name"));
        if (its == style || (its >= LS_STYLES_OWN && style >= LS_STYLES_OWN))
            variant = (int)of_it + (same ? 0 : 1);
        if (same)
            break;
    }
    json_array_append_new(list, json_pack("{s:s,s:i,s:i,s:b,s:[]}", "name", name, "style", style,
                                          "variant", variant, "predicted", is_predicted, "points"));
    return json_array_get(list, json_array_size(list) - 1);
}

ls_status ls_album_series(const ls_album *all, bool parts, json_t *list)
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

ls_status ls_album_groups(const ls_album *all, const char *sql, json_t **out)
{
    static const char format[] =
        "SELECT json_group_array(json_array(each, json(numbers))) FROM (SELECT each,"
        " json_group_array(number) AS numbers FROM (SELECT number, %s AS each,"
        " json_array(machine, \"case.model_digest\", %s) AS key FROM r"
        " WHERE %s ORDER BY place) WHERE each IS NOT NULL"
        " GROUP BY each, key ORDER BY each, count(*) DESC, min(number))";
    char each[LS_HEAD], by[LS_HEAD], of[LS_HEAD], *text;
    sqlite3_stmt *statement;
    bool more;
    LS_TRY(ls_album_run(all, "DELETE FROM picked", 0, NULL));
    LS_TRY(ls_album_run(all, "INSERT INTO picked(place, number) SELECT number, number FROM facts",
                        0, NULL));
    LS_TRY(ls_album_points(all, sql));
    ls_picture_said(sql, "each", each);
    ls_picture_said(sql, "of", of);
    if (asprintf(&text, format, *each ? each : "''", ls_picture_said(sql, "by", by),
                 *of ? of : "number IN (SELECT number FROM point)") < 0)
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

/* ---- Headings ------------------------------------------------------------------------------- */

/* Whether a text "a, b, c" has this part. */
static bool has_part(const char *text, const char *part, size_t length)
{
    for (const char *at = text; at; at = strstr(at, ", "), at = at ? at + 2 : NULL)
        if (strncmp(at, part, length) == 0 && (!at[length] || strncmp(at + length, ", ", 2) == 0))
            return true;
    return false;
}

/* Adds the parts of a figure's text that not all figures of its title have. */
static void add_own_parts(const json_t *figures, const json_t *figure, const char *what, char *out,
                          size_t size)
{
    for (const char *part = ls_text_of(figure, what); *part;) {
        const char *end = strstr(part, ", ");
        const size_t length = end ? (size_t)(end - part) : strlen(part);
        bool differs = false;
        for (size_t i = 0; i < json_array_size(figures); i++) {
            const json_t *other = json_array_get(figures, i);
            differs |= strcmp(ls_text_of(other, "title"), ls_text_of(figure, "title")) == 0 &&
                       !has_part(ls_text_of(other, what), part, length);
        }
        if (differs)
            ls_text_add(out, size, "%s%.*s", *out ? ", " : "", (int)length, part);
        part += length + (end ? 2 : 0);
    }
}

void ls_album_headings(const ls_album *all)
{
    json_t *figures = all->figures, *figure;
    size_t i;
    json_array_foreach(figures, i, figure)
    {
        const char *title = ls_text_of(figure, "title"), *sub = ls_text_of(figure, "sub");
        char own[1100] = "", origin[600] = "";
        size_t same = 0;
        for (size_t k = 0; k < json_array_size(figures); k++) {
            const json_t *other = json_array_get(figures, k);
            same += strcmp(ls_text_of(other, "title"), title) == 0 &&
                    strcmp(ls_text_of(other, "sub"), sub) == 0;
        }
        add_own_parts(figures, figure, "sub", own, sizeof own);
        if (same > 1)
            add_own_parts(figures, figure, "foot", origin, sizeof origin);
        if (*origin)
            ls_text_add(own, sizeof own, "%s%s", *own ? ", " : "", origin);
        json_object_set_new(figure, "heading",
                            json_sprintf("%s%s%s", title, *own ? ": " : "", own));
        json_object_set_new(figure, "alt",
                            json_sprintf("%s (%s%s%s), %zu series", title, sub, *origin ? ", " : "",
                                         origin,
                                         json_array_size(json_object_get(figure, "series"))));
    }
}
