/* SPDX-License-Identifier: MIT */
/* Interrupt; see interrupt.h. */
#include "bench/train/interrupt.h"

#include "common/base/clock.h"
#include "common/base/status.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Signals received. The suite's only mutable globals: a signal handler has no argument through
 * which it could reach state. */
static atomic_bool asked;
static atomic_int signals_seen;
static _Atomic uint64_t interrupted_ns; /* the first SIGINT; 0 if none */
static _Atomic(const char *) last_line; /* of an end at once; NULL if none */

/* A second SIGINT within this time may be the first one, forwarded by a launcher. */
static const uint64_t passed_on_ns = 200000000;

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU};

static void end_at_once(int number)
{
    const char *line = atomic_load(&last_line);
    (void)number;
    if (line && write(STDERR_FILENO, line, strlen(line)) < 0)
        _exit(LS_CODE_INTERRUPTED); /* nobody reads it */
    _exit(LS_CODE_INTERRUPTED);
}

static void note_signal(int number)
{
    const uint64_t first_ns = atomic_load(&interrupted_ns), now_ns = ls_clock_ns();
    const bool again = number == SIGINT && first_ns && now_ns - first_ns > passed_on_ns;
    atomic_store(&asked, true);
    if (number == SIGXCPU) /* the system repeats it each second */
        return;
    if (atomic_fetch_add(&signals_seen, 1) >= 2 || again)
        _exit(128 + number);
    if (number == SIGINT && !first_ns)
        atomic_store(&interrupted_ns, now_ns);
}

static void install(void (*handler)(int number))
{
    struct sigaction action, before;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaddset(&action.sa_mask, numbers[i]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (numbers[i] == SIGINT || sigaction(numbers[i], NULL, &before) ||
            before.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
}

void ls_interrupt_end_at_once(const char *line)
{
    atomic_store(&last_line, line);
    install(end_at_once);
}

void ls_interrupt_install(void)
{
    install(note_signal);
}

bool ls_interrupted(void)
{
    return atomic_load(&asked);
}
