/* SPDX-License-Identifier: MIT */
/*
 * Memory check: what the process takes at its peak, of all cases of a command, against the memory
 * limit of the host (control group or machine), which the processes of a host share. Before any
 * case allocates memory of its model's size.
 */
#pragma once

#include "bench/case/case_plan.h"
#include "bench/train/session.h"

#include <jansson.h>

/* ---- Footprint ------------------------------------------------------------------------------ */
/*
 * The memory of this process that a case takes at its peak, counted before anything of its model's
 * size is allocated. The candidate and its judges are opened with memory that is only counted;
 * copies on the host are counted by the lines that allocate them.
 */

/** Bytes that a phase takes at its peak. */
typedef struct ls_footprint_phase {
    size_t sessions; /**< CPU devices of all sessions that are open at once */
    size_t copies;   /**< parameters, gradients and state on the host's heap */
} ls_footprint_phase;

/** What a case takes besides the program, its data set and its first values. */
typedef struct ls_footprint {
    ls_footprint_phase gate, training;
    ls_need need; /**< of the candidate's devices */
} ls_footprint;

/** A case and what is found out about it. */
typedef struct ls_memory_case {
    const ls_plan_of_case *plan;
    size_t group; /**< cases of a group take turns, all open at once */
    ls_footprint footprint;
    size_t peak;     /**< bytes of this process, if the case runs alone */
    ls_status error; /**< why the case is refused; owned */
} ls_memory_case;

/** The memory of a command in this process, in bytes. */
typedef struct ls_memory_sum {
    size_t program; /**< resident now: the program, libraries, threads */
    size_t data;    /**< data sets */
    size_t values;  /**< first values, until the command ends */
    size_t limit;   /**< that this host's processes share */
    size_t peak;    /**< the largest of all groups, without the cases that are refused */
} ls_memory_sum;

/** Counts `count` cases, whose plans are open and not drawn, and refuses the ones that do not fit,
 * alone or with earlier cases of their group. All processes of the command call it. The caller
 * frees each footprint.need and error. */
void ls_memory_check(const ls_workplace *workplace, ls_memory_case *cases, size_t count,
                     ls_memory_sum *out);

/** What the process takes for a case alone: {program, data, values, sessions, copies, peak, limit}.
 *  Owned by the caller. */
json_t *ls_memory_group(const ls_memory_sum *sum, const ls_memory_case *one);

/** As above, in words: "583.1 MiB at its peak: sessions 208.1 MiB, .. ; the limit is 286.1 MiB". */
void ls_memory_words(const ls_memory_sum *sum, const ls_memory_case *one, char *text, size_t size);
