/* SPDX-License-Identifier: MIT */
/* What limits a row's step: the rules are bound.sql; this gives them what no row says. */
#include "bench/output/results_db.h"
#include "bench/results/results_verbs.h"
#include "bench/rows/row.h"
#include "common/device/link.h"
#include "template_bound.h"

#include <stdlib.h>
#include <string.h>

/* An unset parameter is NULL. */
static void set(sqlite3_stmt *statement, const char *name, double value)
{
    sqlite3_bind_double(statement, sqlite3_bind_parameter_index(statement, name), value);
}

static void set_parameters(sqlite3_stmt *statement, const json_t *row)
{
    const ls_strategy *strategy = ls_row_strategy(row);
    const char *text = ls_row_string(row, LS_F_case_link);
    ls_link link = {0};
    ls_status status = *text ? ls_link_parse(text, &link) : LS_OK;
    if (*text && !status)
        set(statement, ":link_ms",
            1e-6 * (double)link.latency_ns * ls_row_real(row, LS_F_traffic_messages_sent) +
                (link.bytes_per_s > 0
                     ? 1e3 * ls_row_real(row, LS_F_traffic_bytes_sent) / link.bytes_per_s
                     : 0));
    ls_status_free(status);
    set(statement, ":holder", strategy && ls_strategy_holds(strategy));
    set(statement, ":replicated", !strategy || ls_strategy_replicates(strategy));
    set(statement, ":period", ls_case_period(ls_row_group(row, LS_G_case)));
    if (strategy && strategy->average.period)
        sqlite3_bind_text(statement, sqlite3_bind_parameter_index(statement, ":period_option"),
                          strategy->average.period->name, -1, SQLITE_STATIC);
}

static ls_status write_lines(ls_results *results, int64_t number, const json_t *row, FILE *stream)
{
    sqlite3_stmt *statement;
    bool more = false;
    LS_TRY(ls_results_keep(results, ls_template_bound, &statement));
    sqlite3_bind_int64(statement, sqlite3_bind_parameter_index(statement, ":number"), number);
    set_parameters(statement, row);
    ls_status status = ls_results_step(results, statement, &more);
    for (int i = 0; more && i < sqlite3_column_count(statement); i++)
        if (sqlite3_column_type(statement, i) != SQLITE_NULL) {
            ls_escape_put(stream, ls_results_text(statement, i), SIZE_MAX, LS_ESCAPE_LINE);
            fputc('\n', stream);
        }
    sqlite3_reset(statement);
    return status;
}

char *ls_results_bound(ls_results *results, int64_t number, const json_t *row)
{
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    ls_status status = write_lines(results, number, row, stream);
    fclose(stream);
    if (status) { /* no memory */
        free(text);
        text = NULL;
    }
    ls_status_free(status);
    return text;
}
