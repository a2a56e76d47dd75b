/* SPDX-License-Identifier: MIT */
/* Faults of a rank on purpose (--inject), to see that the others notice. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ls_fault_kind {
    LS_FAULT_NONE,
    LS_FAULT_KILL, /**< SIGKILL */
    LS_FAULT_STOP, /**< SIGSTOP */
    LS_FAULT_EXIT, /**< exits with status 0, without telling anybody */
    LS_FAULT_HANG  /**< stays, and does nothing */
} ls_fault_kind;

/** What happens to a rank before it enqueues a step of the timed run, warm-up included. */
typedef struct ls_fault {
    ls_fault_kind kind;
    int rank;
    int64_t step;
} ls_fault;

/** Reads "kill=RANK:STEP", "stop=..", "exit=..", "hang=.."; false: it is none of these. */
bool ls_fault_parse(const char *text, ls_fault *out);

/** The same as text. */
char *ls_fault_text(const ls_fault *fault, char *text, size_t size);

/** Does it to this process. Returns only from a stop, once it is continued. */
void ls_fault_strike(ls_fault_kind kind);
