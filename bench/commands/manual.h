/* SPDX-License-Identifier: MIT */
/* Manual: the manual page and shells' completions, made from the commands and the option table. The
 * build prints them by `lockstep help --man`, --bash, --zsh, which is not for users. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** What the manual knows of a command. */
typedef struct ls_manual_command {
    const char *name, *operands, *help;
    unsigned options; /**< LS_FOR_* */
} ls_manual_command;

/** Prints one of them; false where `kind` ("--man") is none. */
bool ls_manual_print(FILE *stream, const char *kind, const ls_manual_command *commands,
                     size_t count);
