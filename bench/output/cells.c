/* SPDX-License-Identifier: MIT */
/* Cells of tables, and texts on a terminal; see cells.h. */
#include "bench/output/cells.h"

#include "bench/output/row_keys.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A label may have control characters, which a terminal would obey. */
static void write_line(char *cell, const char *text)
{
    ls_escape_copy(cell, LS_CELL_SIZE, text, LS_ESCAPE_LINE);
}

static void write_text(const json_t *value, char *cell)
{
    char *text = json_is_string(value) ? NULL : ls_option_text(value);
    write_line(cell, text ? text : json_string_value(value));
    free(text);
}

/* How many devices a rank has, if all ranks have the same: where the list begins to repeat. */
static size_t period_of(const json_t *devices)
{
    const size_t count = json_array_size(devices);
    size_t each = 1, i = 0;
    for (; each <= count / 2; each++) {
        for (i = each; count % each == 0 && i < count; i++)
            if (!json_equal(json_array_get(devices, i), json_array_get(devices, i - each)))
                break;
        if (i == count)
            return each;
    }
    return count;
}

/* "2 cpu" if they are the first of a kind, otherwise their names; if the names are too long, "8
 * x cpu", or "8 devices" of different kinds; "2 cpu x 3 ranks" of ranks with the same devices
 * each. */
static void write_devices(const json_t *devices, int width, char *cell)
{
    const size_t count = period_of(devices), ranks = count ? json_array_size(devices) / count : 0;
    const char *first = json_string_value(json_array_get(devices, 0));
    const size_t kind = first ? strspn(first, "abcdefghijklmnopqrstuvwxyz") : 0;
    json_auto_t *of_rank = json_array();
    bool alike = kind > 0, in_order = kind > 0;
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(devices, i));
        char expected[64];
        json_array_append(of_rank, json_array_get(devices, i));
        alike = alike && name && strncmp(name, first, kind) == 0 && name[kind] == ':';
        snprintf(expected, sizeof expected, "%.*s:%zu", (int)kind, first ? first : "", i);
        in_order = in_order && name && strcmp(name, expected) == 0;
    }
    if (ranks > 1)
        write_text(of_rank, cell);
    if (in_order)
        snprintf(cell, LS_CELL_SIZE, "%zu %.*s", count, (int)kind, first);
    else if (ls_text_width(cell) > width && alike)
        snprintf(cell, LS_CELL_SIZE, "%zu x %.*s", count, (int)kind, first);
    else if (ls_text_width(cell) > width)
        snprintf(cell, LS_CELL_SIZE, "%zu devices", count);
    const size_t used = strlen(cell);
    if (ranks > 1)
        snprintf(cell + used, LS_CELL_SIZE - used, " x %zu ranks", ranks);
}

static void write_half(const json_t *row, char *cell)
{
    ls_interval step;
    if (!ls_row_step(row, &step))
        return;
    const double half = 50.0 * (step.high - step.low) / step.value;
    snprintf(cell, LS_CELL_SIZE, half > 100 ? ">100%%" : half < 99.95 ? "%.1f%%" : "%.0f%%", half);
}

/* The noise first: it says how far the figures are to be trusted, and the end may be cut. */
void ls_status_write(const json_t *row, const json_t *shared, char cell[LS_CELL_SIZE])
{
    write_line(cell, ls_row_string(row, LS_F_result_status));
    for (int noise = 1; noise >= 0; noise--)
        for (size_t i = 0; i < ls_row_count(row, LS_F_result_warnings); i++) {
            const char *warning = ls_row_string_at(row, LS_F_result_warnings, i);
            const size_t used = strlen(cell);
            char text[LS_CELL_SIZE];
            const bool foreign = !*warning; /* not a text */
            if (foreign || json_object_get(shared, warning) ||
                (strcmp(warning, "noisy") == 0) != noise)
                continue;
            snprintf(text, sizeof text, ", %s", warning);
            ls_escape_copy(cell + used, LS_CELL_SIZE - used, text, LS_ESCAPE_LINE);
        }
}

static void write_number(ls_cell kind, const json_t *value, char *cell)
{
    static const struct {
        const char *format;
        double unit;
    } kinds[] = {[LS_CELL_PERCENT] = {"%.1f%%", 100},
                 [LS_CELL_WHOLE] = {"%.0f%%", 100},
                 [LS_CELL_SHARE] = {"%.4f", 1},
                 [LS_CELL_RATIO] = {"%.2f", 1},
                 [LS_CELL_STATUS] = {NULL, 0}};
    const double number = json_number_value(value);
    if (kinds[kind].format)
        snprintf(cell, LS_CELL_SIZE, kinds[kind].format, kinds[kind].unit * number);
    else if (kind == LS_CELL_FIGURE)
        snprintf(cell, LS_CELL_SIZE, fabs(number) >= 1000 && fabs(number) < 1e10 ? "%.0f" : "%#.4g",
                 number);
    else if (kind == LS_CELL_BYTES)
        ls_format_bytes(number, cell);
    else if (kind == LS_CELL_VALUE && json_is_real(value))
        snprintf(cell, LS_CELL_SIZE, "%.6g", number);
    else
        write_text(value, cell);
}

void ls_cell_write(const ls_column *column, const json_t *row, char cell[LS_CELL_SIZE])
{
    json_auto_t *value = ls_row_value(row, column->path);
    cell[0] = 0;
    if (column->cell == LS_CELL_GATE) {
        const bool failed = json_is_false(ls_row_get(row, LS_F_equivalence_pass));
        write_line(cell, failed ? "failed" : ls_row_string(row, LS_F_equivalence_grade));
    } else if (column->cell == LS_CELL_HALF) {
        write_half(row, cell);
    } else if (column->cell == LS_CELL_STATUS) {
        ls_status_write(row, NULL, cell);
    } else if (json_is_number(value)) {
        write_number(column->cell, value, cell);
    } else if (column->cell == LS_CELL_OPTIMIZER && json_is_string(value)) {
        char shown[LS_CELL_SIZE];
        write_line(cell, ls_optimizer_shown(json_string_value(value), shown, sizeof shown));
    } else if (!value) {
        snprintf(cell, LS_CELL_SIZE, "%s", column->absent ? column->absent : "");
    } else {
        write_text(value, cell);
    }
    if (column->cell == LS_CELL_DEVICES)
        write_devices(value, column->width, cell);
}

/* "batch" of batch_global, "ps-mode" of ps_mode, "step ms" of time.step_ms.median. */
ls_column ls_column_of(const char *path, char title[LS_TITLE_SIZE])
{
    const ls_field *field = ls_field_find(path);
    const ls_declared_option *option = field ? NULL : ls_row_declared(path);
    const ls_cell cell = field ? field->cell : LS_CELL_TEXT;
    const char *heading = field ? field->heading : NULL, *last = strrchr(path, '.');
    const size_t length = heading ? strcspn(heading, "|") : LS_TITLE_SIZE - 1;
    char text[LS_TITLE_SIZE];
    snprintf(text, sizeof text, "%.*s", (int)length, heading ? heading : last ? last + 1 : path);
    ls_escape_copy(title, LS_TITLE_SIZE, text, LS_ESCAPE_LINE);
    for (char *c = title; *c && !heading; c++)
        if (*c == '_')
            *c = '-';
    return (ls_column){.title = title,
                       .path = path,
                       .width = cell == LS_CELL_DEVICES ? 20 : LS_WIDTH_ANY,
                       .right = field && (field->type == LS_TYPE_INT ||
                                          field->type == LS_TYPE_REAL || cell == LS_CELL_HALF),
                       .cell = cell,
                       .absent = field                       ? field->absent
                                 : option && option->implied ? option->fallback
                                                             : NULL};
}

void ls_option_write(const char *name, const json_t *row, char title[LS_TITLE_SIZE],
                     char cell[LS_CELL_SIZE])
{
    char path[80];
    snprintf(path, sizeof path, "case.%s", name);
    const ls_column column = ls_column_of(path, title);
    ls_cell_write(&column, row, cell);
}

/* Devices and shares as in every table; other numbers with the digits that were asked for. */
static ls_cell cell_of(ls_cell cell)
{
    const bool kept = cell == LS_CELL_DEVICES || cell == LS_CELL_PERCENT || cell == LS_CELL_WHOLE ||
                      cell == LS_CELL_SHARE;
    return kept ? cell : LS_CELL_VALUE;
}

ls_status ls_chosen_read(const char *keys, ls_chosen *out)
{
    size_t count = 0;
    *out = (ls_chosen){.columns = {.column = out->column, .alone = true}};
    for (const char *key = keys; key; count++) {
        const size_t length = strcspn(key, ",");
        const char *path;
        if (count == LS_CHOSEN_MOST)
            return ls_fail(LS_CODE_USAGE, "--columns", NULL,
                           "has more than %d keys; give fewer keys", LS_CHOSEN_MOST);
        LS_TRY(ls_row_key_find("--columns", key, length, &path));
        ls_column *column = &out->column[count];
        *column = ls_column_of(path, out->title[count]);
        column->cell = cell_of(column->cell);
        column->width = LS_WIDTH_ANY;
        column->right = false; /* the cells decide */
        column->drop = LS_DROP_NEVER;
        snprintf(out->title[count], sizeof out->title[count], "%.*s", (int)length, key);
        key = key[length] ? key + length + 1 : NULL;
    }
    out->columns.count = count;
    return LS_OK;
}

/* ---- Texts ---------------------------------------------------------------------------------- */

int ls_text_width(const char *text)
{
    int width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* Offset of the character with that number, or of the end. */
static size_t offset_of(const char *text, int number)
{
    size_t at = 0;
    for (; text[at]; at++)
        if (((unsigned char)text[at] & 0xc0) != 0x80 && number-- == 0)
            break;
    return at;
}

void ls_text_cut(char *text, int width, bool middle)
{
    const int length = ls_text_width(text), dots = width < 4 ? 0 : 2;
    const int tail = middle && width >= 6 ? (width - 2) / 2 : 0;
    if (length <= width)
        return;
    const char *end = text + offset_of(text, length - tail);
    char *at = text + offset_of(text, width - dots - tail);
    memmove(at + dots, end, strlen(end) + 1);
    memcpy(at, "..", (size_t)dots);
}

/* Whether a break at this blank would part an option from its value. */
static bool parts_option(const char *text, size_t blank)
{
    size_t begin = blank;
    while (begin > 0 && text[begin - 1] != ' ')
        begin--;
    return strncmp(text + begin, "--", 2) == 0 && strncmp(text + blank + 1, "--", 2) != 0;
}

void ls_text_wrap(FILE *stream, const char *words, int at, int indent, int width)
{
    char *shown = ls_text_shown(words, LS_ESCAPE_LINE);
    const char *text = shown ? shown : "";
    const int most = width > indent + 1 ? width : indent + 1;
    if (at == 0)
        fprintf(stream, "%*s", at = indent, "");
    while (*text) {
        const size_t fits = offset_of(text, most - at);
        size_t end = fits;
        while (text[fits] && end > 0 && (text[end] != ' ' || parts_option(text, end)))
            end--;
        if (text[fits] && end == 0 && at <= indent) { /* an option with its value, or one word */
            for (end = fits; end > 0 && text[end] != ' ';)
                end--;
            end = end > 0 ? end : fits;
        }
        fprintf(stream, "%.*s", (int)end, text);
        text += end;
        text += strspn(text, " ");
        if (*text)
            fprintf(stream, "\n%*s", at = indent, "");
    }
    fputc('\n', stream);
    free(shown);
}
