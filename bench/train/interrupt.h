/* SPDX-License-Identifier: MIT */
/*
 * Interrupt: signals that ask the program to end: SIGINT, SIGTERM, SIGHUP (the terminal is gone),
 * SIGUSR1 and SIGUSR2 (as batch systems announce the end of a job), and SIGXCPU. One that was
 * ignored when the program was started stays ignored (nohup), except SIGINT, which shells ignore
 * for programs in the background. SIGQUIT ends the program at once, as everywhere.
 */
#pragma once

#include <stdbool.h>

/** From here on a signal ends the program at once with status 130, after `line` on standard error,
 * which is static, or NULL. For as long as nothing is half done that could be kept. */
void ls_interrupt_end_at_once(const char *line);

/**
 * From here on the first signal only sets a flag, so that what is done is kept. A second SIGINT, at
 * least 0.2 s after the first (launchers often pass on what the terminal sent already), ends the
 * program at once with status 130, whatever it is stuck in. So does a third signal of any kind
 * (SIGTERM: 143). Interrupted system calls are restarted.
 */
void ls_interrupt_install(void);

/** Whether a signal has come. Checked between batches of steps. */
bool ls_interrupted(void);
