/* SPDX-License-Identifier: MIT */
/* Interrupt; see interrupt.h. */
#include "bench/train/interrupt.h"

#include "common/base/clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* Signals received. The suite's only mutable globals: a signal handler has no argument through
 * which it could reach state. */
static atomic_int signals_seen;
static _Atomic uint64_t interrupted_ns; /* the first SIGINT; 0: none */

/* A second SIGINT within this time may be the first one, forwarded by a launcher. */
static const uint64_t passed_on_ns = 200000000;

static void note_signal(int number)
{
    const uint64_t first_ns = atomic_load(&interrupted_ns), now_ns = ls_clock_ns();
    const bool again = number == SIGINT && first_ns && now_ns - first_ns > passed_on_ns;
    if (atomic_fetch_add(&signals_seen, 1) >= 2 || again)
        _exit(128 + number);
    if (number == SIGINT && !first_ns)
        atomic_store(&interrupted_ns, now_ns);
}

void ls_interrupt_install(void)
{
    struct sigaction action;
    atomic_store(&signals_seen, 0);
    atomic_store(&interrupted_ns, 0);
    memset(&action, 0, sizeof action);
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGINT);
    sigaddset(&action.sa_mask, SIGTERM);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool ls_interrupted(void)
{
    return atomic_load(&signals_seen) != 0;
}
