/* SPDX-License-Identifier: MIT */
/* Faults of a rank on purpose (--inject), to see what the others do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ls_fault_kind {
    LS_FAULT_NONE,
    LS_FAULT_KILL, /**< SIGKILL */
    LS_FAULT_STOP, /**< SIGSTOP */
    LS_FAULT_EXIT, /**< status 0, and no word to anybody */
    LS_FAULT_HANG  /**< it is there, and does nothing */
} ls_fault_kind;

/** What happens to a rank before a step of the timed run, warm-up included, is put. */
typedef struct ls_fault {
    ls_fault_kind kind;
    int rank;
    int64_t step;
} ls_fault;

/** Of "NAME=PLACE:REST" the place, 0 to 1023; returns the rest, or NULL where it is none. */
const char *ls_fault_place(const char *text, const char *name, int *place);

/** Reads "kill=RANK:STEP", "stop=..", "exit=..", "hang=.."; false: it is none of these. */
bool ls_fault_parse(const char *text, ls_fault *out);

/** The same as text. */
char *ls_fault_text(const ls_fault *fault, char *text, size_t size);

/** Does it to this process. Returns from a stop alone, when that ends. */
void ls_fault_strike(ls_fault_kind kind);
