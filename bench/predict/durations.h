/* SPDX-License-Identifier: MIT */
/*
 * Durations of operations: measured here, from a file, or by a rate of FLOPs.
 *
 * Two operations of equal name, FLOPs and bytes have one duration. `measured`: the first device
 * that has a key runs its share of the step on a real device of this machine, some times over; with
 * K devices a host, as many of them at once as have a core each. Where the step waits for a
 * message, it sleeps as long: what comes next finds cold caches, and may take several times as
 * long. A key's duration is the mean over its places in the step. The spread is the ratio of each
 * repetition to the mean repetition; what takes over twice as long was interrupted by other
 * programs, and is left out. Steps that are too much for this machine: durations_each.c. What
 * messages and waiting cost besides the network is measured by exchanges of real devices
 * (durations_messages.c).
 */
#pragma once

#include "bench/play/platform.h"
#include "common/device/machine.h"
#include "impl/step/run/run.h"

#include <jansson.h>

/** Operations of one kind. */
typedef struct ls_duration {
    char *name;
    double flops, bytes;
    double ns;       /**< NaN if not known yet */
    double *samples; /**< [sample_count] what it took at each place of a step */
    size_t sample_count;
    bool scaled; /**< from another one, since it takes too long, or too much memory */
} ls_duration;

enum { LS_SLEPT = 3, LS_PER_CORE_MOST = 8 };

/** How long threads slept before the times below. */
extern const double ls_slept_ns[LS_SLEPT];

/** What messages and waiting cost besides the network: the time until .. */
typedef enum ls_message_cost_kind {
    LS_WAKE,    /**< both ends of a message run again */
    LS_LATE,    /**< a queue that slept runs again */
    LS_WITHIN,  /**< a queue runs again that waited for its device's */
    LS_BETWEEN, /**< a queue runs again that waited for another device's */
    LS_MESSAGE_COSTS
} ls_message_cost_kind;

/** With so many devices at work on a core, after each sleep. */
typedef struct ls_message_times {
    int per_core;
    double ns[LS_MESSAGE_COSTS][LS_SLEPT];
    double late; /**< share of messages that waited for a core */
} ls_message_times;

/** The cost after another length of sleep, between the measured lengths. */
double ls_message_cost(const double cost_ns[LS_SLEPT], double slept_ns);

typedef struct ls_durations {
    bool profile;        /**< of a profile (bench/case/profile.h): only layers take time */
    double flops_per_s;  /**< above 0: all durations are FLOPs over this rate */
    ls_duration **items; /**< [count] */
    size_t count;
    void *by_key;           /**< tree of the items (tsearch) */
    double add_ns, copy_ns; /**< per element added on arrival; per byte copied within a device */
    ls_message_times *messages; /**< [message_count] */
    size_t message_count;
    int devices_per_host; /**< for which it was measured; 0 if not known */
    int cores;            /**< of such a host; 0 if not known, and devices share none */
    double turn_ns;       /**< for which a thread keeps a core that another one waits for */
    double *spread;       /**< [spread_count] */
    size_t spread_count;
    double flops_run; /**< of the steps that were run to measure */
    double each_ns;   /**< for which operations were run one by one */
    size_t scaled;    /**< how many items are */
} ls_durations;

/** How many cores devices of a host share, if there are so many of them; 0 if each has its own. */
int ls_durations_cores(const ls_durations *durations, int devices_per_host);

/** Duration of an operation in ns; NaN if it is not known. */
double ls_duration_of(const ls_durations *durations, const ls_op *op);

/** Writes "noisy: ..": that other programs had the cores while messages were timed, and what helps.
 * False if few messages were late, or no step `sends` one, so that the times are not used. */
bool ls_durations_words(const ls_durations *durations, bool sends, char *words, size_t size);

/** Writes "scaled: ..": some durations were scaled. False if none was. */
bool ls_durations_scaled_words(const ls_durations *durations, char *words, size_t size);

/** Half the width of the 95% interval of the medians, over them; 0 if not known. */
double ls_durations_error(const ls_durations *durations);

/** LS_CODE_MISSING names the first operation of the run's steps that has no duration. */
ls_status ls_durations_check(const ls_durations *durations, const ls_step_run *run);

/** What durations are measured with. */
typedef struct ls_measuring {
    const ls_machine *machine;
    ls_step_run *run; /**< on virtual devices */
    const ls_platform *platform;
    int devices_per_host;
    const ls_state_source *initial; /**< parameters that its replicas get */
} ls_measuring;

/** Measures what the run's steps need and is not known yet. */
ls_status ls_durations_measure(ls_durations *durations, const ls_measuring *with);

/** Reads what ls_durations_write wrote. LS_CODE_MISSING names the file and what is wrong. */
ls_status ls_durations_read(const char *path, ls_durations *out);
ls_status ls_durations_write(const char *path, const ls_durations *durations);

void ls_durations_close(ls_durations *durations);

/* ---- What its files share -------------------------------------------------------------------- */

/** NULL if there is none. */
ls_duration *ls_durations_find(const ls_durations *durations, const char *name, double flops,
                               double bytes);

/** Appends one, whose key must be new (ls_durations_find). */
ls_status ls_durations_add(ls_durations *durations, const char *name, double flops, double bytes,
                           double ns);

/** Measures what messages cost here with so many devices on each of `cores` cores, unless it is
 * known. */
ls_status ls_durations_measure_messages(const ls_machine *machine, int cores, int per_core,
                                        ls_durations *durations);

/** What messages cost with so many devices on a core, or the nearest number. NULL if not known. */
const ls_message_times *ls_durations_messages(const ls_durations *durations, int per_core);

/** The mean of the times that are at most so many times their median: what takes place one after
 * the other adds up by means. Sorts `times`. */
double ls_durations_typical(double *times, size_t count, double most);

/** What timed exchanges took besides their sleep, and the share that took more than twice the
 * median. Changes `times`. */
void ls_durations_take_exchanges(double *times, size_t count, double slept_ns, double *cost_ns,
                                 double *late);

/** Whether the operation has a duration: it is neither an exchange nor a delay on purpose. */
bool ls_duration_is_timed(const ls_op *op);
