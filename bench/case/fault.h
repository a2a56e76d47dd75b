/* SPDX-License-Identifier: MIT */
/* Faults on purpose (--inject), to see what the others and the checks do. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ls_fault_kind {
    LS_FAULT_NONE,
    LS_FAULT_KILL,    /**< of a rank: SIGKILL */
    LS_FAULT_STOP,    /**< SIGSTOP */
    LS_FAULT_EXIT,    /**< exits with status 0, without telling anybody */
    LS_FAULT_HANG,    /**< stays, and does nothing */
    LS_FAULT_DELAY,   /**< it is late in each step */
    LS_FAULT_BITFLIP, /**< of a device: its gradient is wrong in a step that is compared */
} ls_fault_kind;

typedef struct ls_fault {
    ls_fault_kind kind;
    int target;        /**< the rank, or the device */
    int64_t step;      /**< before which it happens, of the timed run, warm-up included */
    uint64_t delay_ns; /**< of each step */
} ls_fault;

/** Reads the target of "NAME=TARGET:REST", 0 to 4095; returns the rest, or NULL if that is not its
 * form. */
const char *ls_fault_target(const char *text, const char *name, int *target);

/** Reads "kill=RANK:STEP", "delay=RANK:TIME" and so on; false if it has another form. */
bool ls_fault_parse(const char *text, ls_fault *out);

/** Writes a fault as such a text. */
char *ls_fault_text(const ls_fault *fault, char *text, size_t size);

/** Whether it strikes a rank in a step, as ls_fault_perform does. */
bool ls_fault_strikes(const ls_fault *fault);

/** Does it to this process. Returns only from a stop, once it is continued. */
void ls_fault_perform(ls_fault_kind kind);
