/* SPDX-License-Identifier: MIT */
/*
 * `results show`: what limits a row's step, then the figures that tell most, 45 lines at most; with
 * --all then all fields, group by group, one per line; or in a format.
 */
#include "bench/output/row_same.h"
#include "bench/output/row_shares.h"
#include "bench/output/table/table_parts.h"
#include "bench/results/results_verbs.h"
#include "bench/rows/row.h"

#include "common/base/escape.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD = 24, NAME = 10, WIDTH = 80, WRAPPED = 4, COMMAND_MOST = 3 * 68, NOTES_MOST = 3 };

/* All fields, with a heading for each group. */
static ls_status print_all(ls_results *results, const json_t *row)
{
    json_auto_t *fields = json_array();
    const char *group = "";
    json_t *one;
    size_t index;
    LS_TRY(ls_results_fields(results, row, NULL, fields));
    json_array_foreach(fields, index, one)
    {
        const char *path = json_string_value(json_object_get(one, "key"));
        char name[160], shown[640], *text = ls_value_text(json_object_get(one, "a"));
        const size_t length = strcspn(path, "."), inside = path[length] == '.' ? length + 1 : 0;
        if (inside && strncmp(path, group, inside) != 0) {
            snprintf(name, sizeof name, "%.*s", (int)length, path);
            ls_escape_copy(shown, sizeof shown, name, LS_ESCAPE_LINE);
            fprintf(ls_output(), "\n%s\n", shown);
            group = path;
        }
        ls_escape_copy(shown, sizeof shown, path + inside, LS_ESCAPE_LINE);
        fprintf(ls_output(), "%s%-*s ", inside ? "  " : "", inside ? FIELD : FIELD + 2, shown);
        ls_escape_put(ls_output(), text, SIZE_MAX, LS_ESCAPE_LINE);
        fputc('\n', ls_output());
        free(text);
    }
    return LS_OK;
}

/* ---- The figures that tell most -------------------------------------------------------------- */

/* Prints a line's text after its name, wrapped; nothing where it has none. */
static void print_named(const char *name, const char *text)
{
    if (*text) {
        fprintf(ls_output(), "%-*s", NAME, name);
        ls_text_wrap(ls_output(), text, NAME, NAME, WIDTH);
    }
}

/* The idle share, and what it comes from. */
static void print_pipeline(const json_t *row)
{
    const double idle = ls_row_real(row, LS_F_pipeline_bubble);
    const double equal = ls_row_real(row, LS_F_pipeline_bubble_equal);
    const double formula = ls_row_real(row, LS_F_pipeline_bubble_formula);
    const double slowest = ls_row_real(row, LS_F_pipeline_slowest_stage);
    char text[256] = "";
    if (equal > 0)
        snprintf(text, sizeof text, "idle %.0f%%: %.0f%% with equal stages", 100 * idle,
                 100 * equal);
    size_t used = strlen(text);
    if (slowest > 0 && formula > equal) {
        snprintf(text + used, sizeof text - used,
                 ", %.0f%% since the slowest works %.2f times the mean", 100 * (formula - equal),
                 slowest);
        used = strlen(text);
    }
    if (formula > 0 && idle - formula >= 0.005)
        snprintf(text + used, sizeof text - used, ", %.0f%% waiting for cores and messages",
                 100 * (idle - formula));
    print_named("pipeline", text);
}

/* What is missing from the memory of a model that is only sizes and times. */
static void print_memory_bound(const json_t *row)
{
    if (strcmp(ls_row_string(row, LS_F_prediction_durations), "profile") == 0)
        print_named("", "not counted: what a layer needs inside, which a profile does not say");
}

/* Below the label: the command, and the options of the case: "model mlp:784-128-10, ..". */
static void print_options(const json_t *row)
{
    json_auto_t *options = ls_options_new();
    ls_options_add(options, row, "");
    json_auto_t *fields = ls_options_names(options);
    char *text = ls_text_shown(ls_row_string(row, LS_F_command), LS_ESCAPE_LINE);
    size_t size, index;
    json_t *field;
    if (text) {
        ls_text_shorten(text, COMMAND_MOST);
        print_named("command", text);
    }
    free(text);
    text = NULL;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return;
    json_array_foreach(fields, index, field)
    {
        char title[LS_TITLE_SIZE], cell[LS_CELL_SIZE];
        ls_option_write(json_string_value(field), row, title, cell);
        if (*cell)
            fprintf(stream, "%s%s %s", ftell(stream) > 0 ? ", " : "", title, cell);
    }
    if (fclose(stream) == 0)
        print_named("case", text);
    free(text);
}

/* A figure of the sheet, or a function that prints lines. */
typedef struct part {
    const char *line; /* the name of the line that begins here; NULL: on the same line */
    const char *before, *after;
    ls_field_number field;
    ls_cell cell; /* LS_CELL_TEXT: as in every table */
    void (*print)(const json_t *row);
} part;

static const part sheet[] = {
    {"row", "", "", .field = LS_F_id},
    {NULL, "of ", "", .field = LS_F_timestamp},
    {"label", "", "", .field = LS_F_label},
    {.line = "", .print = print_options},
    {"status", "", "", .field = LS_F_result_status},
    {"step", "median ", " ms", .field = LS_F_time_step_ms_median},
    {NULL, "\xc2\xb1 ", "", .field = LS_F_time_step_ms_ci95},
    {NULL, "mean ", " ms", .field = LS_F_time_step_ms_mean},
    {NULL, "p90 ", " ms", .field = LS_F_time_step_ms_p90},
    {NULL, "p99 ", " ms", .field = LS_F_time_step_ms_p99},
    {NULL, "", " steps", .field = LS_F_time_step_ms_n},
    {NULL, "", " blocks", .field = LS_F_time_blocks},
    {"rate", "", " samples/s", .field = LS_F_time_samples_per_s},
    {NULL, "all trained / time ", "", .field = LS_F_time_samples_per_s_mean},
    {NULL, "speed-up ", "", .field = LS_F_time_speedup},
    {NULL, "efficiency ", "", .field = LS_F_time_efficiency},
    {NULL, "of the roof ", "", .field = LS_F_time_mfu},
    {"mean step", "compute ", " ms", .field = LS_F_waterfall_compute_ms},
    {NULL, "communication ", " ms", .field = LS_F_waterfall_comm_exposed_ms},
    {NULL, "copies ", " ms", .field = LS_F_waterfall_copy_ms},
    {NULL, "waiting ", " ms", .field = LS_F_waterfall_wait_ms},
    {NULL, "optimizer ", " ms", .field = LS_F_waterfall_optimizer_ms},
    {NULL, "harness ", " ms", .field = LS_F_waterfall_harness_ms},
    {.line = "", .print = print_pipeline},
    {"lead", "most ", " steps", .field = LS_F_lead_max},
    {NULL, "staleness ", " updates", .field = LS_F_staleness_mean},
    {"training", "first loss ", "", .field = LS_F_train_loss_first},
    {NULL, "last loss ", "", .field = LS_F_train_loss_last},
    {NULL, "accuracy ", "", .field = LS_F_train_accuracy},
    {NULL, "of ", " test samples", .field = LS_F_train_evaluated},
    {"equal", "", "", .field = LS_F_equivalence_grade, .cell = LS_CELL_VALUE},
    {NULL, "", "", .field = LS_F_equivalence_oracle},
    {NULL, "digest ", "", .field = LS_F_equivalence_digest},
    {"traffic", "", " sent a step", .field = LS_F_traffic_bytes_sent},
    {NULL, "", " messages", .field = LS_F_traffic_messages_sent},
    {NULL, "averages every ", " steps", .field = LS_F_case_period},
    {"memory", "fullest device ", "", .field = LS_F_memory_devices_peak},
    {NULL, "process ", "", .field = LS_F_memory_rss_peak},
    {"of which", "parameters ", "", .field = LS_F_memory_devices_parameters},
    {NULL, "gradients ", "", .field = LS_F_memory_devices_gradients},
    {NULL, "optimizer ", "", .field = LS_F_memory_devices_optimizer},
    {NULL, "activations ", "", .field = LS_F_memory_devices_activations},
    {NULL, "communication ", "", .field = LS_F_memory_devices_communication},
    {NULL, "workspace ", "", .field = LS_F_memory_devices_workspace},
    {.line = "", .print = print_memory_bound},
    {"operation", "", "", .field = LS_F_micro_op},
    {NULL, "", "", .field = LS_F_micro_shape},
    {NULL, "", "", .field = LS_F_micro_size_bytes, .cell = LS_CELL_BYTES},
    {NULL, "", " us", .field = LS_F_micro_time_us},
    {NULL, "bus ", " GB/s", .field = LS_F_micro_busbw_gbs},
    {NULL, "", " GFLOP/s", .field = LS_F_micro_gflops},
    {NULL, "", "", .field = LS_F_micro_kernel},
    {"machine", "", "", .field = LS_F_provenance_host},
    {NULL, "", "", .field = LS_F_provenance_cpu},
    {NULL, "", "", .field = LS_F_provenance_gpu},
    {NULL, "", "", .field = LS_F_provenance_loops_isa},
    {NULL, "", " cores a device", .field = LS_F_provenance_cores_per_device},
    {NULL, "others used ", " cores", .field = LS_F_noise_others},
    {"source", "commit ", "", .field = LS_F_provenance_commit},
    {NULL, "changed ", "", .field = LS_F_provenance_dirty},
    {NULL, "", "", .field = LS_F_provenance_compiler},
};

static void print_sheet(const json_t *row)
{
    const size_t count = sizeof sheet / sizeof *sheet;
    for (size_t i = 0, end; i < count; i = end) {
        char text[LS_CELL_SIZE * 7] = "", cell[LS_CELL_SIZE], title[64];
        for (end = i; end == i || (end < count && !sheet[end].line); end++) {
            const part *one = &sheet[end];
            const size_t used = strlen(text);
            if (one->print) {
                one->print(row);
                continue;
            }
            ls_column column = ls_column_of(ls_fields[one->field].path, title);
            column.cell = one->cell ? one->cell : column.cell;
            ls_cell_write(&column, row, cell);
            if (*cell)
                snprintf(text + used, sizeof text - used, "%s%s%s%s", used ? ", " : "", one->before,
                         cell, one->after);
        }
        print_named(sheet[i].line, text);
    }
}

/* Why it is not ok, and what is odd: noise comes before what is made of it. */
static void print_notes(const json_t *row)
{
    char *reason = ls_row_reason(row);
    print_named("reason", reason ? reason : "");
    free(reason);
    for (size_t i = 0; i < ls_row_count(row, LS_F_result_notes) && i < NOTES_MOST; i++)
        print_named(i ? "" : "note", ls_row_string_at(row, LS_F_result_notes, i));
}

/* ---- Shares ---------------------------------------------------------------------------------- */

/* Rows beside which one can stand. */
typedef struct beside {
    const json_t *row;
    json_t *rows;
} beside;

static ls_status keep_beside(void *context, int64_t number, const json_t *row)
{
    const beside *b = context;
    (void)number;
    if (ls_row_is_beside(b->row, row))
        json_array_append(b->rows, (json_t *)(size_t)row);
    return LS_OK;
}

static void print_beside(const json_t *row, const json_t *whole)
{
    char text[400] = "", held[32], its_held[32], id[64];
    const ls_saving its = ls_row_saving(row, whole);
    const double less = its.whole_held > 0 ? 1 - its.held / its.whole_held : 0;
    ls_escape_copy(id, sizeof id, ls_row_string(whole, LS_F_id), LS_ESCAPE_LINE);
    size_t used =
        (size_t)snprintf(text, sizeof text, "fullest device %s, of mirrored %s: %.0f%% %s",
                         ls_format_bytes(its.held, held), ls_format_bytes(its.whole_held, its_held),
                         100 * fabs(less), less < 0 ? "more" : "less");
    if (its.step.value > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, "; its step %.2f times",
                                 its.step.value);
    if (its.step.low > 0)
        used += (size_t)snprintf(text + used, sizeof text - used, " (%.2f to %.2f)", its.step.low,
                                 its.step.high);
    if (its.sent > 0)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "; bytes sent %.2f times", its.sent);
    snprintf(text + used, sizeof text - used, "; row %s", id);
    print_named("shares", text);
}

/* What a row with shares saves and costs beside `mirrored`. */
static ls_status print_saving(ls_results *results, const json_t *row)
{
    json_auto_t *rows = json_array();
    beside context = {row, rows};
    ls_selection selection;
    char where[64];
    snprintf(where, sizeof where, "strategy=%s", ls_whole_strategy()->name);
    ls_status status = ls_selection_open(where, NULL, NULL, NULL, &selection);
    if (!status)
        status = ls_selection_each(&selection, results, keep_beside, &context, NULL);
    ls_selection_close(&selection);
    LS_TRY(status);
    if (ls_row_beside(row, rows))
        print_beside(row, ls_row_beside(row, rows));
    else
        print_named("shares", "no row of mirrored beside it; --strategy mirrored,zero runs both");
    return LS_OK;
}

/* ---- What limits the step -------------------------------------------------------------------- */

/* An option that is tried next, and what rows that have its value say of it. */
typedef struct tried {
    const json_t *row;
    const char *field; /* of the case */
    double longer;     /* step per sample over the row's, of the latest row; 0: not slower */
    char id[64];
} tried;

static ls_status look_at_tried(void *context, int64_t number, const json_t *row)
{
    tried *t = context;
    ls_interval mine, its;
    const bool batch = strcmp(t->field, "batch_global") == 0;
    const char *const fields[] = {t->field, batch ? "batch_per_device" : NULL, NULL};
    (void)number;
    if (!ls_row_same_but(t->row, row, fields, false))
        return LS_OK;
    const bool known = ls_row_pace(t->row, &mine), its_known = ls_row_pace(row, &its);
    const double batches =
        ls_row_real(row, LS_F_case_batch_global) / ls_row_real(t->row, LS_F_case_batch_global);
    if (!(mine.value > 0 && its.value > 0 && batches > 0))
        return LS_OK;
    const ls_interval ratio = ls_statistics_ratio(its, mine);
    const bool slower = known && its_known ? ratio.low > batches : its.value / mine.value > batches;
    t->longer = slower ? its.value / mine.value / batches : 0;
    ls_escape_copy(t->id, sizeof t->id, ls_row_string(row, LS_F_id), LS_ESCAPE_LINE);
    return LS_OK;
}

/* Does not suggest what these rows show to be slower: of "Try --ps-servers 2: each has half" they
 * are those with ps-servers=2. */
static ls_status weigh(ls_results *results, const json_t *row, const char *said, char text[256])
{
    char option[48], value[48], where[100];
    const char *key;
    ls_selection selection;
    *text = 0;
    if (sscanf(said, "Try --%47[a-z-] %47[^ :,]", option, value) != 2)
        return LS_OK;
    value[strlen(value) - (value[strlen(value) - 1] == '.')] = 0;
    snprintf(where, sizeof where, "%s=%s", option, value);
    ls_status status = ls_row_key_find("row", option, strlen(option), &key);
    const bool of_case = !status && strncmp(key, "case.", 5) == 0;
    if (of_case)
        status = ls_selection_open(where, NULL, NULL, NULL, &selection);
    if (status || !of_case) { /* no row has such a field, or such a value of it */
        ls_status_free(status);
        return LS_OK;
    }
    tried t = {.row = row, .field = key + 5};
    status = ls_selection_each(&selection, results, look_at_tried, &t, NULL);
    ls_selection_close(&selection);
    if (t.longer > 0)
        snprintf(text, 256,
                 "Not %.*s, which was the next to try: it took %.2f times as long a "
                 "sample in row %s.",
                 (int)strcspn(said + 4, ":."), said + 4, t.longer, t.id);
    return status;
}

/* Line by line, each wrapped below its first word. */
static ls_status print_bound(ls_results *results, const json_t *row)
{
    char *sql =
        sqlite3_mprintf("SELECT rowid FROM main.rows WHERE id = %Q", ls_row_string(row, LS_F_id));
    int64_t number;
    ls_status status = sql ? ls_results_ask(results, sql, &number) : ls_fail_memory("row", 0);
    char *bound = status ? NULL : ls_results_bound(results, number, row), *rest = bound, *one,
         other[256];
    const bool any = bound && *bound;
    sqlite3_free(sql);
    while (any && !status && (one = strtok_r(rest, "\n", &rest))) {
        status = weigh(results, row, one, other);
        one = *other ? other : one;
        fputc(*one, ls_output());
        ls_text_wrap(ls_output(), one + 1, 1, WRAPPED, WIDTH);
    }
    if (any)
        fputc('\n', ls_output());
    free(bound);
    return status;
}

static ls_status print_text(ls_results *results, const json_t *row, bool all)
{
    print_notes(row);
    LS_TRY(print_bound(results, row));
    if (all)
        return print_all(results, row);
    print_sheet(row);
    if (ls_row_has_shares(row))
        LS_TRY(print_saving(results, row));
    fputs("--all shows every field.\n", ls_output());
    return LS_OK;
}

ls_status ls_results_show(ls_results_task *task)
{
    json_t *row;
    LS_TRY(ls_results_find(task->results, task->set->operands[1], &row));
    json_auto_t *rows = json_pack("[o]", row);
    if (task->form || task->chosen.columns.count > 0)
        return ls_rows_write(task->form, ls_results_columns(task, NULL), rows, ls_output());
    return print_text(task->results, row, ls_option_set_yes(task->set, "all"));
}
