/* SPDX-License-Identifier: MIT */
/* What the statements of a report call that only C can say; see page.h. */
#include "bench/report/page.h"
#include "bench/rows/row.h"
#include "bench/statistics/statistics.h"
#include "build_info.h"
#include "common/base/digest.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(sqlite3_value *value)
{
    const char *text = (const char *)sqlite3_value_text(value);
    return text ? text : "";
}

/* ---- Of rows -------------------------------------------------------------------------------- */

/* report_fact(what): its "hash" of all rows, or the program's "version". */
static void report_fact(sqlite3_context *context, int count, sqlite3_value **value)
{
    const ls_page *page = sqlite3_user_data(context);
    uint64_t hash = 0;
    char text[64];
    const json_t *row;
    size_t i;
    (void)count;
    json_array_foreach(page->rows, i, row)
    {
        const char *id = ls_row_string(row, LS_F_id);
        hash = 31 * hash + ls_hash64(id, strlen(id));
    }
    snprintf(text, sizeof text, "%06x", (unsigned)(hash & 0xffffff));
    sqlite3_result_text(context, strcmp(text_of(*value), "hash") == 0 ? text : LS_VERSION, -1,
                        SQLITE_TRANSIENT);
}

/* ---- Of fields and texts -------------------------------------------------------------------- */

/* delay_ms(fault): 0 without a fault, negative of another one. */
static void delay_ms(sqlite3_context *context, int count, sqlite3_value **value)
{
    const char *text = text_of(*value), *colon = strchr(text, ':');
    uint64_t ns;
    const bool delays =
        strncmp(text, "delay=", 6) == 0 && colon && ls_parse_duration(colon + 1, &ns);
    (void)count;
    sqlite3_result_double(context, delays ? (double)ns * 1e-6 : *text ? -1 : 0);
}

/* ---- Numbers as people read them ------------------------------------------------------------ */

/* "1.2 ms", "83%", "571,445" */
static char *shown(double value, const char *unit, char out[48])
{
    const bool share = strcmp(unit, "%") == 0, bytes = strcmp(unit, "bytes") == 0;
    if (share)
        snprintf(out, 48, "%.0f%%", 100 * value);
    else if (bytes)
        ls_format_bytes(value, out);
    else if (fabs(value) >= 1e15)
        snprintf(out, 48, "%.0f", value);
    else if (fabs(value) >= 1000)
        sqlite3_snprintf(48, out, "%,lld", llrint(value));
    else
        snprintf(out, 48, "%.3g", value);
    if (*unit && !share && !bytes)
        ls_text_add(out, 48, " %s", unit);
    return out;
}

/* figure_text(value, unit); "plain": four digits that the page can sort by. Nothing for what is not
 * a number, or, with "plain", not above 0. */
static void figure_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    const char *unit = text_of(value[1]);
    const double number = sqlite3_value_double(value[0]);
    const bool plain = strcmp(unit, "plain") == 0;
    char text[48];
    (void)count;
    if (sqlite3_value_numeric_type(value[0]) > SQLITE_FLOAT || (plain && !(number > 0)))
        return;
    if (plain)
        snprintf(text, sizeof text, number >= 1000 && number < 1e10 ? "%.0f" : "%.4g", number);
    else
        shown(number, unit, text);
    sqlite3_result_text(context, text, -1, SQLITE_TRANSIENT);
}

/* "25,600 (25,347 to 25,859)"; without an interval, whose low is 0 then, "25,600". */
static void give_interval(sqlite3_context *context, ls_interval of)
{
    char value[48], low[48], high[48], text[160];
    if (!isfinite(of.value))
        return;
    shown(of.value, "", value);
    if (of.low > 0)
        snprintf(text, sizeof text, "%s (%s to %s)", value, shown(of.low, "", low),
                 shown(of.high, "", high));
    sqlite3_result_text(context, of.low > 0 ? text : value, -1, SQLITE_TRANSIENT);
}

static ls_interval read_interval(sqlite3_value **value)
{
    return (ls_interval){sqlite3_value_double(value[0]), sqlite3_value_double(value[1]),
                         sqlite3_value_double(value[2])};
}

static void interval_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    (void)count;
    give_interval(context, read_interval(value));
}

/* ratio_text(a, low, high, b, low, high): a / b, with an interval if both have one. */
static void ratio_text(sqlite3_context *context, int count, sqlite3_value **value)
{
    const ls_interval a = read_interval(value), b = read_interval(value + 3);
    (void)count;
    give_interval(context, a.low > 0 && b.low > 0 ? ls_statistics_ratio(a, b)
                                                  : (ls_interval){a.value / b.value, 0, 0});
}

void ls_page_add_functions(const ls_page *page, sqlite3 *db)
{
    static const struct {
        const char *name;
        int arguments;
        void (*call)(sqlite3_context *, int, sqlite3_value **);
    } functions[] = {
        {"report_fact", 1, report_fact}, {"delay_ms", 1, delay_ms},
        {"figure_text", 2, figure_text}, {"interval_text", 3, interval_text},
        {"ratio_text", 6, ratio_text},
    };
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        sqlite3_create_function(db, functions[i].name, functions[i].arguments, SQLITE_UTF8,
                                (void *)(size_t)page, functions[i].call, NULL, NULL);
}
