/* SPDX-License-Identifier: MIT */
/* Interrupt: SIGINT and SIGTERM ask the program to finish its step, keep what is done, and end. */
#pragma once

#include <stdbool.h>

/**
 * From here on the first SIGINT or SIGTERM only sets a flag. A second SIGINT ends the program at
 * once, with status 130, whatever it is stuck in; but for one within 0.2 s of the first: launchers
 * often pass on what the terminal has sent already. So does a third signal of either kind (SIGTERM:
 * 143). Interrupted system calls go on.
 */
void ls_interrupt_install(void);

/** Whether a signal has come. Looked at between blocks of steps. */
bool ls_interrupted(void);
