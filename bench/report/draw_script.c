/* SPDX-License-Identifier: MIT */
/*
 * A figure as a script of gnuplot. Text of rows comes in single quotes, where gnuplot knows no
 * escape but its own quote, doubled, and without line ends; terminals are told not to read markup.
 * What lies beside each other at the right is pushed apart.
 */
#include "bench/report/draw.h"
#include "bench/report/figures.h"
#include "bench/report/text.h"
#include "common/base/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 560,
    HEIGHT = 400,
    BAR = 24,
    TITLE_WIDTH = 54,
    SUB_WIDTH = 86,
    NAME_WIDTH = 26,
    CASE_WIDTH = 38
};

/* By place: of strategies in their registry, whose colours and markers they keep. */
enum { LOOKS = 9 };
static const char *const colours[LOOKS] = {"#4d4d4d", "#7b3294", "#d55e00", "#0072b2", "#882255",
                                           "#cc79a7", "#e69f00", "#56b4e9", "#009e73"};
static const int markers[LOOKS] = {7, 11, 5, 9, 15, 4, 6, 8, 13};
static const int peer_markers[LOOKS] = {2, 1, 3, 4, 6, 8, 10, 12, 14};
static const char peers_colour[] = "#767676";
static const char *const part_colours[] = {"#0072b2", "#009e73", "#d55e00",
                                           "#b8b8b8", "#cc79a7", "#4d4d4d"};

static const char *text_of(const json_t *figure, const char *name)
{
    const char *text = json_string_value(json_object_get(figure, name));
    return text ? text : "";
}

/* Where a line of at most `width` characters ends: at a blank, if there is one late enough. */
static size_t line_end(const char *text, size_t width)
{
    size_t at = 0, blank = 0;
    for (size_t count = 0; text[at] && count < width; count++) {
        if (text[at] == ' ' && count > width / 2)
            blank = at;
        at += ls_text_step(text + at);
    }
    return text[at] && blank ? blank : at;
}

/* The larger of `least` and the text's characters, of which at most `most` are shown. */
static size_t length_shown(const char *text, size_t least, size_t most)
{
    size_t count = 0;
    for (; *text && count < most; count++)
        text += ls_text_step(text);
    return count > least ? count : least;
}

/* At most `width` characters, with dots for more. */
static void quote(FILE *stream, const char *text, size_t width)
{
    fputc('\'', stream);
    ls_text_put(stream, text, width, ls_escape_gnuplot);
    fputc('\'', stream);
}

/* Lines below each other from `y` pixels on; returns where the next would be. */
static int print_lines(FILE *stream, const char *text, size_t width, int most, int size,
                       const char *colour, int y, int height)
{
    for (int i = 0; i < most && *text; i++) {
        char line[600] = "";
        const size_t bytes = line_end(text, width);
        ls_text_add(line, sizeof line, "%.*s", (int)bytes, text);
        fputs("set label ", stream);
        quote(stream, line, width);
        fprintf(stream, " at screen 0.02,%.4f left font ',%d' tc rgb '%s'\n",
                1 - (double)y / height, size, colour);
        text += bytes + (text[bytes] == ' ');
        y += size + 5;
    }
    return y;
}

typedef struct extent {
    double low[2], high[2]; /* of x and y */
} extent;

static extent measure(const json_t *figure)
{
    extent out = {{INFINITY, INFINITY}, {-INFINITY, -INFINITY}};
    const json_t *one, *point;
    size_t s, p;
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        json_array_foreach(json_object_get(one, "points"), p, point)
        {
            const double values[] = {ls_figure_at(point, 0), ls_figure_at(point, 1),
                                     ls_figure_at(point, 2), ls_figure_at(point, 3)};
            for (size_t i = 0; i < 4; i++) {
                const size_t axis = i > 0;
                out.low[axis] = fmin(out.low[axis], values[i]);
                out.high[axis] = fmax(out.high[axis], values[i]);
            }
        }
    }
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
            *low = *low < 0 || strcmp(text_of(figure, "unit"), "") != 0 ? 0 : *low;
            *high = *high > 0 ? *high * 1.08 : 1;
        } else {
            const double room = *high > *low ? 0.04 * (*high - *low) : 0.5;
            *low -= room;
            *high += room;
        }
    }
}

/* Where y stands between bottom (0) and top (1). */
static double place_of(double y, const extent *box, bool log_y)
{
    if (log_y)
        return log(y / box->low[1]) / log(box->high[1] / box->low[1]);
    return (y - box->low[1]) / (box->high[1] - box->low[1]);
}

typedef struct mark {
    double place;
    size_t series;
} mark;

static int by_place(const void *a, const void *b)
{
    const mark *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

static const char *colour_of(const json_t *one)
{
    const json_int_t style = json_integer_value(json_object_get(one, "style"));
    return style < 0 ? peers_colour : colours[style % LOOKS];
}

/* Colour and marker of a series. */
static void print_look(FILE *stream, const json_t *one)
{
    const json_int_t style = json_integer_value(json_object_get(one, "style"));
    const json_int_t variant = json_integer_value(json_object_get(one, "variant"));
    fprintf(stream, "lc rgb '%s' pt %d ps 0.9", colour_of(one),
            style < 0 ? peer_markers[variant % LOOKS] : markers[style % LOOKS]);
}

static size_t longest_name(const json_t *figure)
{
    const json_t *one;
    size_t s, longest = 0;
    json_array_foreach(json_object_get(figure, "series"), s, one) longest =
        length_shown(text_of(one, "name"), longest, NAME_WIDTH);
    return longest;
}

static void print_names(FILE *stream, const json_t *figure, const extent *box, bool log_y)
{
    mark marks[64];
    size_t count = 0;
    const double apart = 0.062;
    const json_t *one;
    size_t s;
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        const json_t *points = json_object_get(one, "points");
        if (count < 64 && json_array_size(points) > 0)
            marks[count++] = (mark){
                place_of(ls_figure_at(json_array_get(points, json_array_size(points) - 1), 1), box,
                         log_y),
                s};
    }
    qsort(marks, count, sizeof *marks, by_place);
    for (size_t i = 0; i < count; i++)
        marks[i].place =
            fmax(fmax(marks[i].place, 0.02), i > 0 ? marks[i - 1].place + apart : marks[i].place);
    for (size_t i = count; i-- > 0;)
        marks[i].place = fmin(marks[i].place, i + 1 < count ? marks[i + 1].place - apart : 0.98);
    for (size_t i = 0; i < count; i++) {
        const json_t *named = json_array_get(json_object_get(figure, "series"), marks[i].series);
        fputs("set label ", stream);
        quote(stream, text_of(named, "name"), NAME_WIDTH);
        fprintf(stream,
                " at graph 1.035,%.4f left offset 0.6,-0.35 tc rgb '#222222' font ',12' point ",
                marks[i].place);
        print_look(stream, named);
        fputc('\n', stream);
    }
}

/* "set xtics (1, 2, 4)": the places themselves, where they are few. */
static void print_places(FILE *stream, const json_t *figure, bool log_x)
{
    double places[8];
    char text[32];
    size_t count = 0, s, p;
    const json_t *one, *point;
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        json_array_foreach(json_object_get(one, "points"), p, point)
        {
            size_t i = 0;
            while (i < count &&
                   (places[i] < ls_figure_at(point, 0) || places[i] > ls_figure_at(point, 0)))
                i++;
            if (i == 8)
                return; /* gnuplot chooses */
            if (i == count)
                places[count++] = ls_figure_at(point, 0);
        }
    }
    if (!log_x && count > 5)
        return;
    fputs("set xtics (", stream);
    for (size_t i = 0; i < count; i++) {
        snprintf(text, sizeof text, "%g", places[i]);
        fprintf(stream, "%s'%s' %.17g", i ? ", " : "",
                strcmp(text_of(figure, "x"), "bytes") == 0 ? ls_format_bytes(places[i], text)
                                                           : text,
                places[i]);
    }
    fputs(") scale 0.5\n", stream);
}

/* Dashed, behind the lines. */
static void print_ideal(FILE *stream, const json_t *figure)
{
    const double rate = json_number_value(json_object_get(figure, "rate"));
    if (strcmp(text_of(figure, "ideal"), "one") == 0)
        fprintf(stream, ", 100 with lines lc rgb '%s' dt (6,4) notitle", peers_colour);
    else if (rate > 0)
        fprintf(stream, ", x * %.17g with lines lc rgb '%s' dt (6,4) notitle", rate, peers_colour);
}

static void print_frame(FILE *stream, const json_t *figure, int height, ls_picture kind)
{
    static const char *const terminals[] = {
        "svg size %d,%d font 'sans-serif,13' noenhanced background '#ffffff'",
        "pngcairo size %d,%d font 'Arial,13' fontscale 1.5 lw 2 ps 2 noenhanced background "
        "'#ffffff'",
    };
    static const char *const endings[] = {"svg", "png", "pdf"};
    char terminal[256];
    if (kind == LS_PICTURE_PDF)
        snprintf(
            terminal, sizeof terminal,
            "pdfcairo size 8.6cm,%.2fcm font 'Arial,13' fontscale 0.4 lw 0.6 ps 0.5 noenhanced",
            8.6 * height / WIDTH);
    else
        snprintf(terminal, sizeof terminal, terminals[kind == LS_PICTURE_PNG], WIDTH << kind,
                 height << kind);
    fprintf(stream,
            "reset\nset encoding utf8\nset terminal %s\nset output '%s.%s'\n"
            "set border 3 lc rgb '#767676'\nset tics nomirror textcolor rgb '#222222' scale 0.5\n"
            "set xtics font ',12'\nset ytics font ',12'\nunset key\nunset mxtics\nunset mytics\n",
            terminal, text_of(figure, "name"), endings[kind]);
    const int y =
        print_lines(stream, text_of(figure, "title"), TITLE_WIDTH, 2, 16, "#222222", 18, height);
    print_lines(stream, text_of(figure, "sub"), SUB_WIDTH, 1, 12, "#555555", y, height);
    print_lines(stream, text_of(figure, "foot"), 100, 1, 10, "#555555", height - 12, height);
    fputs("set xlabel ", stream);
    quote(stream, text_of(figure, "x"), 60);
    fputs(" textcolor rgb '#222222' font ',12' offset 0,0.7\n", stream);
}

static void print_points(FILE *stream, const json_t *one, size_t index)
{
    const json_t *point;
    size_t p;
    fprintf(stream, "$s%zu << EOD\n", index);
    json_array_foreach(json_object_get(one, "points"), p, point)
        fprintf(stream, "%.17g %.17g %.17g %.17g\n", ls_figure_at(point, 0), ls_figure_at(point, 1),
                ls_figure_at(point, 2), ls_figure_at(point, 3));
    fputs("EOD\n", stream);
}

/* What y is multiplied by to be drawn, and how that is called. */
static double scale_of(const json_t *figure, double highest, const char **unit)
{
    const bool bytes = strcmp(text_of(figure, "unit"), "bytes") == 0;
    *unit = !bytes ? "" : highest >= 1048576 ? ", MiB" : highest >= 1024 ? ", KiB" : ", bytes";
    if (bytes)
        return highest >= 1048576 ? 1.0 / 1048576 : highest >= 1024 ? 1.0 / 1024 : 1;
    return strcmp(text_of(figure, "unit"), "%") == 0 ? 100 : 1;
}

/* Share of the picture's width that names of so many characters take. */
static double room_for(size_t characters)
{
    return 0.04 + 0.0128 * (double)characters;
}

static void script_lines(FILE *stream, const json_t *figure, ls_picture kind)
{
    extent box = measure(figure);
    const bool log_x = is_log(figure, "log_x", box.low[0], box.high[0]);
    const bool log_y = is_log(figure, "log_y", box.low[1], box.high[1]);
    const json_t *one;
    const char *unit, *format = text_of(figure, "unit");
    char label[120];
    const double scale = scale_of(figure, box.high[1], &unit);
    size_t s, drawn = 0;
    if (strcmp(text_of(figure, "ideal"), "one") == 0)
        box.high[1] = fmax(box.high[1], 1);
    widen(figure, &box);
    print_frame(stream, figure, HEIGHT, kind);
    fprintf(stream, "set format y '%s'\n",
            strcmp(format, "%") == 0    ? "%.0f%%"
            : strstr(format, "samples") ? "%.0s%c"
                                        : "%h");
    snprintf(label, sizeof label, "%s%s", text_of(figure, "y"), unit);
    fprintf(stream,
            "set lmargin at screen 0.115\nset rmargin at screen %.4f\n"
            "set tmargin at screen 0.775\nset bmargin at screen 0.17\n"
            "set grid ytics lt 1 lc rgb '#dddddd' lw 1\nset label ",
            0.985 - room_for(longest_name(figure)));
    quote(stream, label, 60);
    fputs(" at graph -0.1,1.045 left font ',12' tc rgb '#555555'\n", stream);
    if (log_x)
        fputs("set logscale x\n", stream);
    if (log_y)
        fputs("set logscale y\n", stream);
    fprintf(stream, "set xrange [%.17g:%.17g]\nset yrange [%.17g:%.17g]\n", box.low[0], box.high[0],
            box.low[1] * scale, box.high[1] * scale);
    print_places(stream, figure, log_x);
    print_names(stream, figure, &box, log_y);
    json_array_foreach(json_object_get(figure, "series"), s, one) print_points(stream, one, s);
    fputs("plot ", stream);
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        static const char *const dashes[] = {"1", "(8,4)", "(3,3)", "(8,3,2,3)"};
        const json_int_t variant = json_integer_value(json_object_get(one, "variant"));
        const size_t count = json_array_size(json_object_get(one, "points"));
        if (count == 0)
            continue;
        fprintf(stream, "%s$s%zu using 1:($2*%g):($3*%g):($4*%g) with ", drawn++ ? ", " : "", s,
                scale, scale, scale);
        if (count > 24) /* markers would hide the line */
            fprintf(stream, "lines lc rgb '%s'", colour_of(one));
        else {
            fputs("yerrorlines ", stream);
            print_look(stream, one);
        }
        fprintf(stream, " lw 2 dt %s notitle", dashes[variant < 3 ? variant : 3]);
    }
    print_ideal(stream, figure);
    fputs("\n", stream);
}

static void print_categories(FILE *stream, const json_t *figure)
{
    const json_t *name;
    size_t i;
    fputs("set ytics (", stream);
    json_array_foreach(json_object_get(figure, "categories"), i, name)
    {
        fputs(i ? ", " : "", stream);
        quote(stream, json_string_value(name), CASE_WIDTH);
        fprintf(stream, " %zu", i);
    }
    fputs(") scale 0\n", stream);
}

static void script_bars(FILE *stream, const json_t *figure, ls_picture kind)
{
    const bool ranges = strcmp(text_of(figure, "kind"), "ranges") == 0;
    const json_t *names = json_object_get(figure, "categories");
    const size_t count = json_array_size(names);
    const int height = 177 + BAR * (int)(count > 2 ? count : 2);
    const json_t *one;
    const extent box = measure(figure);
    size_t s, drawn = 0;
    double x = 0.005;
    size_t longest = 12;
    for (size_t i = 0; i < count; i++)
        longest = length_shown(json_string_value(json_array_get(names, i)), longest, CASE_WIDTH);
    print_frame(stream, figure, height, kind);
    print_categories(stream, figure);
    fprintf(stream,
            "set lmargin at screen %.4f\nset rmargin at screen 0.96\nset tmargin at screen %.4f\n"
            "set bmargin at screen %.4f\nset grid xtics lt 1 lc rgb '#dddddd' lw 1\n"
            "set yrange [%.1f:-0.6]\nset xrange [0:%.17g]\n",
            room_for(longest), 1 - 95.0 / height, 74.0 / height, (double)count - 0.4,
            box.high[1] * 1.04);
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        const char *colour = ranges ? colours[s ? 2 : 3] : part_colours[s % 6];
        fputs("set label ", stream);
        quote(stream, text_of(one, "name"), 24);
        fprintf(stream,
                " at screen %.4f,%.4f left offset 0.8,-0.35 font ',12' tc rgb '#222222' point "
                "pt %d ps 1 lc rgb '%s'\n",
                x + 0.015, 1 - 82.0 / height, ranges ? (s ? 1 : 7) : 5, colour);
        x += 0.036 + 0.0124 * (double)strlen(text_of(one, "name"));
        print_points(stream, one, s);
    }
    fputs("set style fill solid 1 noborder\nplot ", stream);
    json_array_foreach(json_object_get(figure, "series"), s, one)
    {
        fprintf(stream, "%s$s%zu ", drawn++ ? ", " : "", s);
        if (ranges)
            fprintf(stream, "using 2:1:3:4 with xerrorbars lc rgb '%s' lw 2 pt %d ps 0.9 notitle",
                    colours[s ? 2 : 3], s ? 1 : 7);
        else
            fprintf(stream,
                    "using (($3+$4)/2):1:3:4:($1-0.36):($1+0.36) with boxxyerror fc rgb '%s' "
                    "notitle",
                    part_colours[s % 6]);
    }
    fputs("\n", stream);
}

void ls_draw_script(FILE *stream, const json_t *figure, ls_picture kind)
{
    if (strcmp(text_of(figure, "kind"), "lines") == 0)
        script_lines(stream, figure, kind);
    else
        script_bars(stream, figure, kind);
}
