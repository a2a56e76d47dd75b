/* SPDX-License-Identifier: MIT */
/*
 * Signal: a monotonic counter for which threads wait. A waiter spins for a while (the usual wait is
 * short), then sleeps in the kernel (Linux futex); posting costs a store and a load while no thread
 * sleeps. Queues, events and communicators all wait in this way.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** All zero is a new signal of value 0. It fills a cache line. */
typedef struct ls_signal {
    _Alignas(64) _Atomic uint64_t value;
    _Atomic uint32_t sleepers; /**< threads that sleep, or are about to */
    _Atomic uint32_t turn;     /**< the futex word: changes with every post that wakes */
} ls_signal;

/** Raises the value; one thread at a time. Waiters see what was written before (release, acquire).
 */
void ls_signal_post(ls_signal *signal, uint64_t value);

/** Waits until the value is at least `target`: looks `spins` times, then sleeps. */
void ls_signal_wait(ls_signal *signal, uint64_t target, int spins);

/** As above, for at most `timeout_ns`; false if the time ran out. */
bool ls_signal_wait_for(ls_signal *signal, uint64_t target, int spins, uint64_t timeout_ns);

static inline uint64_t ls_signal_value(ls_signal *signal)
{
    return atomic_load_explicit(&signal->value, memory_order_acquire);
}

/** Tells the core that this is a waiting loop. */
static inline void ls_cpu_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
