/* SPDX-License-Identifier: MIT */
/*
 * Signal on a futex; see signal.h. Value and number of sleepers are each written by one side and
 * read by the other, all sequentially consistent: either the poster sees a sleeper, or the sleeper
 * sees the new value.
 */
#include "common/base/signal.h"

#include "common/base/clock.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static void futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = ls_clock_timespec(timeout_ns);
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected,
            timeout_ns == UINT64_MAX ? NULL : &timeout, NULL, 0);
}

void ls_signal_post(ls_signal *signal, uint64_t value)
{
    atomic_store(&signal->value, value);
    if (atomic_load(&signal->sleepers)) {
        atomic_fetch_add(&signal->turn, 1);
        syscall(SYS_futex, &signal->turn, FUTEX_WAKE_PRIVATE, INT32_MAX, NULL, NULL, 0);
    }
}

bool ls_signal_wait_for(ls_signal *signal, uint64_t target, int spins, uint64_t timeout_ns)
{
    for (int i = 0; i < spins; i++) {
        if (ls_signal_value(signal) >= target)
            return true;
        ls_cpu_relax();
    }
    if (ls_signal_value(signal) >= target)
        return true;
    uint64_t deadline = timeout_ns == UINT64_MAX ? UINT64_MAX : ls_clock_ns() + timeout_ns;
    bool reached = false;
    atomic_fetch_add(&signal->sleepers, 1);
    for (;;) {
        uint32_t turn = atomic_load(&signal->turn);
        if (atomic_load(&signal->value) >= target) {
            reached = true;
            break;
        }
        uint64_t left = UINT64_MAX;
        if (deadline != UINT64_MAX) {
            uint64_t now = ls_clock_ns();
            if (now >= deadline)
                break;
            left = deadline - now;
        }
        futex_wait(&signal->turn, turn, left);
    }
    atomic_fetch_sub(&signal->sleepers, 1);
    return reached;
}

void ls_signal_wait(ls_signal *signal, uint64_t target, int spins)
{
    (void)ls_signal_wait_for(signal, target, spins, UINT64_MAX);
}
