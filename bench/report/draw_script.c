/* SPDX-License-Identifier: MIT */
/*
 * A figure as a script of gnuplot, narrow enough for a phone or a printed column. Names of series
 * stand at the ends of their lines, moved apart. Text of rows comes in single quotes, where gnuplot
 * knows no escape but its own quote, doubled, and without line ends; terminals are told not to read
 * markup.
 */
#include "bench/report/case_keys.h"
#include "bench/report/draw.h"
#include "bench/report/draw_look.h"
#include "bench/report/draw_scale.h"
#include "bench/report/figures.h"
#include "bench/report/text.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Pixels, and characters that lines of text hold. */
enum {
    WIDTH = 440,
    GRAPH = 220, /* height of lines */
    BAR = 20,
    BELOW = 36, /* the graph: its axis */
    TITLE_WIDTH = 52,
    SUB_WIDTH = 74,
    FOOT_WIDTH = 76,
    NAME_WIDTH = 22,
    CASE_WIDTH = 36,
    PLACES = 13,
    MARKS = 64
};

/* Neighbours are dark and light in turn, so that they differ in grey print, too. */
static const char *const part_colours[] = {"#0072b2", "#56b4e9", "#d55e00",
                                           "#c8c8c8", "#cc79a7", "#4d4d4d"};

/* At most `width` characters, with dots for more. */
static void quote(FILE *stream, const char *before, const char *text, size_t width)
{
    fprintf(stream, "%s'", before);
    ls_text_put(stream, text, width, LS_ESCAPE_GNUPLOT);
    fputc('\'', stream);
}

/* Height of a name's line in that of the graph. */
#define LINE 0.061

/* Text of a figure, in lines below each other. */
typedef struct block {
    const char *of;
    size_t width;
    int most, size; /* lines; pixels */
    const char *colour;
} block;
static const block title = {"title", TITLE_WIDTH, 2, 15, "#222222"};
static const block sub = {"sub", SUB_WIDTH, 2, 11, "#555555"};
static const block foot = {"foot", FOOT_WIDTH, 3, 10, "#555555"};

/* From `y` pixels on; returns where the next line would be. NULL: only that. */
static int print_block(FILE *stream, const json_t *figure, const block *of, int y, int height)
{
    const char *text = ls_text_of(figure, of->of);
    for (int i = 0; i < of->most && *text; i++, y += of->size + 4) {
        const size_t bytes = i + 1 < of->most ? ls_text_line(text, of->width) : strlen(text);
        char line[600] = "";
        ls_text_add(line, sizeof line, "%.*s", (int)bytes, text);
        if (stream) {
            quote(stream, "set label ", line, of->width);
            fprintf(stream, " at screen 0.02,%.4f left font ',%d' tc rgb '%s'\n",
                    1 - (double)y / height, of->size, of->colour);
        }
        text += bytes + (text[bytes] == ' ');
    }
    return y;
}

typedef struct extent {
    double low[2], high[2]; /* of x and y */
} extent;

static extent measure(const json_t *figure)
{
    extent out = {{INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
    json_t *points = ls_figure_points(figure);
    for (size_t i = 0; i < 4 * json_array_size(points); i++) {
        const double value = ls_figure_at(json_array_get(points, i / 4), i % 4);
        const size_t axis = i % 4 > 0;
        out.low[axis] = fmin(out.low[axis], value);
        out.high[axis] = fmax(out.high[axis], value);
    }
    json_decref(points);
    return out;
}

/* An axis is logarithmic where the figure asks for it and the numbers allow it. */
static bool is_log(const json_t *figure, const char *name, double low, double high)
{
    return json_is_true(json_object_get(figure, name)) && low > 0 && high > 3 * low;
}

/* Widens the extent to the range that is drawn. */
static void widen(const json_t *figure, extent *box)
{
    for (size_t axis = 0; axis < 2; axis++) {
        double *low = &box->low[axis], *high = &box->high[axis];
        if (is_log(figure, axis ? "log_y" : "log_x", *low, *high)) {
            *low /= axis ? 1.5 : 1.1;
            *high *= axis ? 1.5 : 1.1;
        } else if (axis) {
            *low = *low > 0 && *low > 0.8 * *high && *high - *low > 0 ? *low - (*high - *low) : 0;
            *low = *low < 0 || strcmp(ls_text_of(figure, "unit"), "") != 0 ? 0 : *low;
            *high = *high > 0 ? *high * 1.08 : 1;
        } else {
            const double room = *high > *low ? 0.04 * (*high - *low) : 0.5;
            *low -= room;
            *high += room;
        }
    }
}

/* Where a value stands on its axis, between its low end (0) and its high one (1). */
static double place_of(double value, const extent *box, size_t axis, bool is_log)
{
    const double low = box->low[axis], high = box->high[axis];
    return is_log ? log(value / low) / log(high / low) : (value - low) / (high - low);
}

typedef struct mark {
    double place, half; /* of its height */
    const json_t *series;
} mark;

/* Of numbers, and of what begins with one. */
static int by_number(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static ls_look look_of(const json_t *one)
{
    return ls_look_of(json_integer_value(json_object_get(one, "style")),
                      json_integer_value(json_object_get(one, "variant")));
}

static const char *name_of(const json_t *one)
{
    return ls_text_of(one, *ls_text_of(one, "shown") ? "shown" : "name");
}

static double longest_name(const json_t *figure)
{
    const json_t *one;
    size_t s;
    double longest = 8;
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        const char *name = name_of(one);
        const double rest = (double)ls_text_length(name + ls_text_line(name, NAME_WIDTH));
        longest = fmax(longest, fmax((double)ls_text_length(name) - rest, fmin(rest, NAME_WIDTH)));
    }
    return longest;
}

/* Places of names, each at its line's end, pushed apart; returns how many there are. */
static size_t place_names(const json_t *figure, const extent *box, bool log_y, mark marks[MARKS])
{
    const json_t *one;
    size_t count = 0, s;
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        const json_t *points = json_object_get(one, "points");
        const json_t *last = json_array_get(points, json_array_size(points) - 1);
        const double half =
            name_of(one)[ls_text_line(name_of(one), NAME_WIDTH)] ? LINE : 0.5 * LINE;
        if (last && count < MARKS)
            marks[count++] = (mark){place_of(ls_figure_at(last, 1), box, 1, log_y), half, one};
    }
    qsort(marks, count, sizeof *marks, by_number);
    for (size_t i = 0; i < count; i++)
        marks[i].place =
            fmax(marks[i].place,
                 i ? marks[i - 1].place + marks[i - 1].half + marks[i].half : marks[i].half - 0.01);
    for (size_t i = count; i-- > 0;)
        marks[i].place = fmin(marks[i].place,
                              i + 1 < count ? marks[i + 1].place - marks[i + 1].half - marks[i].half
                                            : 1.01 - marks[i].half);
    return count;
}

/* Name, and the line and mark that it is of. */
static void print_names(FILE *stream, const json_t *figure, const extent *box, bool log_y,
                        double right)
{
    mark marks[MARKS];
    const size_t count = place_names(figure, box, log_y, marks);
    for (size_t i = 0; i < count; i++) {
        const ls_look look = look_of(marks[i].series);
        const char *name = name_of(marks[i].series);
        const size_t first = ls_text_line(name, NAME_WIDTH);
        if (json_array_size(json_object_get(marks[i].series, "points")) > 1)
            fprintf(
                stream,
                "set arrow from screen %.4f,graph %.4f to screen %.4f,graph %.4f nohead lw 2 lc "
                "rgb '%s' dt %s\n",
                right + 0.012, marks[i].place, right + 0.066, marks[i].place, look.colour,
                look.dash);
        if (look.marker)
            fprintf(stream,
                    "set label '' at screen %.4f,graph %.4f point pt %d ps 0.9 lc rgb '%s'\n",
                    right + 0.039, marks[i].place, look.marker, look.colour);
        for (int line = 0; line < (name[first] ? 2 : 1); line++) {
            char text[LS_LABEL_SIZE + 64] = "";
            ls_text_add(text, sizeof text, "%.*s", line ? (int)sizeof text : (int)first,
                        line ? name + first + (name[first] == ' ') : name);
            quote(stream, "set label ", text, NAME_WIDTH);
            fprintf(stream, " at screen %.4f,graph %.4f left font ',11' tc rgb '#222222'\n",
                    right + 0.073, marks[i].place + (marks[i].half - LINE / 2) - line * LINE);
        }
    }
}

/* "set xtics ('1' 1, '2' 2)": the places themselves, less what would touch the one before; of more
 * than a few, round ones. */
static void print_places(FILE *stream, const json_t *figure, const extent *box, bool log_x,
                         double pixels)
{
    double places[PLACES], end = -INFINITY;
    size_t count = 0;
    json_t *points = ls_figure_points(figure);
    for (size_t p = 0, i; p < json_array_size(points) && count < PLACES; p++) {
        places[count] = ls_figure_at(json_array_get(points, p), 0);
        for (i = 0; fabs(places[i] - places[count]) > 0;)
            i++;
        count += i == count;
    }
    json_decref(points);
    if (count == PLACES && !log_x)
        fprintf(stream, "set xtics %.17g\n", ls_scale_step(box->high[0] - box->low[0], pixels));
    if (count == PLACES)
        return;
    qsort(places, count, sizeof *places, by_number);
    fputs("set xtics (", stream);
    for (size_t i = 0; i < count; i++) {
        char text[32];
        snprintf(text, sizeof text, "%g", places[i]);
        if (strcmp(ls_text_of(figure, "x"), "bytes") == 0)
            ls_format_bytes(places[i], text);
        const double at = pixels * place_of(places[i], box, 0, log_x),
                     half = 3.6 * (double)strlen(text);
        if (at - half < end)
            continue;
        fprintf(stream, "%s'%s' %.17g", i ? ", " : "", text, places[i]);
        end = at + half + 4;
    }
    fputs(") scale 0.5\n", stream);
}

/* Ticks of a logarithmic y at 1, 2, 5, 10, 20: powers of ten alone would be too few. */
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

typedef struct frame {
    int room, top, bottom, height; /* pixels: where what is above the graph begins, the graph */
} frame;

/* Terminal, texts and margins of a picture with a graph that is so high, and room above it. */
static frame print_frame(FILE *stream, const json_t *figure, ls_picture kind, int room, int graph,
                         const char *unit)
{
    static const char *const terminals[] = {
        "svg size %d,%d font 'sans-serif,12' noenhanced background '#ffffff'",
        "pngcairo size %d,%d font 'Arial,12' fontscale 1.5 lw 2 ps 2 noenhanced background "
        "'#ffffff'",
    };
    static const char *const endings[] = {"svg", "png", "pdf"};
    char terminal[256];
    const int head = print_block(NULL, figure, &title, 17, 1);
    frame out = {.room = print_block(NULL, figure, &sub, head, 1)};
    out.top = out.room + room;
    out.bottom = out.top + graph;
    out.height = print_block(NULL, figure, &foot, out.bottom + BELOW + 16, 1) - 5;
    const double height = out.height;
    if (kind == LS_PICTURE_PDF) /* a column of print; gnuplot's points are 1.2 of print's */
        snprintf(
            terminal, sizeof terminal,
            "pdfcairo size 8.6cm,%.2fcm font 'Arial,12' fontscale 0.43 lw 0.7 ps 0.6 noenhanced",
            8.6 * height / WIDTH);
    else
        snprintf(terminal, sizeof terminal, terminals[kind == LS_PICTURE_PNG], WIDTH << kind,
                 out.height << kind);
    fprintf(stream,
            "reset\nset encoding utf8\nset terminal %s\nset output '%s.%s'\n"
            "set border 3 lc rgb '#767676'\nunset key\nunset mxtics\nunset mytics\n"
            "set tics nomirror font ',11' textcolor rgb '#222222' scale 0.5\n"
            "set tmargin at screen %.4f\nset bmargin at screen %.4f\n",
            terminal, ls_text_of(figure, "name"), endings[kind], 1 - out.top / height,
            1 - out.bottom / height);
    print_block(stream, figure, &title, 17, out.height);
    print_block(stream, figure, &sub, head, out.height);
    print_block(stream, figure, &foot, out.bottom + BELOW + 16, out.height);
    quote(stream, "set label ", ls_text_of(figure, "x"), 60);
    fprintf(stream, ".'%s' at graph 0.5,screen %.4f center font ',11' tc rgb '#555555'\n", unit,
            1 - (out.bottom + 30) / height);
    return out;
}

/* Of a bar or range. */
static ls_look bar_look(const json_t *figure, size_t index)
{
    const json_t *look = json_array_get(json_object_get(figure, "looks"), index);
    return ls_look_of(json_integer_value(json_array_get(look, 0)),
                      json_integer_value(json_array_get(look, 1)));
}

static void print_points(FILE *stream, const json_t *figure, size_t index, double scale)
{
    const json_t *point;
    size_t p;
    const json_t *one = json_array_get(json_object_get(figure, "series"), index);
    fprintf(stream, "$s%zu << EOD\n", index);
    json_array_foreach(json_object_get(one, "points"), p, point)
    {
        const ls_look look = bar_look(figure, p);
        for (size_t i = 0; i < 4; i++)
            fprintf(stream, "%.17g ", ls_figure_at(point, i) * (i ? scale : 1));
        fprintf(stream, "%d 0x%s\n", look.marker, look.colour + 1);
    }
    fputs("EOD\n", stream);
}

/* Share of the picture's width that names of so many characters take. */
static double room_for(double characters)
{
    return 0.083 + 0.0147 * characters;
}

static void plot_lines(FILE *stream, const json_t *figure)
{
    const json_t *one;
    size_t s;
    fputs("plot NaN notitle", stream);
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        const ls_look look = look_of(one);
        const size_t count = json_array_size(json_object_get(one, "points"));
        if (count == 0)
            continue;
        fprintf(stream, ", $s%zu using 1:2", s);
        if (!look.marker) {
            fprintf(stream, " with lines lc rgb '%s' lw 2 dt %s notitle", look.colour, look.dash);
            continue;
        }
        if (count > 24) /* a mark at each point would hide the line */
            fprintf(stream, " with linespoints pi %zu ", count / 6);
        else
            fputs(":3:4 with yerrorlines ", stream);
        fprintf(stream, "lc rgb '%s' pt %d ps 0.9 lw 2 dt %s notitle", look.colour, look.marker,
                look.dash);
    }
    fputs("\n", stream);
}

static void script_lines(FILE *stream, const json_t *figure, ls_picture kind)
{
    extent box = measure(figure);
    const bool log_x = is_log(figure, "log_x", box.low[0], box.high[0]);
    const bool log_y = is_log(figure, "log_y", box.low[1], box.high[1]);
    const char *unit;
    const double scale = ls_scale_of(figure, box.high[1], &unit);
    const double left = 0.115, right = 0.99 - room_for(longest_name(figure));
    widen(figure, &box);
    const frame out = print_frame(stream, figure, kind, 26, GRAPH, "");
    quote(stream, "set label ", ls_text_of(figure, "y"), 60);
    fprintf(stream,
            ".'%s' at screen 0.02,%.4f left font ',11' tc rgb '#555555'\n"
            "set format y '%s'\nset lmargin at screen %.4f\nset rmargin at screen %.4f\n"
            "set grid ytics lt 1 lc rgb '#dddddd' lw 1\n%s%s"
            "set xrange [%.17g:%.17g]\nset yrange [%.17g:%.17g]\n",
            unit, 1 - (out.top - 14.0) / out.height,
            strcmp(ls_text_of(figure, "unit"), "%") == 0 ? "%g%%" : "%h", left, right,
            log_x ? "set logscale x\n" : "", log_y ? "set logscale y\n" : "", box.low[0],
            box.high[0], box.low[1] * scale, box.high[1] * scale);
    print_places(stream, figure, &box, log_x, (right - left) * WIDTH);
    if (log_y)
        print_log_ticks(stream, box.low[1] * scale, box.high[1] * scale);
    print_names(stream, figure, &box, log_y, right);
    for (size_t s = 0; s < json_array_size(json_object_get(figure, "series")); s++)
        print_points(stream, figure, s, scale);
    plot_lines(stream, figure);
}

/* What the colours or marks mean, on as many lines as that takes, above a graph that begins at
 * `top`; returns how many. NULL: only that. */
static int print_legend(FILE *stream, const json_t *figure, bool ranges, const frame *of)
{
    int lines = 1;
    double x = 9;
    const json_t *one;
    size_t s;
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        const json_int_t style = json_integer_value(json_object_get(one, "style"));
        const int shape = ranges ? (style ? 1 : bar_look(figure, 0).marker) : 5;
        const double width = 26 + 6.6 * (double)strlen(ls_text_of(one, "name"));
        if (x + width > WIDTH) {
            lines++;
            x = 9;
        }
        if (stream) {
            quote(stream, "set label ", ls_text_of(one, "name"), 24);
            fprintf(stream,
                    " at screen %.4f,%.4f left offset 0.8,-0.3 font ',11' tc rgb '#222222' point "
                    "pt %d ps 1 lc rgb '%s'\n",
                    (x + 6) / WIDTH, 1 - (of->room - 8.0 + 16 * lines) / of->height, shape,
                    ranges ? "#4d4d4d" : part_colours[style % 6]);
        }
        x += width;
    }
    return lines;
}

static void script_bars(FILE *stream, const json_t *figure, ls_picture kind)
{
    const bool ranges = strcmp(ls_text_of(figure, "kind"), "ranges") == 0;
    const json_t *names = json_object_get(figure, "categories"), *one;
    const json_t *series = json_object_get(figure, "series");
    const size_t count = json_array_size(names), bars = count > 2 ? count : 2;
    const extent box = measure(figure);
    const char *unit;
    const double scale = ls_scale_of(figure, box.high[1], &unit);
    const double high = box.high[1] > 0 ? box.high[1] * 1.04 * scale : 1, right = 0.96;
    double longest = 4;
    size_t s;
    const int lines = print_legend(NULL, figure, ranges, NULL);
    const frame out = print_frame(stream, figure, kind, 14 + 16 * lines, BAR * (int)bars, unit);
    print_legend(stream, figure, ranges, &out);
    for (size_t i = 0; i < count; i++) {
        const char *name = json_string_value(json_array_get(names, i));
        longest = fmax(longest, fmin((double)ls_text_length(name), CASE_WIDTH));
        quote(stream, i ? ", " : "set ytics (", name, CASE_WIDTH);
        fprintf(stream, " %zu", i);
    }
    const double left = room_for(longest) - 0.043;
    fprintf(stream,
            ") scale 0\nset lmargin at screen %.4f\nset rmargin at screen %.4f\n"
            "set grid xtics lt 1 lc rgb '#dddddd' lw 1\nset xtics %.17g\n"
            "set yrange [%.1f:-0.6]\nset xrange [0:%.17g]\n"
            "set style fill solid 1 border lc rgb '#ffffff'\n",
            left, right, ls_scale_step(high, (right - left) * WIDTH), (double)bars - 0.4, high);
    json_array_foreach(series, s, one) print_points(stream, figure, s, scale);
    fputs("plot NaN notitle", stream);
    json_array_foreach(series, s, one)
    {
        if (!ranges)
            fprintf(stream,
                    ", $s%zu using (($3+$4)/2):1:3:4:($1-0.4):($1+0.4) with boxxyerror fc rgb '%s' "
                    "notitle",
                    s, part_colours[json_integer_value(json_object_get(one, "style")) % 6]);
        else if (s == 0)
            fputs(", $s0 using 2:1:3:4:6 with xerrorbars pt 0 lw 2 lc rgb variable notitle"
                  ", $s0 using 2:1:5:6 with points pt variable ps 0.9 lc rgb variable notitle",
                  stream);
        else
            fprintf(stream,
                    ", $s%zu using 2:1:6 with points pt 1 ps 0.9 lw 2 lc rgb variable notitle", s);
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
