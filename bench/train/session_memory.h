/* SPDX-License-Identifier: MIT */
/* A session's memory: what it needs on each device, by formula, and what its steps take and keep.
 */
#pragma once

#include "bench/train/session_state.h"

#include <stdio.h>

/** Of one device. */
typedef struct ls_need_device {
    char name[40];
    size_t limit; /**< bytes that --memory allows */
    ls_memory_formula formula;
} ls_need_device;

/** Owned by the caller (ls_need_free). */
typedef struct ls_need {
    ls_need_device *devices;
    size_t count;
    bool full; /**< one of them had no room */
} ls_need;

/** What the session's devices hold: if it is open, all that it needs, also where memory is only
 *  counted. NULL devices where there is no memory to say it. */
void ls_need_of(const ls_session *session, ls_need *out);
ls_need ls_need_copy(const ls_need *need);
void ls_need_free(ls_need *need);

/** All ranks' devices, as many of each, in their order. By all processes of the case; `comm` may be
 * NULL. */
ls_status ls_need_join(ls_comm *comm, ls_need *need);

/** Bytes by all uses. */
size_t ls_need_sum(const ls_memory_formula *formula);

/**
 * Devices that need the same as device `first`, and what they need, in words, the largest first:
 * "cpu:0+cpu:1: 2.3 MiB each: activations 1.1 MiB, optimizer 795.1 KiB, ..". Returns how many
 * devices of the list, from `first` on, it is about.
 */
size_t ls_need_print(FILE *stream, const ls_need *need, size_t first);

/** The refusal of a case, or of what judges it, that has no room: what each device needs and for
 *  what, and what --memory allows. None where each would have room. */
ls_status ls_need_refuse(const ls_need *need, const ls_plan_of_case *plan, bool judge);

/** Bytes at a moment. */
typedef struct ls_held {
    size_t devices; /**< by their ledgers */
    size_t heap;    /**< of the host, by the C library: with malloc's heads, so 64 bytes are 80 */
} ls_held;

/** Blind to memory that is mapped without malloc. */
ls_held ls_held_by(const ls_session *session);

/** Of fewer, what a library took once cannot be told from what a step does. */
enum { LS_GROWTH_STEPS = 5 };

/** What steps took and kept. */
typedef struct ls_growth {
    double *heap; /**< [puts] bytes a step */
    size_t puts;
    double devices; /**< bytes of all steps */
    uint64_t steps;
} ls_growth;

/** `steps` were put, and are done. growth->heap has room for one put more. */
void ls_growth_add(ls_growth *growth, ls_held before, ls_held after, uint64_t steps);

/** Bytes a step: what devices keep, and what each put made the heap grow by at least; of fewer
 * steps than LS_GROWTH_STEPS the heap's is not told. */
double ls_growth_per_step(const ls_growth *growth);
