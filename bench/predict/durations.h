/* SPDX-License-Identifier: MIT */
/*
 * Durations of operations: measured here, from a file, or by a rate of FLOPs.
 *
 * Two operations of equal name, FLOPs and bytes have one duration. `measured`: the first device
 * that has a key runs its share of the step, without what is exchanged, on a real device of this
 * machine, some times over; with K devices a host, all devices of its host run at once. A key's
 * duration is the median. The spread is the ratio of each repetition to the median repetition;
 * those over twice as long were interrupted by other programs, and are left out. What a message
 * costs besides the network (waking up, mostly) is measured by exchanges of two real devices.
 */
#pragma once

#include "common/device/machine.h"
#include "impl/step/run.h"

#include <jansson.h>

/** Operations of one kind. */
typedef struct ls_duration {
    char *name;
    double flops, bytes;
    double ns;       /**< NaN: not known yet */
    double *samples; /**< [sample_count] */
    size_t sample_count;
} ls_duration;

typedef struct ls_durations {
    bool profile;       /**< of a profile (bench/case/profile.h): layers say how long they take, and
                             all else takes none */
    double flops_per_s; /**< above 0: all durations are FLOPs over this rate */
    ls_duration *items; /**< [count] */
    size_t count;
    size_t *slots; /**< [slot_count] hash table of numbers of items, from 1 */
    size_t slot_count;
    double add_ns, copy_ns; /**< of an element that is added on arrival; of a byte copied within a
                                 device */
    double message_ns;      /**< of a message, besides the network */
    double *spread;         /**< [spread_count] */
    size_t spread_count;
    double late; /**< share of messages that waited for a core, while message_ns was measured */
} ls_durations;

/** Duration of an operation in ns; NaN if it is not known. */
double ls_duration_of(const ls_durations *durations, const ls_op *op);

/** "noisy: ..": that other programs had the cores while messages were timed, and what helps. False:
 * few were late, or no step `sends` a message, so that none of these times is used. */
bool ls_durations_words(const ls_durations *durations, bool sends, char *words, size_t size);

/** Half the width of the 95% interval of the medians, over them; 0 if not known. */
double ls_durations_error(const ls_durations *durations);

/** LS_CODE_MISSING names the first operation of the run's steps that has no duration. */
ls_status ls_durations_check(const ls_durations *durations, const ls_step_run *run);

/** Measures what the run's steps need and is not known yet. The run is on virtual devices; its
 * replicas get the parameters `initial`. */
ls_status ls_durations_measure(ls_durations *durations, const ls_machine *machine, ls_step_run *run,
                               int devices_per_host, const ls_state_source *initial);

/** Reads what ls_durations_write wrote. LS_CODE_MISSING names the file and what is wrong. */
ls_status ls_durations_read(const char *path, ls_durations *out);
ls_status ls_durations_write(const char *path, const ls_durations *durations);

void ls_durations_close(ls_durations *durations);

/* ---- What its files share -------------------------------------------------------------------- */

/** NULL if there is none. */
ls_duration *ls_durations_find(const ls_durations *durations, const char *name, double flops,
                               double bytes);

/** Appends one, which must be new. */
ls_status ls_durations_add(ls_durations *durations, const char *name, double flops, double bytes,
                           double ns);

/** Of timed exchanges: the lower quartile, and the share of those that took more than twice as
 * long. Sorts `times`. */
void ls_durations_take_exchanges(double *times, size_t count, double *ns, double *late);

/** Whether the operation has a duration: it is neither an exchange nor a delay on purpose. */
bool ls_duration_is_timed(const ls_op *op);
