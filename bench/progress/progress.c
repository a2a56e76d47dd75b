/* SPDX-License-Identifier: MIT */
/*
 * Progress; see progress.h. A thread redraws what was not redrawn for a while, so that the time
 * advances while a case is opened or a large step runs; while steps are timed, the trainer draws
 * more often, and the thread wakes up only to see that. A line on a terminal ends where it began,
 * so that other output starts at the left.
 */
#include "bench/progress/progress.h"

#include "common/base/clock.h"
#include "common/base/escape.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { TITLE_SIZE = 48, LINE_SIZE = 256, DEFAULT_WIDTH = 80 };

static const uint64_t drawn_ns = 100000000, line_ns = 1000000000, silent_ns = 600000000;
static const uint64_t sparse_ns = 10000000000;
enum { ALIVE = 3 }; /* times as long without a line: a sign of life */
enum { SECOND_NS = 1000000000 };

static const char *const phase_words[LS_PHASES] = {"opening", "checking", "warm-up", "timing",
                                                   "evaluating"};

struct ls_progress {
    FILE *stream;
    bool terminal;
    bool sparse; /* a log: only lines where a case begins, or signs of life */
    uint64_t sparse_ns;
    pthread_t thread;
    pthread_mutex_t lock; /* guards the following */
    pthread_cond_t wake;
    bool closing, paused;
    bool stale;                              /* the shown state is outdated */
    uint64_t start_ns, counted_ns, shown_ns; /* counted_ns: until when spent time is counted */
    size_t drawn;                            /* characters on the screen */
    ls_work work;
    char (*titles)[TITLE_SIZE]; /* [work.count] */
    double share, left_s;       /* as shown; left_s is negative if unknown */
    uint64_t left_ns;           /* when that was so */
    double samples_per_s, loss;
};

/* ---- The line ------------------------------------------------------------------------------- */

/* The remaining time shown counts down. It is only updated if it is less, or a third more: a figure
 * that jumps says less than one that is slightly outdated. */
static void look_ahead(ls_progress *p, uint64_t now_ns)
{
    const double elapsed_s = (double)(now_ns - p->start_ns) * 1e-9;
    const double left_s = ls_work_left(&p->work);
    const double shown_s = p->left_s - (double)(now_ns - p->left_ns) * 1e-9;
    if (left_s < 0)
        return;
    if (p->left_s < 0 || left_s < shown_s || left_s > shown_s * 4 / 3 + 1) {
        p->left_s = left_s;
        p->left_ns = now_ns;
    }
    const double share = elapsed_s / (elapsed_s + left_s + 1e-9);
    p->share = share > p->share ? share : p->share;
}

static void add_time(char *line, double seconds)
{
    const uint64_t s = seconds < 1e9 ? (uint64_t)seconds : 1000000000;
    if (s >= 3600)
        ls_text_add(line, LINE_SIZE, "%llu:%02u:%02u", (unsigned long long)(s / 3600),
                    (unsigned)(s / 60 % 60), (unsigned)(s % 60));
    else
        ls_text_add(line, LINE_SIZE, "%u:%02u", (unsigned)(s / 60), (unsigned)(s % 60));
}

static void write_line(ls_progress *p, uint64_t now_ns, char line[LINE_SIZE])
{
    const bool begun = p->work.now < p->work.count;
    const double shown_s = p->left_s - (double)(now_ns - p->left_ns) * 1e-9;
    *line = 0;
    if (begun)
        ls_text_add(line, LINE_SIZE, "case %zu/%zu %s, ", p->work.now + 1, p->work.count,
                    p->titles[p->work.now]);
    ls_text_add(line, LINE_SIZE, "%s, ", phase_words[begun ? p->work.phase : LS_PHASE_OPENING]);
    if (p->left_s < 0) {
        add_time(line, (double)(now_ns - p->start_ns) * 1e-9);
        ls_text_add(line, LINE_SIZE, " so far");
        return;
    }
    add_time(line, shown_s > 0 ? ceil(shown_s) : 0);
    ls_text_add(line, LINE_SIZE, " left  %.0f%%", floor(100 * p->share));
    if (isfinite(p->samples_per_s))
        ls_text_add(line, LINE_SIZE, "  %.*f samples/s", fabs(p->samples_per_s) < 100 ? 2 : 0,
                    p->samples_per_s);
    if (!isnan(p->loss))
        ls_text_add(line, LINE_SIZE, "  loss %.3g", p->loss);
}

static void show(ls_progress *p, uint64_t now_ns)
{
    char line[LINE_SIZE];
    look_ahead(p, now_ns);
    write_line(p, now_ns, line);
    p->shown_ns = now_ns;
    p->stale = false;
    if (p->terminal) {
        struct winsize size;
        const bool known = ioctl(fileno(p->stream), TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
        const size_t width = (known ? size.ws_col : DEFAULT_WIDTH) - 1; /* the last would wrap */
        size_t shown = 0, bytes = 0; /* characters, and their bytes */
        for (; line[bytes] && shown < width; shown++)
            bytes += ls_escape_step(line + bytes);
        const size_t blank = p->drawn > shown && p->drawn <= width ? p->drawn - shown : 0;
        fprintf(p->stream, "%.*s%*s\r", (int)bytes, line, (int)blank, "");
        p->drawn = shown;
    } else {
        fprintf(p->stream, "%s\n", line);
    }
    fflush(p->stream);
}

static void wipe(ls_progress *p)
{
    if (p->terminal && p->drawn) {
        fprintf(p->stream, "%*s\r", (int)p->drawn, "");
        fflush(p->stream);
    }
    p->drawn = 0;
}

/* Shows what has changed, unless something was shown just before. */
static void show_soon(ls_progress *p, bool begins)
{
    const uint64_t now_ns = ls_clock_ns();
    const uint64_t least_ns = p->terminal ? drawn_ns : p->sparse ? p->sparse_ns : line_ns;
    p->paused = false;
    p->stale = !p->sparse;
    if (now_ns - p->shown_ns >= least_ns && (begins || !p->sparse))
        show(p, now_ns);
}

static void spend(ls_progress *p)
{
    const uint64_t now_ns = ls_clock_ns();
    ls_work_spend(&p->work, (double)(now_ns - p->counted_ns) * 1e-9);
    p->counted_ns = now_ns;
}

static void *keep_alive(void *context)
{
    ls_progress *p = context;
    pthread_mutex_lock(&p->lock);
    const uint64_t interval_ns = p->terminal ? silent_ns
                                 : p->sparse ? ALIVE * p->sparse_ns
                                             : line_ns;
    while (!p->closing) {
        const uint64_t silent = ls_clock_ns() - p->shown_ns;
        const uint64_t wait_ns = silent < interval_ns ? interval_ns - silent : interval_ns;
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(wait_ns % SECOND_NS);
        until.tv_sec += (time_t)(wait_ns / SECOND_NS) + until.tv_nsec / SECOND_NS;
        until.tv_nsec %= SECOND_NS;
        pthread_cond_timedwait(&p->wake, &p->lock, &until);
        if (p->closing || p->paused || (p->sparse && p->work.count < 2) ||
            ls_clock_ns() - p->shown_ns < interval_ns)
            continue;
        spend(p);
        show(p, ls_clock_ns());
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- The functions -------------------------------------------------------------------------- */

ls_progress *ls_progress_open(FILE *stream, int mode)
{
    const bool terminal = mode != 0 && isatty(fileno(stream));
    ls_progress *p = mode != 0 ? calloc(1, sizeof *p) : NULL;
    if (!p)
        return NULL;
    p->stream = stream;
    p->terminal = terminal;
    p->sparse = !terminal && mode < 0;
    p->sparse_ns = sparse_ns;
    p->left_s = -1;
    p->samples_per_s = p->loss = NAN;
    p->start_ns = p->counted_ns = ls_clock_ns();
    p->shown_ns = terminal ? 0 : p->start_ns;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    /* signals are left to the other threads */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const bool started = pthread_create(&p->thread, NULL, keep_alive, p) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started)
        return p;
    free(p);
    return NULL;
}

void ls_progress_cases(ls_progress *progress, size_t count)
{
    if (!progress)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->work.cases = calloc(count + 1, sizeof *progress->work.cases);
    progress->titles = calloc(count + 1, sizeof *progress->titles);
    if (progress->work.cases && progress->titles)
        progress->work.count = progress->work.now = count;
    pthread_mutex_unlock(&progress->lock);
}

void ls_progress_expect(ls_progress *progress, size_t index, const char *title,
                        const double seconds[LS_PHASES], bool measured)
{
    if (!progress || index >= progress->work.count)
        return;
    pthread_mutex_lock(&progress->lock);
    spend(progress);
    ls_work_expect(&progress->work, index, seconds, measured);
    ls_escape_copy(progress->titles[index], TITLE_SIZE, title, LS_ESCAPE_LINE);
    pthread_mutex_unlock(&progress->lock);
}

void ls_progress_log_every(ls_progress *progress, uint64_t ns)
{
    if (progress)
        progress->sparse_ns = ns;
}

void ls_progress_enter(ls_progress *progress, size_t index, ls_phase phase)
{
    if (!progress || index >= progress->work.count)
        return;
    pthread_mutex_lock(&progress->lock);
    spend(progress);
    ls_work_enter(&progress->work, index, phase);
    progress->samples_per_s = progress->loss = NAN;
    show_soon(progress, progress->work.count > 1);
    pthread_mutex_unlock(&progress->lock);
}

void ls_progress_update(ls_progress *progress, double share, double samples_per_s, double loss)
{
    if (!progress || progress->work.now >= progress->work.count)
        return;
    pthread_mutex_lock(&progress->lock);
    spend(progress);
    ls_work_share(&progress->work, share);
    progress->samples_per_s = samples_per_s;
    progress->loss = loss;
    show_soon(progress, false);
    pthread_mutex_unlock(&progress->lock);
}

void ls_progress_end(ls_progress *progress, size_t index)
{
    if (!progress || index >= progress->work.count)
        return;
    pthread_mutex_lock(&progress->lock);
    spend(progress);
    ls_work_end(&progress->work, index);
    pthread_mutex_unlock(&progress->lock);
}

void ls_progress_pause(ls_progress *progress)
{
    if (!progress)
        return;
    pthread_mutex_lock(&progress->lock);
    wipe(progress);
    progress->paused = true;
    pthread_mutex_unlock(&progress->lock);
}

void ls_progress_close(ls_progress *progress)
{
    if (!progress)
        return;
    pthread_mutex_lock(&progress->lock);
    progress->closing = true;
    pthread_cond_signal(&progress->wake);
    pthread_mutex_unlock(&progress->lock);
    pthread_join(progress->thread, NULL);
    if (progress->terminal)
        wipe(progress);
    else if (progress->stale)
        show(progress, ls_clock_ns());
    pthread_mutex_destroy(&progress->lock);
    pthread_cond_destroy(&progress->wake);
    free(progress->work.cases);
    free(progress->titles);
    free(progress);
}
