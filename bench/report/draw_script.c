/* SPDX-License-Identifier: MIT */
/*
 * A figure as a script of gnuplot, narrow enough for a phone or a printed column. Names of series
 * are written at the ends of their lines, moved apart. Text of rows is in single quotes, in which
 * gnuplot's only escape is a doubled quote (but not at the beginning), and without line ends;
 * ticks' texts are formats; terminals do not interpret markup.
 */
#include "bench/output/table/table_parts.h"
#include "bench/report/case_keys.h"
#include "bench/report/draw.h"
#include "bench/report/draw_look.h"
#include "bench/report/text.h"
#include "common/base/escape.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Pixels, and numbers of characters per line of text. */
enum {
    WIDTH = 440,
    GRAPH = 220, /* height of the graph; more if names need it */
    LINE = 14,   /* per line of names */
    BAR = 20,
    BELOW = 36, /* below the graph: its axis */
    NAME_WIDTH = 22,
    CASE_WIDTH = 40,
    TICKS = 13,
    MARKS = 14 + 2
};

/* Dark and light alternate, so that neighbours also differ in grey print. */
static const char *const part_colours[] = {"#0072b2", "#56b4e9", "#d55e00",
                                           "#c8c8c8", "#cc79a7", "#4d4d4d"};

/* Printed points of the letters of a PDF, unless the figure's member `letters` says otherwise. */
static const double letters_pt = 6.2;

/* How much larger letters are, by the picture's width, than usual: what is as wide as a text, as a
 * fraction of the width, grows with it, and so many times fewer letters fit a line. */
static double letters_of(const json_t *figure)
{
    const double size = json_number_value(json_object_get(figure, "letters"));
    return size > 0 ? size / letters_pt : 1;
}

static size_t fewer(size_t characters, double letters)
{
    return (size_t)((double)characters / letters);
}

/* A name as it is drawn: cut in its middle, for names often differ at their ends. */
static char *squeeze(const char *name, size_t width, char out[LS_LABEL_SIZE + 64])
{
    *out = 0;
    ls_text_add(out, LS_LABEL_SIZE + 64, "%s", name);
    ls_text_squeeze(out, (int)width);
    return out;
}

/* Writes the single quotes that a text of at most `most` characters begins with, which gnuplot
 * takes for an empty text, in double ones; returns what follows. */
static const char *put_quotes(FILE *stream, const char *text, size_t *most)
{
    size_t count = strspn(text, "'");
    count = count < *most ? count : *most;
    if (count > 0)
        fprintf(stream, "\"%.*s\".", (int)count, text);
    *most -= count;
    return text + count;
}

/* Writes at most `width` characters, then dots if cut, between two texts. */
static void quote(FILE *stream, const char *before, const char *text, size_t width,
                  const char *format, ...) __attribute__((format(printf, 5, 6)));
static void quote(FILE *stream, const char *before, const char *text, size_t width,
                  const char *format, ...)
{
    va_list arguments;
    fputs(before, stream);
    text = put_quotes(stream, text, &width);
    fputc('\'', stream);
    ls_escape_put(stream, text, width, LS_ESCAPE_GNUPLOT);
    fputc('\'', stream);
    va_start(arguments, format);
    vfprintf(stream, format, arguments);
    va_end(arguments);
}

/* Writes the text of the tick at `at`. One with a '%' goes through a buffer of gnuplot's that is
 * some 50 bytes, and cut there, also within a character: so it is cut here. */
static void quote_tick(FILE *stream, const char *before, const char *text, size_t most, size_t at)
{
    char whole[1024], cut[40];
    const bool formats = strchr(text, '%');
    fputs(before, stream);
    text = put_quotes(stream, text, &most);
    ls_escape_copy(whole, sizeof whole, text, LS_ESCAPE_TICK);
    ls_escape_copy(cut, sizeof cut, text, LS_ESCAPE_TICK);
    fputc('\'', stream);
    if (formats && strlen(whole) > strlen(cut))
        fprintf(stream, "%s..", cut);
    else
        ls_escape_put(stream, text, most, LS_ESCAPE_TICK);
    fprintf(stream, "' %zu", at);
}

/* ---- Axes ----------------------------------------------------------------------------------- */

typedef struct axis {
    double low, high;
    bool log; /* if the figure asks for it and the numbers allow it */
} axis;

static void measure(const json_t *figure, axis box[2])
{
    json_t *points = ls_figure_points(figure);
    for (size_t a = 0; a < 2; a++) {
        const bool wanted = json_is_true(json_object_get(figure, a ? "log_y" : "log_x"));
        box[a] = (axis){INFINITY, -INFINITY, false};
        for (size_t i = 0; i < 3 * json_array_size(points); i++) {
            const double value = ls_figure_at(json_array_get(points, i / 3), a ? 1 + i % 3 : 0);
            box[a].low = fmin(box[a].low, value);
            box[a].high = fmax(box[a].high, value);
        }
        box[a].log = wanted && box[a].low > 0 && box[a].high > 3 * box[a].low;
    }
    json_decref(points);
}

/* Widens both axes to the range that is drawn. */
static void widen(axis *x, axis *y, const char *unit)
{
    const double span = y->high - y->low, room = x->high > x->low ? 0.04 * (x->high - x->low) : 0.5;
    const bool near = y->low > 0.8 * y->high && span > 0 && !*unit; /* like a loss far from 0 */
    *x = x->log ? (axis){x->low / 1.1, x->high * 1.1, true}
                : (axis){x->low - room, x->high + room, false};
    *y = y->log
             ? (axis){y->low / 1.5, y->high * 1.5, true}
             : (axis){near ? fmax(y->low - span, 0) : 0, y->high > 0 ? 1.08 * y->high : 1, false};
}

/* Position of a value between the low end (0) and the high end (1). */
static double position_of(double value, const axis *on)
{
    return on->log ? log(value / on->low) / log(on->high / on->low)
                   : (value - on->low) / (on->high - on->low);
}

/* Compares numbers, and texts that begin with one. */
static int by_number(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

/* "set xtics ('1' 1, '2' 2)": the values themselves, except labels that would overlap the one
 * before; round ones if there are many. */
static void print_ticks(FILE *stream, const json_t *figure, const axis *x, double pixels)
{
    double ticks[TICKS], end = -INFINITY;
    size_t count = 0;
    json_t *points = ls_figure_points(figure);
    for (size_t p = 0, i; p < json_array_size(points) && count < TICKS; p++) {
        ticks[count] = ls_figure_at(json_array_get(points, p), 0);
        for (i = 0; fabs(ticks[i] - ticks[count]) > 0;)
            i++;
        count += i == count;
    }
    json_decref(points);
    if (count == TICKS && !x->log)
        fprintf(stream, "set xtics %.17g\n", ls_scale_step(x->high - x->low, pixels));
    if (count == TICKS)
        return;
    qsort(ticks, count, sizeof *ticks, by_number);
    fputs("set xtics (", stream);
    for (size_t i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof text, "%g", ticks[i]);
        if (strncmp(ls_text_of(figure, "x"), "bytes", 5) == 0)
            ls_format_bytes(ticks[i], text);
        const double at = pixels * position_of(ticks[i], x), half = 3.6 * (double)strlen(text);
        if (at - half < end)
            continue;
        fprintf(stream, "%s'%s' %.17g", i ? ", " : "", text, ticks[i]);
        end = at + half + 4;
    }
    fputs(") scale 0.5\n", stream);
}

/* Ticks of a logarithmic y axis at 1, 2, 5, 10, 20: powers of ten would be too few. */
static void print_log_ticks(FILE *stream, double low, double high)
{
    int count = 0;
    for (double ten = pow(10, floor(log10(low))); ten <= high && high < 100 * low; ten *= 10)
        for (int step = 1; step <= 5; step = step == 1 ? 2 : step + 3)
            if (ten * step >= low && ten * step <= high)
                fprintf(stream, "%s'%g' %.17g", count++ ? ", " : "set ytics (", ten * step,
                        ten * step);
    fputs(count ? ")\n" : "", stream);
}

/* ---- Names at the ends of lines ------------------------------------------------------------- */

typedef struct mark {
    double position, half; /* as fractions of the graph's height */
    const json_t *series;
    const char *name;
    size_t first; /* bytes of its first line */
} mark;

/* Places each name at its line's end, moved apart, in a graph that is `high` enough; returns how
 * many there are. `longest`: characters. */
static size_t put_names(const json_t *figure, const axis *y, mark marks[MARKS], double *longest,
                        int *high)
{
    const json_t *all = json_object_get(figure, "series");
    const size_t most = fewer(NAME_WIDTH, letters_of(figure));
    size_t count = 0;
    int lines = 0;
    *longest = 8;
    for (size_t s = 0; s < json_array_size(all); s++) {
        const json_t *one = json_array_get(all, s), *points = json_object_get(one, "points");
        const json_t *last = json_array_get(points, json_array_size(points) - 1);
        mark now = {.series = one, .name = ls_text_of(one, "shown")};
        now.name = *now.name ? now.name : ls_text_of(one, "name");
        now.first = ls_text_line(now.name, most);
        now.half = now.name[now.first] ? LINE : 0.5 * LINE; /* in pixels, until all are known */
        now.position = position_of(ls_figure_at(last, 1), y);
        const double rest = ls_text_width(now.name + now.first);
        *longest = fmax(*longest, fmin(rest, (double)most));
        *longest = fmax(*longest, ls_text_width(now.name) - rest);
        if (last && count < MARKS) {
            marks[count++] = now;
            lines += now.name[now.first] ? 2 : 1;
        }
    }
    *high = lines * LINE > GRAPH ? lines * LINE : GRAPH;
    qsort(marks, count, sizeof *marks, by_number);
    for (size_t i = 0; i < count; i++) {
        marks[i].half /= *high;
        marks[i].position =
            fmax(marks[i].position, i ? marks[i - 1].position + marks[i - 1].half + marks[i].half
                                      : marks[i].half - 0.01);
    }
    for (size_t i = count; i-- > 0;)
        marks[i].position =
            fmin(marks[i].position, i + 1 < count
                                        ? marks[i + 1].position - marks[i + 1].half - marks[i].half
                                        : 1.01 - marks[i].half);
    return count;
}

/* Prints a name, with a sample of its line and mark. */
static void print_name(FILE *stream, const mark *one, double right, int high, double letters)
{
    const double height = (double)LINE / high;
    const ls_look look = ls_look_of(one->series);
    if (json_array_size(json_object_get(one->series, "points")) > 1)
        fprintf(stream,
                "set arrow from screen %.4f,graph %.4f to screen %.4f,graph %.4f nohead lw 2 lc "
                "rgb '%s' dt %s\n",
                right + 0.012 * letters, one->position, right + 0.066 * letters, one->position,
                look.colour, look.dash);
    if (look.marker)
        fprintf(stream, "set label '' at screen %.4f,graph %.4f point pt %d ps 0.9 lc rgb '%s'\n",
                right + 0.039 * letters, one->position, look.marker, look.colour);
    for (int line = 0; line < (one->name[one->first] ? 2 : 1); line++) {
        char text[LS_LABEL_SIZE + 64] = "";
        const char *rest = one->name + one->first;
        if (line)
            squeeze(rest + (*rest == ' '), fewer(NAME_WIDTH, letters), text);
        else
            ls_text_add(text, sizeof text, "%.*s", (int)one->first, one->name);
        quote(stream, "set label ", text, fewer(NAME_WIDTH, letters),
              " at screen %.4f,graph %.4f left font ',11' tc rgb '#222222'\n",
              right + 0.073 * letters, one->position + (one->half - height / 2) - line * height);
    }
}

/* ---- What stands around --------------------------------------------------------------------- */

/* Lines of text of a figure. */
typedef struct block {
    const char *of;
    size_t width;
    int most, size; /* lines; pixels */
    const char *colour;
} block;
static const block title = {"title", 50, 2, 15, "#222222"};
static const block sub = {"sub", 74, 2, 11, "#555555"};
static const block foot = {"foot", 76, 3, 10, "#555555"};

/* Prints it from `y` pixels on; returns the next line's position. NULL: only measures. */
static int print_block(FILE *stream, const json_t *figure, const block *of, int y, int height)
{
    const size_t width = fewer(of->width, letters_of(figure));
    const bool bare = json_is_true(json_object_get(figure, "bare"));
    const char *text = bare ? "" : ls_text_of(figure, of->of);
    for (int i = 0; i < of->most && *text; i++, y += of->size + 4) {
        const size_t bytes = i + 1 < of->most ? ls_text_line(text, width) : strlen(text);
        char line[600] = "";
        ls_text_add(line, sizeof line, "%.*s", (int)bytes, text);
        if (stream)
            quote(stream, "set label ", line, width,
                  " at screen 0.02,%.4f left font ',%d' tc rgb '%s'\n", 1 - (double)y / height,
                  of->size, of->colour);
        text += bytes + (text[bytes] == ' ');
    }
    return y;
}

typedef struct frame {
    int room, top, bottom, height; /* pixels: area above the graph, the graph */
} frame;

/* Prints terminal, texts and margins of a picture: its graph's height, and room above. */
static frame print_frame(FILE *stream, const json_t *figure, ls_picture kind, int room, int graph,
                         const char *unit)
{
    static const char *const terminals[] = {
        "svg size %.0f,%.0f font 'sans-serif,12'",
        "pngcairo size %.0f,%.0f font 'Arial,12' fontscale 1.5 lw 2 ps 4",
        /* a printed column; gnuplot's points are 1.2 printed ones */
        "pdfcairo size %.4fcm,%.4fcm font 'Arial,12' fontscale %.4f lw 0.7 ps 1.1",
    };
    static const char *const endings[] = {"svg", "png", "pdf"};
    const double letters = letters_of(figure), scales[] = {1, 2, 8.6 / WIDTH * letters};
    const int head = print_block(NULL, figure, &title, 17, 1);
    frame out = {.room = print_block(NULL, figure, &sub, head, 1)};
    out.top = out.room + room;
    out.bottom = out.top + graph;
    out.height = print_block(NULL, figure, &foot, out.bottom + BELOW + 16, 1) - 5;
    const double height = out.height;
    fputs("reset\nset encoding utf8\nset terminal ", stream);
    fprintf(stream, terminals[kind], WIDTH * scales[kind] / letters, height * scales[kind],
            0.43 * letters);
    fprintf(stream,
            " noenhanced background '#ffffff'\nset output '%s.%s'\n"
            "set border 3 lc rgb '#767676'\nunset key\nunset mxtics\nunset "
            "mytics\n"
            "set tics nomirror font ',11' textcolor rgb '#222222' scale 0.5\n"
            "set tmargin at screen %.4f\nset bmargin at screen %.4f\n",
            ls_text_of(figure, "name"), endings[kind], 1 - out.top / height,
            1 - out.bottom / height);
    print_block(stream, figure, &title, 17, out.height);
    print_block(stream, figure, &sub, head, out.height);
    print_block(stream, figure, &foot, out.bottom + BELOW + 16, out.height);
    quote(stream, "set label ", ls_text_of(figure, "x"), 60,
          json_object_get(figure, "categories") /* narrow, next to long names */
              ? ".'%s' at screen 0.98,screen %.4f right font ',11' tc rgb '#555555'\n"
              : ".'%s' at graph 0.5,screen %.4f center font ',11' tc rgb '#555555'\n",
          unit, 1 - (out.bottom + 30) / height);
    return out;
}

static void print_points(FILE *stream, const json_t *figure, size_t index, double scale)
{
    const json_t *one = json_array_get(json_object_get(figure, "series"), index);
    const json_t *points = json_object_get(one, "points"),
                 *looks = json_object_get(figure, "looks");
    fprintf(stream, "$s%zu << EOD\n", index);
    for (size_t p = 0; p < json_array_size(points); p++) {
        const ls_look look = ls_look_of(json_array_get(looks, p)); /* of a bar or range */
        for (size_t i = 0; i < 4; i++)
            fprintf(stream, "%.17g ", ls_figure_at(json_array_get(points, p), i) * (i ? scale : 1));
        fprintf(stream, "%d 0x%s\n", look.marker, look.colour + 1);
    }
    fputs("EOD\n", stream);
}

/* Fraction of the picture's width that names with this many characters need. */
static double room_for(double characters)
{
    return 0.083 + 0.016 * characters;
}

/* ---- Lines ---------------------------------------------------------------------------------- */

static void script_lines(FILE *stream, const json_t *figure, ls_picture kind)
{
    const json_t *all = json_object_get(figure, "series");
    const char *unit, *measured = ls_text_of(figure, "unit");
    axis x_y[2], *x = &x_y[0], *y = &x_y[1];
    mark marks[MARKS];
    double longest;
    int high;
    measure(figure, x_y);
    const double scale = ls_scale_of(figure, y->high, &unit);
    widen(x, y, measured);
    const size_t count = put_names(figure, y, marks, &longest, &high);
    const double letters = letters_of(figure);
    const double left = 0.115 * letters, right = 0.99 - letters * room_for(longest);
    const frame out = print_frame(stream, figure, kind, 26, high, "");
    quote(stream, "set label ", ls_text_of(figure, "y"), 60,
          ".'%s' at screen 0.02,%.4f left font ',11' tc rgb '#555555'\n", unit,
          1 - (out.top - 14.0) / out.height);
    fprintf(stream,
            "set format y '%s'\nset lmargin at screen %.4f\nset rmargin at screen %.4f\n"
            "set grid ytics lt 1 lc rgb '#dddddd' lw 1\n%s%s"
            "set xrange [%.17g:%.17g]\nset yrange [%.17g:%.17g]\n",
            strcmp(measured, "%") == 0 ? "%g%%" : "%h", left, right,
            x->log ? "set logscale x\n" : "", y->log ? "set logscale y\n" : "", x->low, x->high,
            y->low * scale, y->high * scale);
    print_ticks(stream, figure, x, (right - left) * WIDTH / letters);
    if (y->log)
        print_log_ticks(stream, y->low * scale, y->high * scale);
    for (size_t i = 0; i < count; i++)
        print_name(stream, &marks[i], right, high, letters);
    for (size_t s = 0; s < json_array_size(all); s++)
        print_points(stream, figure, s, scale);
    fputs("plot NaN notitle", stream);
    for (size_t s = 0; s < json_array_size(all); s++) {
        const ls_look look = ls_look_of(json_array_get(all, s));
        const size_t points = json_array_size(json_object_get(json_array_get(all, s), "points"));
        if (points > 1)
            fprintf(stream, ", $s%zu using 1:2 with lines lc rgb '%s' lw 2 dt %s notitle", s,
                    look.colour, look.dash);
        if (points > 24 && look.marker) /* a mark at each point would hide the line */
            fprintf(stream, ", $s%zu every %zu using 1:2 with points", s, points / 6);
        else if (points > 0 && look.marker)
            fprintf(stream, ", $s%zu using 1:2:3:4 with yerrorbars", s);
        if (points > 0 && look.marker)
            fprintf(stream, " lc rgb '%s' pt %d ps 0.9 lw 1 notitle", look.colour, look.marker);
    }
    fputs("\n", stream);
}

/* ---- Bars and ranges ------------------------------------------------------------------------ */

static void script_bars(FILE *stream, const json_t *figure, ls_picture kind)
{
    const bool ranges = strcmp(ls_text_of(figure, "kind"), "ranges") == 0;
    const json_t *names = json_object_get(figure, "categories");
    const json_t *all = json_object_get(figure, "series");
    const size_t count = json_array_size(names), bars = count > 2 ? count : 2;
    const char *unit;
    axis x_y[2];
    measure(figure, x_y);
    const double scale = ls_scale_of(figure, x_y[1].high, &unit), right = 0.96;
    const double high = x_y[1].high > 0 ? x_y[1].high * 1.04 * scale : 1;
    const double letters = letters_of(figure);
    const size_t most = fewer(CASE_WIDTH, letters);
    double longest = 4;
    const int lines = (int)(json_array_size(all) + 2) / 3; /* lines of the legend */
    const frame out = print_frame(stream, figure, kind, 8 + 16 * lines, BAR * (int)bars, unit);
    fprintf(stream,
            "set key on at screen 0.015,%.4f left top vertical maxrows %d Left reverse samplen 1 "
            "font ',11' textcolor rgb '#222222'\n",
            1 - (out.room - 2.0) / out.height, lines);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        char text[LS_LABEL_SIZE + 64];
        longest = fmax(longest, fmin(ls_text_width(name), (double)most));
        quote_tick(stream, i ? ", " : "set ytics (", squeeze(name, most, text), most, i);
    }
    const double left = letters * (room_for(longest) - 0.043);
    fprintf(stream,
            ") scale 0\nset lmargin at screen %.4f\nset rmargin at screen %.4f\n"
            "set grid xtics lt 1 lc rgb '#dddddd' lw 1\nset xtics %.17g\n"
            "set yrange [%.1f:-0.6]\nset xrange [0:%.17g]\n"
            "set style fill solid 1 border lc rgb '#ffffff'\n",
            left, right, ls_scale_step(high, (right - left) * WIDTH / letters), (double)bars - 0.4,
            high);
    for (size_t s = 0; s < json_array_size(all); s++)
        print_points(stream, figure, s, scale);
    fputs("plot NaN notitle", stream);
    for (size_t s = 0; s < json_array_size(all); s++) {
        const json_t *one = json_array_get(all, s);
        if (!ranges)
            fprintf(stream,
                    ", $s%zu using (($3+$4)/2):1:3:4:($1-0.4):($1+0.4) with boxxyerror fc rgb '%s'",
                    s, part_colours[json_integer_value(json_object_get(one, "style")) % 6]);
        else
            fprintf(stream,
                    s ? ", $s%zu using 2:1:6 with points pt 1 ps 0.9 lw 1 lc rgb variable notitle"
                        ", NaN with points pt 1 ps 0.9 lw 1 lc rgb '#4d4d4d'"
                      : ", $s%zu using 2:1:3:4:6 with xerrorbars pt 0 lw 2 lc rgb variable notitle"
                        ", $s0 using 2:1:5:6 with points pt variable ps 0.9 lc rgb variable notitle"
                        ", NaN with lines lw 2 lc rgb '#4d4d4d'",
                    s);
        quote(stream, " title ", ls_text_of(one, "name"), 24, "%s", "");
    }
    fputs("\n", stream);
}

void ls_draw_script(FILE *stream, const json_t *figure, ls_picture kind)
{
    if (strcmp(ls_text_of(figure, "kind"), "lines") == 0)
        script_lines(stream, figure, kind);
    else
        script_bars(stream, figure, kind);
}
