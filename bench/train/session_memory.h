/* SPDX-License-Identifier: MIT */
/* A session's memory: what it needs on each device, by formula, and what its steps allocate and
 * keep.
 */
#pragma once

#include "bench/train/session_state.h"

#include <stdio.h>

/** Memory that one device needs. */
typedef struct ls_need_device {
    char name[40];
    size_t limit; /**< bytes that --memory allows */
    ls_memory_formula formula;
} ls_need_device;

/** Memory that a case needs; owned by the caller (ls_need_free). */
typedef struct ls_need {
    ls_need_device *devices;
    size_t count;
    bool full; /**< a device had no room */
} ls_need;

/** What the session's devices allocated; an open session needs just that, even if memory is only
 * counted. `devices` is NULL if out of memory. */
void ls_need_of(const ls_session *session, ls_need *out);
ls_need ls_need_copy(const ls_need *need);
void ls_need_free(ls_need *need);

/** All ranks' devices, as many of each, in their order. By all processes of the case; `comm` may be
 * NULL. */
ls_status ls_need_join(ls_comm *comm, ls_need *need);

/** Sum over all uses, in bytes. */
size_t ls_need_sum(const ls_memory_formula *formula);

/**
 * Prints what device `first`, and those after it with the same need, need, largest first:
 * "cpu:0+cpu:1: 2.3 MiB each: activations 1.1 MiB, optimizer 795.1 KiB, ..". Returns how many
 * devices these are.
 */
size_t ls_need_print(FILE *stream, const ls_need *need, size_t first);

/** The refusal of a case, or of its judge, without enough memory: what each device needs and for
 * what, and what --memory allows. LS_OK if each has enough. */
ls_status ls_need_refuse(const ls_need *need, const ls_plan_of_case *plan, bool judge);

/** Memory that a session uses at a moment, in bytes. */
typedef struct ls_memory_in_use {
    size_t devices; /**< by their ledgers */
    size_t heap; /**< of the host, by the C library, with malloc's headers: 64 bytes count as 80 */
} ls_memory_in_use;

/** Does not see memory that is mapped without malloc. */
ls_memory_in_use ls_memory_in_use_by(const ls_session *session);

/** With fewer steps, a library's first allocations would look like growth in each step. */
enum { LS_GROWTH_STEPS = 5 };

/** Memory that steps allocated and kept. */
typedef struct ls_growth {
    double heap_least, heap_most; /**< bytes per step, of a call's steps */
    size_t calls;
    double devices; /**< bytes of all steps */
    uint64_t steps;
} ls_growth;

/** Adds `steps` steps, enqueued by one call and done now. */
void ls_growth_add(ls_growth *growth, ls_memory_in_use before, ls_memory_in_use after,
                   uint64_t steps);

/** Bytes per step: growth of the devices' memory, plus the least growth of the heap over all calls,
 * unless there are fewer steps than LS_GROWTH_STEPS. */
double ls_growth_per_step(const ls_growth *growth);
