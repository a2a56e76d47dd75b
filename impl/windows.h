/* SPDX-License-Identifier: MIT */
/*
 * Windows: memory in which units take turns, on a device that holds only its shares of a flat
 * buffer. A unit is a bucket (buckets.h), never cut. Units take turns in the order of the forward
 * pass: number t is in window t mod W, which is as large as its largest unit. A unit with variables
 * that several nodes use can have a separate window, from first to last use.
 */
#pragma once

#include "common/nn/net_nodes.h"
#include "common/nn/repeat.h"
#include "impl/buckets.h"
#include "impl/job.h"
#include "impl/pipeline/pipeline_schedule.h"

typedef struct ls_windows {
    const ls_graph *graph; /**< borrowed, as are the buckets */
    const ls_repeat
        *repeats; /**< [nodes] which are repeated (repeat.h); NULL if there is none. Borrowed */
    const ls_buckets *buckets; /**< the units; the last one is the first of the forward pass */
    int count;                 /**< W */
    int turns;                 /**< units that take turns */
    int *turn;                 /**< [units] number t of each; -1 if its window is separate */
    size_t *at;                /**< [variables] element of the windows' memory at which it begins */
    size_t owned;              /**< elements that are in units. Copies of other places' variables
                                    (graph_parts.h) come behind; they are behind all windows */
    size_t elements;           /**< of all windows, and of copies */
    size_t *alone_at;          /**< [variables] element at which each begins in memory that has one
                                    node's variables at a time, and all copies */
    size_t alone_elements;     /**< of that memory */
    bool *waits; /**< [nodes] whose gradients are final behind weight passes (ls_windows_wait);
                      NULL if there is none */
} ls_windows;

/** `count` windows; more if one node, or nodes that are repeated together, need more at once, no
 * more than there are units. `keeps`: units with variables that several nodes use have separate
 * windows. Close it also on failure. */
ls_status ls_windows_open(const ls_graph *graph, const ls_repeat *repeats,
                          const ls_buckets *buckets, int count, bool keeps, ls_windows *out);
void ls_windows_close(ls_windows *windows);

/** For gradients, if weight passes are separate: all nodes of a unit wait for weight passes if one
 * node has one, since the unit is summed once. */
ls_status ls_windows_wait(ls_windows *windows);

/** The unit that holds element `index`. */
int ls_windows_unit(const ls_buckets *buckets, size_t index);

/** Where element `index` of the flat buffer is in the windows' memory; NULL if there are no
 * windows.
 */
size_t ls_windows_at(const ls_windows *windows, size_t index);

/** The first elements of a range, as many as are in one unit; none of copies. */
ls_range ls_windows_part(const ls_windows *windows, ls_range range);

/** The last unit, in the order of the forward pass, with a variable that a node needs; one more
 * than the last unit if it needs none. */
int ls_windows_need(const ls_windows *windows, int node);

/** The unit to gather again before the backward pass of a unit, so that this one and the W - 1
 * units before it in the forward pass are there; -1 if all are. It counts passes of one chunk. */
int ls_windows_ahead(const ls_windows *windows, int unit);

/** Whether the unit is gathered in both passes: it is not among the last W of the forward pass. */
bool ls_windows_twice(const ls_windows *windows, int unit);

/** Whether a backward pass of a pipeline's stage finds the unit in its window behind a forward pass
 * of its chunk, but not behind another pass. */
bool ls_windows_lost(const ls_windows *windows, int unit, ls_pass_before before);
