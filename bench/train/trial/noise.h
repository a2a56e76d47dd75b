/* SPDX-License-Identifier: MIT */
/*
 * Noise: what other programs take from a case while it is timed. Counters of the cores that the
 * case holds, and of this process's threads, are read before and after each of its blocks, so the
 * blocks of other cases do not count, and nothing is read in a step. Sources: /proc/stat (per
 * core, in ticks), /proc/self/task/TID/schedstat (per thread, in ns), control groups, /sys. What
 * cannot be read is NaN, never 0. Left out: the other hardware threads of a core, memory and
 * network bandwidth that others use.
 */
#pragma once

#include "common/device/device.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_NOISE_CORES = 8192 }; /**< the most that a kernel can have */

/** A set of cores by the system's numbers, in the layout of sched_getaffinity. */
typedef struct ls_noise_mask {
    uint64_t words[LS_NOISE_CORES / 64];
} ls_noise_mask;

/** Seconds, summed over the cores of a device, or over threads. */
typedef struct ls_noise_counters {
    double busy_s;   /**< programs ran on the cores; interrupts are left out */
    double stolen_s; /**< a hypervisor gave the cores to others */
    double own_s;    /**< time in which this process's threads ran on the cores */
    double waited_s; /**< threads bound to the cores were ready to run, and did not */
} ls_noise_counters;

/** The cores of a device. */
typedef struct ls_noise_device {
    ls_noise_mask cores;
    int count;
    ls_noise_counters before, sum;
} ls_noise_device;

/** Sums over the blocks so far; all zero at first. */
typedef struct ls_noise {
    ls_noise_device *devices; /**< [count]; if none holds cores: one, with all that there are */
    size_t count;
    double begun_s, timed_s;
    uint64_t blocks;
    double throttled_before_s, throttled_s; /**< quotas of control groups */
    double mhz_first, mhz_last;             /**< of the first core; NaN if not known */
    double hot_first, hot_last;             /**< how often heat slowed it down, before and after */
} ls_noise;

/** What is found, relative to the timed time; NaN if not known.
 *   `others` is time that other programs used a core while threads of the case waited, on the
 * device that lost most: the smaller of (busy - own) and (waited - throttled), since others who run
 * while a thread sleeps delay nothing, and threads also wait for each other and for a quota.
 * /proc/stat counts by sampling, so busy - own has a standard error of at most half a tick times
 * the root of the ticks (c cores in T seconds, and a rounding per block); 0 within three standard
 * errors. */
typedef struct ls_noise_found {
    double others;    /**< time of a core that other programs took (above) */
    double stolen;    /**< the device's or another's; 0 within three roundings */
    double throttled; /**< no more than threads waited, for groups sum over cores and members */
    size_t device;    /**< that lost most to others */
} ls_noise_found;

/** Right before a block's steps, when its devices are open. Without memory, nothing is known. */
void ls_noise_begin(ls_noise *noise, ls_device *const *devices, size_t count);
/** Right after them. */
void ls_noise_end(ls_noise *noise);
void ls_noise_close(ls_noise *noise);

/** `tick_s`: the unit of /proc/stat. */
ls_noise_found ls_noise_judge(const ls_noise *noise, double tick_s);

/** Adds busy_s and stolen_s of the mask's processors, from a text of /proc/stat; NaN where one is
 * missing. */
void ls_noise_take_stat(const char *text, double tick_s, const ls_noise_mask *cores,
                        ls_noise_counters *out);

/** A thread's time on a core, and ready for one, from its schedstat; false where the kernel does
 * not count (it then writes zeros). */
bool ls_noise_take_schedstat(const char *text, double *ran_s, double *waited_s);

/** Writes the mask's first cores, at most `most`; returns how many. */
size_t ls_noise_list(const ls_noise_mask *cores, int *out, size_t most);
