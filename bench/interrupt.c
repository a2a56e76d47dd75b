/* SPDX-License-Identifier: MIT */
/* Interrupt; see interrupt.h. */
#include "bench/interrupt.h"

#include <signal.h>
#include <string.h>

/* How many signals have come. The one mutable global of the suite: a signal handler has no
 * argument through which state could reach it. */
static volatile sig_atomic_t signals_seen;

static void set_action(void (*handler)(int))
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

static void note_signal(int number)
{
    (void)number;
    if (signals_seen)
        set_action(SIG_DFL);
    signals_seen = 1;
}

void ls_interrupt_install(void)
{
    signals_seen = 0;
    set_action(note_signal);
}

bool ls_interrupted(void)
{
    return signals_seen != 0;
}
