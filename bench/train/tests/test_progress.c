/* SPDX-License-Identifier: MIT */
/*
 * What a user at a terminal sees and does: the line and the lines of progress, and the signals that
 * end a run. The terminal is a pseudo-terminal of a given width.
 */
#include "bench/train/interrupt.h"
#include "bench/progress/progress.h"
#include "common/base/clock.h"

#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

enum { TEXT_SIZE = 65536, LOOKS = 500, SKIPPED = 77 };

typedef struct terminal {
    int controller;
    FILE *stream;
} terminal;

static terminal open_terminal(unsigned short width)
{
    terminal t = {.controller = posix_openpt(O_RDWR | O_NOCTTY)};
    if (t.controller < 0 || grantpt(t.controller) != 0 || unlockpt(t.controller) != 0) {
        print_message("skipped: no pseudo-terminals here\n");
        exit(SKIPPED);
    }
    const struct winsize size = {.ws_row = 24, .ws_col = width};
    assert_int_equal(ioctl(t.controller, TIOCSWINSZ, &size), 0);
    int other = open(ptsname(t.controller), O_RDWR | O_NOCTTY | O_NONBLOCK);
    assert_true(other >= 0);
    t.stream = fdopen(other, "w");
    assert_non_null(t.stream);
    return t;
}

/* Reads what was written so far; the system may deliver it late. */
static size_t read_terminal(const terminal *t, char *text, size_t room)
{
    struct pollfd wait = {.fd = t->controller, .events = POLLIN};
    size_t size = 0;
    fcntl(t->controller, F_SETFL, O_NONBLOCK);
    while (size < room - 1 && poll(&wait, 1, 50) > 0) {
        const ssize_t got = read(t->controller, text + size, room - 1 - size);
        if (got <= 0)
            break;
        size += (size_t)got;
    }
    text[size] = 0;
    return size;
}

static void close_terminal(terminal *t)
{
    fclose(t->stream);
    close(t->controller);
}

static size_t count_of(const char *text, char wanted)
{
    size_t count = 0;
    for (; *text; text++)
        count += *text == wanted;
    return count;
}

/* Three cases of a second each; the first has passed its gate and half of its steps. */
static ls_progress *open_half(FILE *stream, int mode, const char *title)
{
    const double seconds[LS_PHASES] = {[LS_PHASE_CHECKING] = 0.02, [LS_PHASE_TIMING] = 0.05};
    ls_progress *progress = ls_progress_open(stream, mode);
    ls_progress_cases(progress, 3);
    for (size_t i = 0; i < 3; i++)
        ls_progress_expect(progress, i, title, seconds, false);
    ls_progress_enter(progress, 1, LS_PHASE_CHECKING);
    ls_clock_sleep(120000000);
    ls_progress_enter(progress, 1, LS_PHASE_TIMING);
    return progress;
}

static void line_says_what_is_at_work_and_what_is_left(void **state)
{
    (void)state;
    char text[TEXT_SIZE];
    terminal t = open_terminal(120);
    ls_progress *progress = ls_progress_open(t.stream, -1);
    assert_non_null(progress);
    ls_progress_update(progress, 0.5, 1, 1); /* before there are cases */
    ls_progress_close(progress);
    read_terminal(&t, text, TEXT_SIZE);
    text[0] = 0;
    progress = open_half(t.stream, -1, "mirrored 2 cpu");
    size_t size = 0;
    for (int i = 0; i < LOOKS && !strstr(text, "loss"); i++) { /* not right after another redraw */
        ls_clock_sleep(120000000);
        ls_progress_update(progress, 0.5, 12345.0, 0.25);
        size += read_terminal(&t, text + size, TEXT_SIZE - size);
    }
    assert_int_equal(strncmp(text, "case 2/3 mirrored 2 cpu, checking, 0:0", 38), 0);
    assert_non_null(strstr(text, " so far\r"));
    const char *last = strstr(text, "case 2/3 mirrored 2 cpu, timing, 0:0");
    assert_non_null(last);
    assert_non_null(strstr(last, " left  "));
    assert_non_null(strstr(last, "%  12345 samples/s  loss 0.25\r"));
    ls_progress_close(progress);
    read_terminal(&t, text, TEXT_SIZE); /* erased: the next output begins at the left */
    assert_int_equal(count_of(text, '\n'), 0);
    assert_true(strlen(text) > 40);
    assert_int_equal(text[strlen(text) - 1], '\r');
    assert_int_equal(strspn(text, " "), strlen(text) - 1);
    close_terminal(&t);
}

/* Parses the seconds before "left", and the share. */
static bool next_state(const char **at, unsigned *left, unsigned *share)
{
    unsigned minutes, seconds;
    while ((*at = strstr(*at, "case ")) != NULL) {
        const char *comma = strstr(*at, "ing, ");
        *at += 5;
        if (comma && sscanf(comma, "ing, %u:%u left %u", &minutes, &seconds, share) == 3) {
            *left = 60 * minutes + seconds;
            return true;
        }
    }
    return false;
}

static void no_second_is_silent_and_the_share_never_falls(void **state)
{
    (void)state;
    char text[TEXT_SIZE];
    unsigned left, share = 0, before = 0, looks = 0;
    terminal t = open_terminal(80);
    ls_progress *progress = open_half(t.stream, 1, "mlp");
    read_terminal(&t, text, TEXT_SIZE);
    ls_clock_sleep(2400000000); /* without any update */
    ls_progress_update(progress, 0.2, NAN, NAN);
    ls_progress_enter(progress, 2, LS_PHASE_CHECKING);
    ls_clock_sleep(200000000);
    ls_progress_enter(progress, 1, LS_PHASE_TIMING);
    ls_progress_update(progress, 0.3, NAN, NAN);
    read_terminal(&t, text, TEXT_SIZE);
    assert_null(strstr(text, "loss"));
    for (const char *at = text; next_state(&at, &left, &share); looks++) {
        assert_true(share >= before && share <= 100);
        before = share;
    }
    assert_true(looks >= 4); /* at least three during the pause; a machine may stall */
    ls_progress_pause(progress);
    read_terminal(&t, text, TEXT_SIZE);
    ls_clock_sleep(1100000000);
    assert_int_equal(read_terminal(&t, text, TEXT_SIZE), 0); /* a row could be printed now */
    ls_progress_close(progress);
    close_terminal(&t);
}

static void line_is_redrawn_ten_times_a_second(void **state)
{
    (void)state;
    char text[TEXT_SIZE];
    terminal t = open_terminal(80);
    ls_progress *progress = open_half(t.stream, 1, "mlp");
    read_terminal(&t, text, TEXT_SIZE);
    uint64_t start = ls_clock_ns();
    while (ls_clock_ns() - start < 350000000)
        ls_progress_update(progress, 0.1, 1e6, NAN);
    read_terminal(&t, text, TEXT_SIZE);
    const uint64_t took_ns = ls_clock_ns() - start;
    const size_t draws = count_of(text, '\r');
    assert_true(draws >= 1 && draws <= 3 + took_ns / 100000000); /* few if the machine stalls */
    ls_progress_close(progress);
    close_terminal(&t);
}

static void line_keeps_to_the_width(void **state)
{
    (void)state;
    char text[TEXT_SIZE];
    const unsigned short widths[] = {2, 10, 30, 60, 80, 300};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        terminal t = open_terminal(widths[i]);
        ls_progress *progress =
            open_half(t.stream, -1, "mlp:784-1024-1024-10 model-parallel 2 gpu");
        size_t size = 0;
        for (int look = 0; look < LOOKS && !size; look++) { /* not right after another redraw */
            ls_clock_sleep(120000000);
            read_terminal(&t, text, TEXT_SIZE);
            ls_progress_update(progress, 0.5, 12345.0, 1e-9);
            size = read_terminal(&t, text, TEXT_SIZE);
        }
        assert_true(size >= 1);
        for (const char *line = strtok(text, "\r"); line; line = strtok(NULL, "\r"))
            assert_true(strlen(line) < widths[i]); /* more than one if the machine stalls */
        ls_progress_close(progress);
        close_terminal(&t);
    }
}

static void lines_come_once_a_second_and_at_the_end(void **state)
{
    (void)state;
    char text[TEXT_SIZE];
    FILE *file = tmpfile();
    assert_non_null(file);
    ls_progress *progress = open_half(file, 1, "poly\nsingle");
    uint64_t start = ls_clock_ns();
    while (ls_clock_ns() - start < 1200000000)
        ls_progress_update(progress, 0.5, NAN, NAN);
    ls_progress_update(progress, 1, 1000.0, 0.5);
    const uint64_t took_ns = ls_clock_ns() - start;
    ls_progress_close(progress);
    rewind(file);
    text[fread(text, 1, TEXT_SIZE - 1, file)] = 0;
    fclose(file);
    assert_true(count_of(text, '\n') >= 2 && count_of(text, '\n') <= 3 + took_ns / 1000000000);
    assert_int_equal(strncmp(text, "case 2/3 poly\\nsingle, timing, 0:0", 34), 0);
    assert_non_null(strstr(text, "%  1000 samples/s  loss 0.5\n"));
}

/* A log of several cases gets a line when a case begins a phase, at most one in 10 s. */
static void a_log_gets_a_line_now_and_then(void **state)
{
    (void)state;
    char text[TEXT_SIZE];
    FILE *file = tmpfile();
    assert_non_null(file);
    ls_progress *progress = open_half(file, -1, "poly single");
    ls_progress_log_every(progress, 50000000);
    ls_clock_sleep(60000000);
    ls_progress_update(progress, 0.5, 1000, 0.5);
    assert_int_equal(ftell(file), 0);
    const uint64_t start = ls_clock_ns();
    ls_progress_enter(progress, 2, LS_PHASE_TIMING);
    ls_progress_enter(progress, 1, LS_PHASE_TIMING);
    const bool at_once = ls_clock_ns() - start < 50000000;
    ls_progress_close(progress);
    rewind(file);
    text[fread(text, 1, TEXT_SIZE - 1, file)] = 0;
    fclose(file);
    assert_in_range(count_of(text, '\n'), 1, at_once ? 1 : 2);
    assert_int_equal(strncmp(text, "case 3/3 poly single, timing, ", 30), 0);
}

static void nothing_is_shown_where_nobody_looks(void **state)
{
    (void)state;
    FILE *file = tmpfile();
    assert_non_null(file);
    assert_null(ls_progress_open(file, 0));
    ls_progress *progress = open_half(file, -1, "poly"); /* a log: too early for a line */
    ls_progress_close(progress);
    assert_int_equal(ftell(file), 0);
    terminal t = open_terminal(80);
    assert_null(ls_progress_open(t.stream, 0));
    close_terminal(&t);
    ls_progress_cases(NULL, 3);
    ls_progress_expect(NULL, 0, "", NULL, false);
    ls_progress_enter(NULL, 0, LS_PHASE_TIMING);
    ls_progress_update(NULL, 0.5, 3.0, 4.0);
    ls_progress_end(NULL, 0);
    ls_progress_pause(NULL);
    ls_progress_close(NULL);
    fclose(file);
}

/* The exit status of a child that receives these signals, ending with 0, at intervals of 0.3 s. */
static int status_after(const int *signals, int count)
{
    int how;
    const pid_t child = fork();
    if (child == 0) {
        ls_interrupt_install();
        if (ls_interrupted())
            _exit(1);
        for (int i = 0; i < count; i++) {
            if (signals[i])
                raise(signals[i]);
            else
                ls_clock_sleep(300000000);
            if (!ls_interrupted())
                _exit(2);
        }
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    return WEXITSTATUS(how);
}

static void signals_set_a_flag_then_end_the_program(void **state)
{
    (void)state;
    static const struct {
        int signals[4], count, status;
    } cases[] = {
        {{SIGINT, 0}, 2, 0},
        {{SIGTERM, 0, SIGTERM}, 3, 0},
        {{SIGTERM, SIGINT, 0}, 3, 0}, /* from a launcher, and from the terminal */
        {{SIGINT, SIGINT}, 2, 0},     /* the same signal, forwarded */
        {{SIGINT, 0, SIGINT}, 3, 130},
        {{SIGTERM, SIGINT, 0, SIGINT}, 4, 130},
        {{SIGINT, SIGTERM, SIGINT}, 3, 130},
        {{SIGTERM, SIGTERM, SIGTERM}, 3, 143},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(status_after(cases[i].signals, cases[i].count), cases[i].status);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(line_says_what_is_at_work_and_what_is_left),
        cmocka_unit_test(no_second_is_silent_and_the_share_never_falls),
        cmocka_unit_test(line_is_redrawn_ten_times_a_second),
        cmocka_unit_test(line_keeps_to_the_width),
        cmocka_unit_test(lines_come_once_a_second_and_at_the_end),
        cmocka_unit_test(a_log_gets_a_line_now_and_then),
        cmocka_unit_test(nothing_is_shown_where_nobody_looks),
        cmocka_unit_test(signals_set_a_flag_then_end_the_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
