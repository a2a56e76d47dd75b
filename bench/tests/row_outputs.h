/* SPDX-License-Identifier: MIT */
/*
 * Writes rows in every form that the program has, and checks each as its reader would take it: JSON
 * and CSV have the rows' values, XML is well-formed, gnuplot's script has texts in quotes only, no
 * output has a character that a terminal obeys. Aborts where one does not hold.
 */
#pragma once

#include "bench/output/format.h"
#include "bench/output/row_keys.h"
#include "bench/regress/regress.h"
#include "bench/report/draw.h"
#include "bench/report/pictures.h"
#include "bench/report/page.h"
#include "bench/report/template.h"
#include "bench/results/results_verbs.h"
#include "bench/rows/row.h"
#include "bench/tests/hostile_rows.h"
#include "common/base/escape.h"

#include <ctype.h>
#include <unistd.h>

#define REQUIRE(what, text, holds)                                                                 \
    do {                                                                                           \
        if (!(holds)) {                                                                            \
            fprintf(stderr, "%s: not so: %s\n%s\n", what, #holds, text);                           \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* ---- What a reader takes -------------------------------------------------------------------- */

/* Valid UTF-8 without control characters (line feeds, and tabs in CSV, apart), marks of direction,
 * line separators and byte order marks. */
static inline void check_shown(const char *what, const char *text, bool tabs)
{
    json_t *valid = json_string(text);
    REQUIRE(what, text, valid);
    json_decref(valid);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        REQUIRE(what, text, (*c >= ' ' && *c != 0x7f) || *c == '\n' || (tabs && *c == '\t'));
        REQUIRE(what, text, *c != 0xc2 || c[1] >= 0xa0);
        REQUIRE(what, text, *c != 0xd8 || c[1] != 0x9c);
        REQUIRE(what, text,
                *c != 0xe2 || c[1] != 0x80 || c[2] < 0x8e || c[2] > 0xae ||
                    (c[2] > 0x8f && c[2] < 0xa8));
        REQUIRE(what, text, *c != 0xe2 || c[1] != 0x81 || c[2] < 0xa6 || c[2] > 0xa9);
        REQUIRE(what, text,
                *c != 0xef || ((c[1] != 0xbb || c[2] != 0xbf) && (c[1] != 0xbf || c[2] < 0xbe)));
    }
}

/* No fragment that would be markup. */
static inline void check_markup(const char *what, const char *text)
{
    REQUIRE(what, text, !strstr(text, "<zzz") && !strstr(text, "</zzz") && !strstr(text, "&zzz"));
    REQUIRE(what, text, !strstr(text, "\"zzz") && !strstr(text, "'zzz"));
}

static inline size_t length_name(const char *c)
{
    size_t length = 0;
    while (isalnum((unsigned char)c[length]) || (c[length] && strchr(":-_", c[length])))
        length++;
    return length;
}

/* Text up to one of `ends`: references are known ones, "]]>" is not in it. */
static inline const char *skip_text(const char *what, const char *c, const char *ends)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (; *c && !strchr(ends, *c); c++) {
        bool fits = *c != '&';
        for (size_t i = 0; i < 5 && !fits; i++)
            fits = strncmp(c, known[i], strlen(known[i])) == 0;
        REQUIRE(what, c, fits && *c != '<' && strncmp(c, "]]>", 3) != 0);
    }
    return c;
}

/* Well-formed XML: tags are closed in turn, attributes quoted. */
static inline void check_xml(const char *what, const char *text)
{
    const char *open[64], *c = text;
    size_t depth = 0;
    for (;;) {
        c = skip_text(what, c, "<");
        if (!*c)
            break;
        if (strncmp(c, "<?", 2) == 0 || strncmp(c, "<!--", 4) == 0) {
            c = strstr(c, c[1] == '?' ? "?>" : "-->");
            REQUIRE(what, text, c);
            c = strchr(c, '>') + 1;
            continue;
        }
        const bool closes = c[1] == '/';
        c += 1 + closes;
        const size_t length = length_name(c);
        REQUIRE(what, c, length > 0);
        if (closes) {
            REQUIRE(what, c, depth > 0 && strncmp(open[depth - 1], c, length) == 0);
            depth--;
        } else {
            REQUIRE(what, c, depth < 64);
            open[depth++] = c;
        }
        for (c += length; *(c += strspn(c, " \n\t")) && !strchr("/>", *c);) {
            const size_t name = length_name(c);
            REQUIRE(what, c, name > 0 && c[name] == '=' && strchr("'\"", c[name + 1]));
            const char quote[] = {c[name + 1], 0};
            c = skip_text(what, c + name + 2, quote);
            REQUIRE(what, text, *c);
            c++;
        }
        depth -= *c == '/';
        c += *c == '/';
        REQUIRE(what, c, *c == '>');
        c++;
    }
    REQUIRE(what, text, depth == 0);
}

/* The fields of all records: an array of arrays of texts. */
static inline json_t *read_csv(const char *what, const char *text)
{
    json_t *out = json_array(), *record = json_array();
    char *field = malloc(strlen(text) + 1);
    for (const char *c = text; *c;) {
        size_t used = 0;
        if (*c == '"') {
            for (c++; *c && (*c != '"' || c[1] == '"'); c++) {
                c += *c == '"';
                field[used++] = *c;
            }
            REQUIRE(what, text, *c == '"');
            c++;
        } else {
            for (; *c && !strchr(",\n\"", *c); c++)
                field[used++] = *c;
        }
        REQUIRE(what, c, *c == ',' || *c == '\n');
        json_array_append_new(record, json_stringn(field, used));
        if (*c++ == '\n') {
            json_array_append_new(out, record);
            record = json_array();
        }
    }
    free(field);
    json_decref(record);
    for (size_t i = 1; i < json_array_size(out); i++)
        REQUIRE(what, text,
                json_array_size(json_array_get(out, i)) == json_array_size(json_array_get(out, 0)));
    return out;
}

/* Before the template: outside of quotes only what this program writes; two quotes do not begin a
 * text, which gnuplot would take for an empty one; in double quotes there is only a line feed; all
 * numbers are finite. */
static inline void check_script(const char *text)
{
    const char *template = strstr(text, "\n# What all pictures have");
    REQUIRE("script", text, template);
    for (const char *line = text, *end; line <= template; line = end + 1) {
        bool quoted = false;
        end = strchr(line, '\n');
        for (const char *c = line; c < end; c++) {
            if (!quoted && *c == '"') { /* a line feed */
                c += 1 + strspn(c + 1, "\\n");
                REQUIRE("script", line, c[0] == '"' && c[1] == '.');
                continue;
            }
            const bool begins = !quoted && *c == '\'' && (c == line || c[-1] != '\'');
            quoted = quoted != (*c == '\'');
            REQUIRE("script", line, !begins || strncmp(c, "'''", 3) != 0);
            REQUIRE("script", line,
                    quoted || isalnum((unsigned char)*c) || strchr(" '$<_.,:;()[]{}+-*/#=&%", *c));
            REQUIRE("script", line, quoted || strncmp(c, "inf", 3) != 0);
        }
        REQUIRE("script", line, !quoted);
    }
}

/* Rows of a table have as many cells as its head; what would be HTML is escaped. */
static inline void check_markdown(const char *what, const char *text)
{
    size_t cells = 0;
    for (const char *line = text, *end; *line; line = *end ? end + 1 : end) {
        size_t now = 0;
        end = line + strcspn(line, "\n");
        for (const char *c = line; c < end; c++) {
            now += *c == '|';
            c += *c == '\\';
            REQUIRE(what, line, strncmp(c, "<zzz", 4) != 0 || c[-1] == '\\');
        }
        REQUIRE(what, line, *line != '|' || cells == 0 || now == cells);
        cells = *line == '|' ? now : 0;
    }
}

/* ---- What is written ------------------------------------------------------------------------ */

/* The text of `stream`, which has been opened on it. */
typedef struct written {
    char *text;
    size_t size;
    FILE *stream;
} written;

static inline void begin(written *out)
{
    out->stream = open_memstream(&out->text, &out->size);
    if (!out->stream)
        abort();
}

static inline const char *end(written *out, ls_status status)
{
    REQUIRE("status", ls_status_text(status), !status);
    fclose(out->stream);
    REQUIRE("bytes", "", strlen(out->text) == out->size);
    return out->text;
}

/* The column of labels in CSV. */
static inline void check_labels(const char *text, const json_t *rows)
{
    json_t *table = read_csv("csv", text);
    for (size_t r = 0; r < json_array_size(rows); r++) {
        const json_t *label = json_object_get(json_array_get(rows, r), "label");
        const char *got = json_string_value(json_array_get(json_array_get(table, r + 1), 4));
        char want[4 * TEXT_MOST + 256], again[4 * TEXT_MOST + 256];
        ls_escape_copy(want, sizeof want, json_string_value(label), LS_ESCAPE_CSV);
        ls_escape_copy(again, sizeof again, got, LS_ESCAPE_CSV); /* doubles quotes as `want` */
        REQUIRE("csv", text, !json_is_string(label) || strcmp(want, again) == 0);
    }
    json_decref(table);
}

static inline void check_formats(const json_t *rows)
{
    static const char *const names[] = {"table", "md", "csv", "jsonl", "json"};
    for (size_t i = 0; i < 5; i++) {
        written out;
        const ls_format *format;
        REQUIRE("format", names[i], !ls_format_find(names[i], &format));
        begin(&out);
        const char *text = end(&out, ls_rows_write(format, NULL, rows, out.stream));
        check_shown(names[i], text, i == 2);
        if (i == 1)
            check_markdown(names[i], text);
        if (i == 2)
            check_labels(text, rows);
        const char *line = text;
        for (size_t r = 0; i == 3 && r < json_array_size(rows); r++) {
            const size_t length = strcspn(line, "\n");
            json_t *row = json_loadb(line, length, 0, NULL);
            REQUIRE(names[i], line, json_equal(row, json_array_get(rows, r)));
            json_decref(row);
            line += length + 1;
        }
        json_t *array = i == 4 ? json_loads(text, 0, NULL) : NULL;
        REQUIRE(names[i], text, i != 4 || json_equal(array, rows));
        json_decref(array);
        free(out.text);
    }
}

/* A database of the rows, all of them chosen. */
static inline ls_results *choose_rows(const json_t *rows)
{
    ls_results *results;
    sqlite3_stmt *statement;
    bool more;
    REQUIRE("export", "", !ls_results_memory(&results));
    for (size_t i = 0; i < json_array_size(rows); i++) {
        char *text = json_dumps(json_array_get(rows, i), JSON_REAL_PRECISION(17));
        REQUIRE("export", "",
                !ls_results_prepare(results,
                                    "INSERT INTO main.rows(rowid, id, row) VALUES (?1, ?1, ?2)",
                                    &statement));
        sqlite3_bind_int64(statement, 1, (int64_t)i + 1);
        sqlite3_bind_text(statement, 2, text, -1, free);
        REQUIRE("export", "", !ls_results_step(results, statement, &more));
        sqlite3_finalize(statement);
    }
    REQUIRE("export", "",
            !ls_results_execute(results, "INSERT INTO chosen SELECT rowid, rowid FROM main.rows"));
    return results;
}

static inline void check_exports(const json_t *rows)
{
    static const char *const exports[] = {"google-benchmark", "benchmark-action", "mlperf"};
    size_t timed = 0;
    for (size_t i = 0; i < json_array_size(rows); i++)
        timed += ls_row_real(json_array_get(rows, i), LS_F_time_step_ms_median) > 0;
    ls_results *results = choose_rows(rows);
    for (size_t i = 0; i < 3; i++) {
        written out;
        begin(&out);
        const char *text = end(&out, ls_export(out.stream, results, exports[i]));
        check_shown("export", text, false);
        json_t *all = i < 2 ? json_loads(text, 0, NULL) : NULL;
        const json_t *list = i == 0 ? json_object_get(all, "benchmarks") : all;
        REQUIRE("export", text, i == 2 || json_array_size(list) == timed);
        json_decref(all);
        for (const char *line = text; i == 2 && *line; line += strcspn(line, "\n") + 1) {
            REQUIRE("mlperf", line, strncmp(line, ":::MLLOG {", 10) == 0);
            json_t *one = json_loadb(line + 9, strcspn(line, "\n") - 9, 0, NULL);
            REQUIRE("mlperf", line, one);
            json_decref(one);
        }
        free(out.text);
    }
    ls_results_close(results);
}

/* A comparison with a case of each kind, with texts of the rows where regress puts them. */
static inline json_t *made_comparison(const json_t *rows)
{
    static const char *const verdicts[] = {"same", "slower", "cannot tell"};
    json_t *cases = json_array();
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const char *label = ls_row_string(row, LS_F_label);
        json_t *changes[2] = {json_array(), json_array()};
        json_array_append_new(changes[i % 2],
                              json_pack("{s:s,s:O*,s:s}", "key", label, "base",
                                        ls_row_get(row, LS_F_label), "reason", label));
        json_array_append_new(
            cases,
            json_pack("{s:O*,s:s,s:s,s:i,s:f,s:[f,f],s:f,s:f,s:i,s:b,s:o,s:o,s:s*}", "case",
                      ls_row_group(row, LS_G_case), "name", label, "verdict", verdicts[i % 3],
                      "blocks", 1, "ratio", 1.5, "ci95", 1.4, 1.6, "base_ms", 1.0, "new_ms", 1.0,
                      "more_blocks", (int)(i % 5), "paired", 0, "worse", changes[1], "differences",
                      changes[0], "error", i % 4 == 2 ? label : NULL));
    }
    return json_pack("{s:s,s:f,s:s,s:s,s:f,s:o}", "verdict", "slower", "threshold", 0.03, "base",
                     "base", "new", "new", "seconds", 1.0, "cases", cases);
}

static inline void check_verdicts(const json_t *rows)
{
    static const char *const names[] = {"table", "md", "json", "junit", "github"};
    json_auto_t *document = made_comparison(rows);
    for (size_t i = 0; i < 5; i++) {
        written out;
        size_t lines = 0;
        begin(&out);
        const char *text = end(&out, ls_verdict_write(names[i], document, out.stream));
        check_shown(names[i], text, false);
        if (i == 1)
            check_markdown(names[i], text);
        if (i == 3) {
            check_xml(names[i], text);
            check_markup(names[i], text);
        }
        for (const char *c = strchr(text, '%'); i == 4 && c; c = strchr(c + 1, '%'))
            REQUIRE(names[i], c, strncmp(c, "%25", 3) == 0);
        for (const char *line = text; i == 4 && *line; line += strcspn(line, "\n") + 1, lines++)
            REQUIRE(names[i], text, strstr(line, " title=lockstep regress::") > line);
        REQUIRE(names[i], text, i != 4 || lines == json_array_size(rows));
        free(out.text);
    }
}

/* gnuplot's SVG of these texts, of which it escapes two characters. */
static inline void draw_as_gnuplot(FILE *stream, const json_t *figure)
{
    const json_t *names = json_object_get(figure, "categories");
    fputs("<svg viewBox=\"0 0 440 300\">\n<title>Gnuplot</title>\n"
          "<desc>Produced by GNUPLOT 5.4 </desc>\n",
          stream);
    for (size_t i = 0; i <= json_array_size(names); i++) {
        const char *text =
            i ? json_string_value(json_array_get(names, i - 1)) : ls_text_of(figure, "title");
        char line[4 * TEXT_MOST + 256];
        ls_escape_copy(line, sizeof line, text, LS_ESCAPE_LINE);
        fputs("<text>", stream);
        for (const char *c = line; *c; c++)
            fputs(*c == '<' ? "&lt;" : *c == '&' ? "&amp;" : (char[]){*c, 0}, stream);
        fputs("</text>\n", stream);
    }
    fputs("</svg>\n", stream);
}

static inline void check_picture(const json_t *figure)
{
    written out;
    begin(&out);
    json_auto_t *figures = json_pack("[O]", figure);
    ls_status status =
        ls_draw_script(out.stream, figures, LS_PICTURE_SVG); /* others: other sizes */
    check_shown("script", end(&out, status), false);
    check_script(out.text);
    free(out.text);
    written drawn;
    begin(&drawn);
    draw_as_gnuplot(drawn.stream, figure);
    begin(&out);
    ls_draw_dress(out.stream, figure, end(&drawn, LS_OK));
    check_xml("svg", end(&out, LS_OK));
    REQUIRE("svg", out.text, strstr(out.text, "<svg role=\"img\" "));
    free(out.text);
    free(drawn.text);
}

static inline void check_report(const json_t *rows, const char *against, const char *folder)
{
    json_t *left_out = json_array();
    const ls_report_options options = {.out = folder, .against = against};
    json_t *figures = NULL;
    ls_results *results = NULL;
    REQUIRE("memory", "", !ls_results_of_rows(rows, &results));
    ls_page page = {results, rows, left_out, &options};
    REQUIRE("rows", "", !ls_page_open(&page, NULL));
    REQUIRE("pictures", "", !ls_pictures(&page, &figures));
    written out;
    for (size_t i = 0; i < json_array_size(figures); i++) {
        json_t *figure = json_array_get(figures, i);
        check_picture(figure);
        begin(&out);
        check_shown("csv", end(&out, ls_page_csv(out.stream, figure)), true);
        json_decref(read_csv("csv", out.text));
        free(out.text);
    }
    json_t *values = json_object();
    REQUIRE("values", "", !ls_page_values(&page, figures, values));
    json_auto_t *lines = json_array();
    REQUIRE("bound", "",
            !ls_results_query(results,
                              "SELECT escaped(value, 'line') AS text FROM bound, json_each(lines)"
                              " WHERE value != ''",
                              NULL, lines));
    for (size_t i = 0; i < json_array_size(lines); i++)
        check_shown("bound", ls_text_of(json_array_get(lines, i), "text"), false);
    ls_results_close(results);
    for (size_t i = 0; i < LS_PAGE_TEMPLATES; i++) {
        const ls_page_template *one = &ls_page_templates[i];
        begin(&out);
        ls_template_fill(out.stream, one->text, values, one->escape);
        check_shown(one->name, end(&out, LS_OK), false);
        if (one->escape == LS_ESCAPE_MARKUP)
            check_markup(one->name, out.text);
        else if (one->escape == LS_ESCAPE_MARKDOWN)
            check_markdown(one->name, out.text);
        free(out.text);
    }
    json_decref(values);
    json_decref(figures);
    json_decref(left_out);
}

/* All of it, of the rows that the bytes make; `folder` for pictures. */
static inline void check_outputs(const uint8_t *data, size_t size, const char *folder)
{
    json_t *rows = hostile_rows(data, size);
    check_formats(rows);
    check_exports(rows);
    check_verdicts(rows);
    check_report(rows, size % 2 ? "label" : NULL, folder);
    json_decref(rows);
}
