/* SPDX-License-Identifier: MIT */
/* Parts of measuring durations: durations_measured.c runs a host's devices, as they run in a step;
 * durations_each.c runs operations one by one, where a step is too much for this machine. */
#pragma once

#include "bench/predict/durations.h"
#include "common/device/op_list.h"

/* A real device that does the work of a virtual one. */
typedef struct ls_stand_in {
    ls_device *device;
    ls_queue *queue;
    ls_program *program;
    ls_time_profile profile;
    ls_time_log log;
    ls_op_list naps;
    double naps_ns; /**< of one repetition */
    size_t ops;     /**< of one repetition, without naps */
} ls_stand_in;

/** From so many FLOPs on, an operation that is run alone runs once. */
static const double ls_long_flops = 3e10;

enum {
    LS_REPETITIONS_MOST = 60,
    LS_PER_CORE = 4 /**< devices that take turns on a core: fills its cache */
};

typedef struct ls_bench_host {
    ls_durations *durations;
    const ls_measuring *with;
    int begin, end;          /**< virtual devices of the host */
    int first, count;        /**< those whose durations are sought, each on a separate core */
    int per_core;            /**< devices of the host that take turns on each core */
    const ls_duration *only; /**< the operation that is run; NULL means all */
    ls_stand_in *devices;    /**< [count] */
    double *totals;          /**< [count, LS_REPETITIONS_MOST] */
    size_t repetitions;
} ls_bench_host;

/** The number of the virtual device that has a lane. */
static inline int ls_bench_device(const ls_bench_host *h, int lane)
{
    const ls_step_plan *plan = &h->with->run->plan;
    return plan->members[plan->lanes.items[lane].member].device;
}

/** Sets the virtual devices, of all `devices`: number `at`, with the others that share its host's
 * cores. */
static inline void ls_bench_find(ls_bench_host *h, int at, int devices)
{
    const int cores = h->durations->cores, per_host = h->with->devices_per_host;
    h->begin = at / per_host * per_host;
    h->end = h->begin + per_host < devices ? h->begin + per_host : devices;
    h->first = h->begin + (at - h->begin) / cores * cores;
    h->count = h->first + cores < h->end ? cores : h->end - h->first;
    h->per_core = (h->end - h->begin + cores - 1) / cores;
    h->per_core = h->per_core < LS_PER_CORE ? h->per_core : LS_PER_CORE;
}

/** Device number `j` that takes turns on core number `index`; -1 if the host has fewer devices. */
static inline int ls_bench_mate(const ls_bench_host *h, int index, int j)
{
    const int cores = h->durations->cores;
    const int all = (h->end - h->begin + cores - 1) / cores * cores;
    const int device = h->begin + (h->first - h->begin + j * cores) % all + index;
    return device < h->end ? device : -1;
}

/** Whether the device is one of them. */
static inline bool ls_bench_has(const ls_bench_host *h, int device)
{
    for (int index = 0; index < h->count; index++)
        for (int j = 0; j < h->per_core; j++)
            if (ls_bench_mate(h, index, j) == device)
                return true;
    return false;
}

/** Runs the devices' shares of a step, or one operation of it, and takes what they took. */
ls_status ls_durations_run(ls_bench_host *host);

/** Whether so many repetitions of the shares are few enough FLOPs, and fit into the memory. */
bool ls_durations_fits(const ls_bench_host *host, int repetitions);

/** Runs the operations without a duration one by one, the smallest first, and scales what takes
 * too long or too much memory. LS_CODE_MISSING: there is none of the kind to scale. */
ls_status ls_durations_run_each(ls_bench_host *host);
