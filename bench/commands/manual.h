/* SPDX-License-Identifier: MIT */
/* Manual: the manual page and shells' completion, of the commands and the option table. A build
 * prints them by `lockstep help --man`, --bash, --zsh, which people need not know. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** What the manual knows of a command. */
typedef struct ls_manual_command {
    const char *name, *operands, *help;
    unsigned options; /**< LS_FOR_* */
} ls_manual_command;

/** Whether `kind` is one of them: "--man". */
bool ls_manual_print(FILE *stream, const char *kind, const ls_manual_command *commands,
                     size_t count);
