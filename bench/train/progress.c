/* SPDX-License-Identifier: MIT */
/*
 * Progress; see progress.h. The remaining time is the time so far, scaled by the steps to come. A
 * bar takes what the texts leave of the terminal's width, asked anew at each redraw; where that is
 * too little it goes first, then the end of the line.
 */
#include "bench/train/progress.h"

#include "common/base/clock.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { TITLE_SIZE = 64, FACTS_SIZE = 128, WIDEST_BAR = 40, NARROWEST_BAR = 5, DEFAULT_WIDTH = 80 };

static const uint64_t bar_interval_ns = 100000000, line_interval_ns = 1000000000;

struct ls_progress {
    FILE *stream;
    bool terminal;
    char title[TITLE_SIZE];
    uint64_t start_ns, shown_ns; /* shown_ns: of the last redraw or line; 0: none yet */
    size_t drawn;                /* characters of the bar on the screen */
    bool stale;                  /* the last update is not shown yet */
    uint64_t done, total;
    double samples_per_s, loss;
};

ls_progress *ls_progress_open(FILE *stream, int mode, const char *title)
{
    bool terminal = mode != 0 && isatty(fileno(stream));
    ls_progress *progress = terminal || mode > 0 ? calloc(1, sizeof *progress) : NULL;
    if (!progress)
        return NULL;
    progress->stream = stream;
    progress->terminal = terminal;
    snprintf(progress->title, sizeof progress->title, "%s", title);
    for (char *c = progress->title; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    progress->start_ns = ls_clock_ns();
    return progress;
}

/* "  1234 samples/s  loss 0.3456  0:12 left": what is known of it. */
static void write_facts(const ls_progress *p, char text[FACTS_SIZE])
{
    size_t used = 0;
    text[0] = 0;
    if (isfinite(p->samples_per_s))
        used += (size_t)snprintf(text, FACTS_SIZE, "  %.*f samples/s",
                                 fabs(p->samples_per_s) < 100 ? 2 : 0, p->samples_per_s);
    if (!isnan(p->loss))
        used += (size_t)snprintf(text + used, FACTS_SIZE - used, "  loss %.4g", p->loss);
    if (p->done == 0 || p->done > p->total)
        return;
    double elapsed_s = (double)(ls_clock_ns() - p->start_ns) * 1e-9;
    double left_s = ceil(elapsed_s * (double)(p->total - p->done) / (double)p->done);
    uint64_t left = left_s < 1e9 ? (uint64_t)left_s : 1000000000;
    if (left >= 3600)
        snprintf(text + used, FACTS_SIZE - used, "  %" PRIu64 ":%02" PRIu64 ":%02" PRIu64 " left",
                 left / 3600, left / 60 % 60, left % 60);
    else
        snprintf(text + used, FACTS_SIZE - used, "  %" PRIu64 ":%02" PRIu64 " left", left / 60,
                 left % 60);
}

static double share_done(const ls_progress *p)
{
    return p->done < p->total ? (double)p->done / (double)p->total : 1.0;
}

static size_t terminal_width(const ls_progress *p)
{
    struct winsize size;
    if (ioctl(fileno(p->stream), TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return DEFAULT_WIDTH;
    return size.ws_col;
}

static void draw_bar(ls_progress *p)
{
    char facts[FACTS_SIZE], line[TITLE_SIZE + WIDEST_BAR + FACTS_SIZE + 64];
    write_facts(p, facts);
    size_t width = terminal_width(p) - 1; /* the last column would wrap */
    size_t texts = strlen(p->title) + strlen(" []  100%") + strlen(facts);
    size_t bar = width > texts ? width - texts : 0;
    bar = bar > WIDEST_BAR ? WIDEST_BAR : bar;
    int used = snprintf(line, sizeof line, "%s ", p->title);
    if (p->total && bar >= NARROWEST_BAR) {
        line[used++] = '[';
        memset(line + used, '.', bar);
        memset(line + used, '#', (size_t)(share_done(p) * (double)bar));
        used += (int)bar;
        line[used++] = ']';
        line[used++] = ' ';
    }
    size_t room = sizeof line - (size_t)used;
    if (p->total)
        used += snprintf(line + used, room, "%3.0f%%%s", floor(100.0 * share_done(p)), facts);
    else
        used += snprintf(line + used, room, "step %" PRIu64 "%s", p->done, facts);
    size_t shown = (size_t)used < width ? (size_t)used : width;
    size_t blank = p->drawn > shown && p->drawn <= width ? p->drawn - shown : 0;
    fprintf(p->stream, "\r%.*s%*s", (int)shown, line, (int)blank, "");
    fflush(p->stream);
    p->drawn = shown;
}

static void print_line(const ls_progress *p)
{
    char facts[FACTS_SIZE];
    write_facts(p, facts);
    fprintf(p->stream, "%s: step %" PRIu64, p->title, p->done);
    if (p->total)
        fprintf(p->stream, " of %" PRIu64, p->total);
    fprintf(p->stream, "%s\n", facts);
    fflush(p->stream);
}

void ls_progress_update(ls_progress *progress, uint64_t done_steps, uint64_t total_steps,
                        double samples_per_s, double loss)
{
    if (!progress)
        return;
    progress->done = done_steps;
    progress->total = total_steps;
    progress->samples_per_s = samples_per_s;
    progress->loss = loss;
    progress->stale = true;
    uint64_t now = ls_clock_ns();
    uint64_t interval = progress->terminal ? bar_interval_ns : line_interval_ns;
    uint64_t since =
        progress->shown_ns || progress->terminal ? progress->shown_ns : progress->start_ns;
    if (now - since < interval)
        return;
    if (progress->terminal)
        draw_bar(progress);
    else
        print_line(progress);
    progress->shown_ns = now;
    progress->stale = false;
}

void ls_progress_close(ls_progress *progress)
{
    if (!progress)
        return;
    if (progress->terminal && progress->drawn)
        fprintf(progress->stream, "\r%*s\r", (int)progress->drawn, "");
    if (!progress->terminal && progress->stale)
        print_line(progress);
    fflush(progress->stream);
    free(progress);
}
