/* SPDX-License-Identifier: MIT */
/*
 * `results show`: what limits a row's step, then the figures that tell most, 45 lines at most; with
 * --all then all fields, group by group, one per line; or in a format. A nested
 * group, and each of several devices, gets a heading.
 */
#include "bench/output/row_same.h"
#include "bench/output/row_shares.h"
#include "bench/output/table/table_parts.h"
#include "bench/results/results_verbs.h"

#include "common/base/escape.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FIELD = 24 };

static void print_members(const json_t *group, const char *before);

/* A name, which a foreign row may have any of, and its value. */
static void print_line(const char *before, int width, const char *name, const json_t *value)
{
    char shown[640], *text = ls_value_text(value);
    ls_escape_copy(shown, sizeof shown, name, LS_ESCAPE_LINE);
    fprintf(ls_output(), "%s%-*s ", before, width, shown);
    ls_escape_put(ls_output(), text, SIZE_MAX, LS_ESCAPE_LINE);
    fputc('\n', ls_output());
    free(text);
}

static void print_field(const char *before, const char *name, const json_t *value)
{
    char path[160];
    snprintf(path, sizeof path, "%s%s", before, name);
    if (json_is_object(value)) {
        strncat(path, ".", sizeof path - strlen(path) - 1);
        print_members(value, path);
        return;
    }
    if (json_is_object(json_array_get(value, 0))) {
        for (size_t i = 0; i < json_array_size(value); i++) {
            char part[192];
            snprintf(part, sizeof part, "%s %zu: ", path, i);
            print_members(json_array_get(value, i), part);
        }
        return;
    }
    print_line("  ", FIELD, path, value);
}

static void print_members(const json_t *group, const char *before)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(size_t)group, name, value) print_field(before, name, value);
}

static void print_all(const json_t *row)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(size_t)row, name, value)
    {
        if (json_is_object(value)) {
            fputc('\n', ls_output());
            ls_escape_put(ls_output(), name, SIZE_MAX, LS_ESCAPE_LINE);
            fputc('\n', ls_output());
            print_members(value, "");
        } else if (json_is_object(json_array_get(value, 0))) {
            fputc('\n', ls_output());
            print_field("", name, value);
        } else {
            print_line("", FIELD + 2, name, value);
        }
    }
}

/* ---- The figures that tell most -------------------------------------------------------------- */

enum { NAME = 10, WIDTH = 80, WRAPPED = 4, COMMAND_MOST = 3 * 68, NOTES_MOST = 3 };

/* A part of a line: what stands before a figure and after it. */
typedef struct part {
    const char *before, *path;
    ls_cell cell;
    const char *after;
} part;

typedef struct line {
    const char *name;
    part parts[7];
    void (*more)(const json_t *row); /* printed behind it; may be NULL */
} line;

/* Prints a line's text after its name, wrapped; nothing where it has none. */
static void print_named(const char *name, char *text)
{
    if (*text) {
        fprintf(ls_output(), "%-*s", NAME, name);
        ls_text_wrap(ls_output(), text, NAME, NAME, WIDTH);
    }
}

static void print_figures(const json_t *row, const line *of)
{
    char text[LS_CELL_SIZE * 7] = "", cell[LS_CELL_SIZE];
    for (size_t i = 0; i < sizeof of->parts / sizeof *of->parts && of->parts[i].path; i++) {
        const part *one = &of->parts[i];
        const ls_column column = {.path = one->path, .cell = one->cell};
        const size_t used = strlen(text);
        ls_cell_write(&column, row, cell);
        if (*cell)
            snprintf(text + used, sizeof text - used, "%s%s%s%s", used ? ", " : "", one->before,
                     cell, one->after);
    }
    print_named(of->name, text);
}

/* The idle share, and what it comes from. */
static void print_pipeline(const json_t *row)
{
    const double idle = ls_row_number(row, "pipeline.bubble");
    const double equal = ls_row_number(row, "pipeline.bubble_equal");
    const double formula = ls_row_number(row, "pipeline.bubble_formula");
    const double slowest = ls_row_number(row, "pipeline.slowest_stage");
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
    char text[] = "not counted: what a layer needs inside, which a profile does not say";
    const char *durations = ls_row_text(row, "prediction", "durations");
    if (durations && strcmp(durations, "profile") == 0)
        print_named("", text);
}

static void print_command(const json_t *row)
{
    const char *command = json_string_value(json_object_get(row, "command"));
    char *shown = command ? ls_text_shown(command, LS_ESCAPE_LINE) : NULL;
    if (shown) {
        ls_text_shorten(shown, COMMAND_MOST);
        print_named("command", shown);
    }
    free(shown);
}

/* The options of the case: "model mlp:784-128-10, strategy mirrored, .." */
static void print_case(const json_t *row)
{
    json_t *group = json_object_get(row, "case");
    json_auto_t *groups = group ? json_pack("[O]", group) : json_array();
    json_auto_t *fields = ls_case_fields(groups);
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return;
    for (size_t i = 0; i < json_array_size(fields); i++) {
        char title[64], path[80], cell[LS_CELL_SIZE];
        const ls_column column =
            ls_case_column(json_string_value(json_array_get(fields, i)), title, path);
        ls_cell_write(&column, row, cell);
        if (*cell)
            fprintf(stream, "%s%s %s", ftell(stream) > 0 ? ", " : "", title, cell);
    }
    if (fclose(stream) == 0)
        print_named("case", text);
    free(text);
}

/* Below the label: command and case. */
static void print_options(const json_t *row)
{
    print_command(row);
    print_case(row);
}

static const line lines[] = {
    {"row", {{"", "id", LS_CELL_TEXT, ""}, {"of ", "timestamp", LS_CELL_TEXT, ""}}, NULL},
    {"label", {{"", "label", LS_CELL_TEXT, ""}}, print_options},
    {"status", {{"", "result", LS_CELL_STATUS, ""}}, NULL},
    {"step",
     {{"median ", "time.step_ms.median", LS_CELL_FIGURE, " ms"},
      {"\xc2\xb1 ", "time.step_ms", LS_CELL_HALF, ""},
      {"mean ", "time.step_ms.mean", LS_CELL_FIGURE, " ms"},
      {"p90 ", "time.step_ms.p90", LS_CELL_FIGURE, " ms"},
      {"p99 ", "time.step_ms.p99", LS_CELL_FIGURE, " ms"},
      {"", "time.step_ms.n", LS_CELL_TEXT, " steps"},
      {"", "time.blocks", LS_CELL_TEXT, " blocks"}},
     NULL},
    {"rate",
     {{"", "time.samples_per_s", LS_CELL_FIGURE, " samples/s"},
      {"all trained / time ", "time.samples_per_s_mean", LS_CELL_FIGURE, ""},
      {"speed-up ", "time.speedup", LS_CELL_RATIO, ""},
      {"efficiency ", "time.efficiency", LS_CELL_WHOLE, ""},
      {"of the roof ", "time.mfu", LS_CELL_WHOLE, ""}},
     NULL},
    {"mean step",
     {{"compute ", "waterfall.compute_ms", LS_CELL_FIGURE, " ms"},
      {"communication ", "waterfall.comm_exposed_ms", LS_CELL_FIGURE, " ms"},
      {"copies ", "waterfall.copy_ms", LS_CELL_FIGURE, " ms"},
      {"waiting ", "waterfall.wait_ms", LS_CELL_FIGURE, " ms"},
      {"optimizer ", "waterfall.optimizer_ms", LS_CELL_FIGURE, " ms"},
      {"harness ", "waterfall.harness_ms", LS_CELL_FIGURE, " ms"}},
     NULL},
    {.name = "pipeline", .more = print_pipeline},
    {"lead",
     {{"most ", "lead.max", LS_CELL_TEXT, " steps"},
      {"staleness ", "staleness.mean", LS_CELL_FIGURE, " updates"}},
     NULL},
    {"training",
     {{"first loss ", "train.loss_first", LS_CELL_FIGURE, ""},
      {"last loss ", "train.loss_last", LS_CELL_FIGURE, ""},
      {"accuracy ", "train.accuracy", LS_CELL_SHARE, ""},
      {"of ", "train.evaluated", LS_CELL_TEXT, " test samples"}},
     NULL},
    {"equal",
     {{"", "equivalence.grade", LS_CELL_TEXT, ""},
      {"", "equivalence.oracle", LS_CELL_TEXT, ""},
      {"digest ", "equivalence.digest", LS_CELL_TEXT, ""}},
     NULL},
    {"traffic",
     {{"", "traffic.bytes_sent", LS_CELL_BYTES, " sent a step"},
      {"", "traffic.messages_sent", LS_CELL_TEXT, " messages"},
      {"averages every ", "case.period", LS_CELL_TEXT, " steps"}},
     NULL},
    {"memory",
     {{"fullest device ", "memory.devices.peak", LS_CELL_BYTES, ""},
      {"process ", "memory.rss_peak", LS_CELL_BYTES, ""}},
     NULL},
    {"of which",
     {{"parameters ", "memory.devices.parameters", LS_CELL_BYTES, ""},
      {"gradients ", "memory.devices.gradients", LS_CELL_BYTES, ""},
      {"optimizer ", "memory.devices.optimizer", LS_CELL_BYTES, ""},
      {"activations ", "memory.devices.activations", LS_CELL_BYTES, ""},
      {"communication ", "memory.devices.communication", LS_CELL_BYTES, ""},
      {"workspace ", "memory.devices.workspace", LS_CELL_BYTES, ""}},
     print_memory_bound},
    {"operation",
     {{"", "micro.op", LS_CELL_TEXT, ""},
      {"", "micro.shape", LS_CELL_TEXT, ""},
      {"", "micro.size_bytes", LS_CELL_BYTES, ""},
      {"", "micro.time_us", LS_CELL_FIGURE, " us"},
      {"bus ", "micro.busbw_gbs", LS_CELL_FIGURE, " GB/s"},
      {"", "micro.gflops", LS_CELL_FIGURE, " GFLOP/s"},
      {"", "micro.kernel", LS_CELL_TEXT, ""}},
     NULL},
    {"machine",
     {{"", "provenance.host", LS_CELL_TEXT, ""},
      {"", "provenance.cpu", LS_CELL_TEXT, ""},
      {"", "provenance.gpu", LS_CELL_TEXT, ""},
      {"", "provenance.loops_isa", LS_CELL_TEXT, ""},
      {"", "provenance.cores_per_device", LS_CELL_TEXT, " cores a device"},
      {"others used ", "noise.others", LS_CELL_FIGURE, " cores"}},
     NULL},
    {"source",
     {{"commit ", "provenance.commit", LS_CELL_TEXT, ""},
      {"changed ", "provenance.dirty", LS_CELL_TEXT, ""},
      {"", "provenance.compiler", LS_CELL_TEXT, ""}},
     NULL},
};

/* Why it is not ok, and what is odd: noise comes before what is made of it. */
static void print_notes(const json_t *row)
{
    const json_t *notes = json_object_get(json_object_get(row, "result"), "notes");
    char *reason = ls_row_reason(row);
    if (reason)
        print_named("reason", reason);
    free(reason);
    for (size_t i = 0; i < json_array_size(notes) && i < NOTES_MOST; i++) {
        char text[512];
        snprintf(text, sizeof text, "%s", json_string_value(json_array_get(notes, i)));
        print_named(i ? "" : "note", text);
    }
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
    const char *known = json_string_value(json_object_get(whole, "id"));
    ls_escape_copy(id, sizeof id, known ? known : "", LS_ESCAPE_LINE);
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
    char none[] = "no row of mirrored beside it; --strategy mirrored,zero runs both";
    json_auto_t *rows = json_array();
    beside context = {row, rows};
    ls_selection selection;
    char where[64];
    snprintf(where, sizeof where, "case.strategy=%s", ls_whole_strategy()->name);
    ls_status status = ls_selection_open(where, NULL, NULL, NULL, &selection);
    if (!status)
        status = ls_selection_each(&selection, results, keep_beside, &context, NULL);
    ls_selection_close(&selection);
    LS_TRY(status);
    if (ls_row_beside(row, rows))
        print_beside(row, ls_row_beside(row, rows));
    else
        print_named("shares", none);
    return LS_OK;
}

/* ---- What limits the step -------------------------------------------------------------------- */

/* An option with a value that is tried first, and what these rows say of it. */
typedef struct tried {
    const json_t *row;
    char field[64], value[48]; /* of the case */
    double longer;             /* step per sample over the row's, of the latest row that has it */
    char id[64];
} tried;

/* Reads "Try --ps-servers 2: each has half". */
static bool read_tried(const char *said, tried *out)
{
    char option[48];
    if (sscanf(said, "Try --%47[a-z-] %47[^ :,]", option, out->value) != 2)
        return false;
    char *end = out->value + strlen(out->value) - 1;
    if (*end == '.')
        *end = 0;
    ls_declared_field(option, out->field);
    if (strcmp(option, "batch") == 0)
        strcpy(out->field, "batch_global");
    if (strcmp(out->value, "yes") == 0 || strcmp(out->value, "no") == 0)
        strcpy(out->value, *out->value == 'y' ? "true" : "false");
    return json_object_get(json_object_get(out->row, "case"), out->field);
}

static ls_status look_at_tried(void *context, int64_t number, const json_t *row)
{
    tried *t = context;
    ls_interval mine, its;
    const json_t *value = json_object_get(json_object_get(row, "case"), t->field);
    char *text = value ? ls_value_text(value) : NULL;
    const bool has = text && strcmp(text, t->value) == 0;
    const bool batch = strcmp(t->field, "batch_global") == 0;
    const char *const fields[] = {t->field, batch ? "batch_per_device" : NULL, NULL};
    (void)number;
    free(text);
    if (!has || !ls_row_same_but(t->row, row, fields, false))
        return LS_OK;
    const bool known = ls_row_pace(t->row, &mine), its_known = ls_row_pace(row, &its);
    const double batches =
        ls_row_number(row, "case.batch_global") / ls_row_number(t->row, "case.batch_global");
    if (!(mine.value > 0 && its.value > 0 && batches > 0))
        return LS_OK;
    const ls_interval ratio = ls_statistics_ratio(its, mine);
    const char *id = json_string_value(json_object_get(row, "id"));
    const bool slower = known && its_known ? ratio.low > batches : its.value / mine.value > batches;
    t->longer = slower ? its.value / mine.value / batches : 0;
    ls_escape_copy(t->id, sizeof t->id, id ? id : "", LS_ESCAPE_LINE);
    return LS_OK;
}

/* Does not suggest what these rows show to be slower. */
static ls_status weigh(ls_results *results, const json_t *row, const char *said, char text[256])
{
    tried t = {.row = row};
    ls_selection selection;
    *text = 0;
    if (!read_tried(said, &t))
        return LS_OK;
    ls_status status = ls_selection_open(NULL, NULL, NULL, NULL, &selection);
    if (!status)
        status = ls_selection_each(&selection, results, look_at_tried, &t, NULL);
    ls_selection_close(&selection);
    LS_TRY(status);
    if (t.longer > 0)
        snprintf(text, 256,
                 "Not %.*s, which was the next to try: it took %.2f times as long a "
                 "sample in row %s.",
                 (int)strcspn(said + 4, ":."), said + 4, t.longer, t.id);
    return LS_OK;
}

/* Line by line, each wrapped below its first word. */
static ls_status print_bound(ls_results *results, const json_t *row)
{
    char *bound = ls_results_bound(row), *rest = bound, *one, other[256];
    const bool any = bound && *bound;
    ls_status status = LS_OK;
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
    if (all) {
        print_all(row);
        return LS_OK;
    }
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        print_figures(row, &lines[i]);
        if (lines[i].more)
            lines[i].more(row);
    }
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
