/* SPDX-License-Identifier: MIT */
/* Interrupt: SIGINT and SIGTERM ask the program to finish its step, keep what is done, and end. */
#ifndef LS_BENCH_INTERRUPT_H
#define LS_BENCH_INTERRUPT_H

#include <stdbool.h>

/**
 * From here on the first SIGINT or SIGTERM only sets a flag. The second is ignored too, since
 * launchers often pass on a signal that the terminal has sent already, but restores the default
 * actions, so the next one kills. Interrupted system calls go on.
 */
void ls_interrupt_install(void);

/** Whether a signal has come. Looked at between blocks of steps. */
bool ls_interrupted(void);

#endif
