/* SPDX-License-Identifier: MIT */
/*
 * A figure as a script of gnuplot: what it shows as variables, then its template (reports/frame.gp
 * says which there are). Text of rows is in single quotes, in which gnuplot's only escape is a
 * doubled quote (but not at the beginning), and without line ends; terminals do not interpret
 * markup.
 */
#include "bench/output/cells.h"
#include "bench/report/draw.h"
#include "bench/report/template.h"
#include "common/base/escape.h"

#include "template_bars_gp.h"
#include "template_frame_gp.h"
#include "template_lines_gp.h"

#include <stdlib.h>
#include <string.h>

enum { NAME_WIDTH = 60, PAIR_WIDTH = 28, FEW = 6, CASE_WIDTH = 40 };

/* A picture that is written. */
typedef struct script {
    FILE *stream;
    ls_picture kind;
    double letters; /* how much larger they are than usual, so fewer fit a line */
} script;

/* Writes an expression for a text of at most `width` characters, in letters that this machine's
 * fonts have unless it is SVG: gnuplot draws a box over the picture in place of a missing one. */
static void put_text(const script *to, const char *text, size_t width)
{
    char *shown = to->kind == LS_PICTURE_SVG ? strdup(text) : ls_text_shown(text, LS_ESCAPE_FONT);
    const char *rest = shown ? shown : "";
    for (; *rest == '\'' && width > 0; rest++, width--)
        fputs("\"'\".", to->stream);
    fputc('\'', to->stream);
    ls_escape_put(to->stream, rest, width, LS_ESCAPE_GNUPLOT);
    fputc('\'', to->stream);
    free(shown);
}

/* Cut in its middle, for names often differ at their ends. */
static char *squeezed(const char *name, size_t width, char out[400])
{
    *out = 0;
    ls_text_add(out, 400, "%s", name);
    ls_text_squeeze(out, (int)width);
    return out;
}

static void put_name(const script *to, const char *name, size_t width)
{
    char text[400];
    width = (size_t)((double)width / to->letters);
    put_text(to, squeezed(name, width, text), width);
}

/* How long names may be: names of many series are cut for a legend of two columns, if they still
 * distinguish the series. */
static size_t name_width(const script *to, const json_t *all)
{
    const size_t width = (size_t)(PAIR_WIDTH / to->letters);
    char one[400], other[400];
    for (size_t i = 0; i < json_array_size(all); i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(squeezed(ls_text_of(json_array_get(all, i), "name"), width, one),
                       squeezed(ls_text_of(json_array_get(all, k), "name"), width, other)) == 0)
                return NAME_WIDTH;
    return json_array_size(all) > FEW ? PAIR_WIDTH : NAME_WIDTH;
}

/* Writes a text in at most `most` lines, and how many lines follow. */
static void put_lines(const script *to, const char *name, const char *text, size_t width,
                      size_t most)
{
    size_t lines = 0;
    width = (size_t)((double)width / to->letters);
    fprintf(to->stream, "%s = ''", name);
    for (; lines < most && *text; lines++) {
        const size_t bytes = lines + 1 < most ? ls_text_line(text, width) : strlen(text);
        char line[600] = "";
        ls_text_add(line, sizeof line, "%.*s", (int)bytes, text);
        fputs(lines ? ".\"\\n\"." : ".", to->stream);
        put_text(to, line, width);
        text += bytes + (text[bytes] == ' ');
    }
    fprintf(to->stream, "\n%s_LINES = %zu\n", name, lines);
}

static json_t *points_of(json_t *series)
{
    json_t *points = NULL;
    json_unpack(series, "{s:o}", "points", &points);
    return points;
}

static void put_series(const script *to, const json_t *all)
{
    json_t *series, *point;
    size_t i, p, longest = 0;
    const size_t count = json_array_size(all) ? json_array_size(all) : 1;
    const size_t most = name_width(to, all);
    fprintf(to->stream,
            "S = %zu\narray NAMES[S]\narray STYLES[S]\narray VARIANTS[S]\narray PREDICTED[S]\n"
            "array LENGTHS[S]\n",
            count);
    json_array_foreach((json_t *)(size_t)all, i, series)
    {
        const char *name = ls_text_of(series, "name");
        size_t width = (size_t)ls_text_width(name);
        width = width < most ? width : most;
        fprintf(to->stream, "LENGTHS[%zu] = %zu\nNAMES[%zu] = ", i + 1,
                json_array_size(points_of(series)), i + 1);
        put_name(to, name, most);
        json_int_t style = LS_STYLE_NEUTRAL, variant = 0;
        int predicted = 0;
        json_unpack(series, "{s?I,s?I,s?b}", "style", &style, "variant", &variant, "predicted",
                    &predicted);
        fprintf(to->stream, "\nSTYLES[%zu] = %lld\nVARIANTS[%zu] = %lld\nPREDICTED[%zu] = %d\n",
                i + 1, (long long)style, i + 1, (long long)variant, i + 1, predicted);
        longest = width > longest ? width : longest;
    }
    fprintf(to->stream, "LONGEST = %zu\n$points << EOD\n", longest);
    json_array_foreach((json_t *)(size_t)all, i, series)
    {
        json_array_foreach(points_of(series), p, point)
        {
            fprintf(to->stream, "%zu", i + 1);
            for (size_t k = 0; k < 4; k++) /* a text "1e+30" is not a number for gnuplot */
                fprintf(to->stream, " %#.17g", json_number_value(json_array_get(point, k)));
            fputc('\n', to->stream);
        }
        fputs("\n\n", to->stream);
    }
    fputs("EOD\n", to->stream);
}

void ls_draw_script(FILE *stream, const json_t *figure, ls_picture kind)
{
    static const char *const kinds[] = {"svg", "png", "pdf"};
    const bool stacked = strcmp(ls_text_of(figure, "kind"), "bars") == 0;
    const json_t *cases = NULL, *styles = NULL, *series = NULL;
    double size = 0;
    int bare = 0, log_x = 0, log_y = 0;
    json_unpack((json_t *)(size_t)figure, "{s?F,s?b,s?i,s?i,s?o,s?o,s?o}", "letters", &size, "bare",
                &bare, "log_x", &log_x, "log_y", &log_y, "categories", &cases, "styles", &styles,
                "series", &series);
    const script to = {stream, kind, size > 0 ? size / 6.2 : 1};
    fprintf(stream,
            "KIND = '%s'\nNAME = '%s'\nLETTERS = %.4f\nSTACKED = %d\nLOG_X = %d\nLOG_Y = %d\n",
            kinds[kind], ls_text_of(figure, "name"), to.letters, stacked, log_x, log_y);
    put_lines(&to, "TITLE", bare ? "" : ls_text_of(figure, "title"), 50, 2);
    put_lines(&to, "SUB", bare ? "" : ls_text_of(figure, "sub"), 74, 2);
    put_lines(&to, "FOOT", bare ? "" : ls_text_of(figure, "foot"), 76, 3);
    put_lines(&to, "X", ls_text_of(figure, "x"), 60, 1);
    put_lines(&to, "Y", ls_text_of(figure, "y"), 60, 1);
    put_lines(&to, "UNIT", ls_text_of(figure, "unit"), 60, 1);
    fprintf(stream, "C = %zu\narray CASES[C + 1]\narray CASE_STYLES[C + 1]\n",
            json_array_size(cases));
    for (size_t i = 0; i < json_array_size(cases); i++) {
        fprintf(stream, "CASES[%zu] = ", i + 1);
        put_name(&to, json_string_value(json_array_get(cases, i)), CASE_WIDTH);
        fprintf(stream, "\nCASE_STYLES[%zu] = %lld\n", i + 1,
                (long long)json_integer_value(json_array_get(styles, i)));
    }
    put_series(&to, series);
    fputs(ls_template_frame_gp, stream);
    fputs(cases ? ls_template_bars_gp : ls_template_lines_gp, stream);
}
