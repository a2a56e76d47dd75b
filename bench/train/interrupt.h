/* SPDX-License-Identifier: MIT */
/* Interrupt: SIGINT and SIGTERM ask the program to finish its step, keep what is done, and end. */
#pragma once

#include <stdbool.h>

/**
 * From here on the first SIGINT or SIGTERM only sets a flag. A second SIGINT, at least 0.2 s after
 * the first (launchers often pass on what the terminal sent already), ends the program at once with
 * status 130, whatever it is stuck in. So does a third signal of either kind (SIGTERM: 143).
 * Interrupted system calls are restarted.
 */
void ls_interrupt_install(void);

/** Whether a signal has come. Checked between batches of steps. */
bool ls_interrupted(void);
