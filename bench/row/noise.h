/* SPDX-License-Identifier: MIT */
/*
 * Noise of the machine: what other programs do on it while a case is measured. Read before and
 * after, from /proc and /sys; what cannot be read there counts as quiet.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Counters at a point in time; 0 if unavailable. */
typedef struct ls_noise_reading {
    double at_s;        /**< time of the reading */
    double load;        /**< load average of the last minute */
    double busy_s;      /**< of all cores, without stolen time */
    double stolen_s;    /**< time that a hypervisor gave to others */
    double own_s;       /**< processor time of this process */
    double throttled_s; /**< time in which the control group was throttled */
    uint64_t hot;       /**< times that core 0 was slowed down for heat */
    double mhz;         /**< of core 0 */
} ls_noise_reading;

void ls_noise_read(ls_noise_reading *out);

/**
 * Writes to `words` why the time between two readings was not quiet; false: it was. Reasons: more
 * than 2% of the time was stolen; other programs (`alone`: none of our ranks is among them) and
 * this process's `used` cores used more than 95% of the machine; a control group throttled it for
 * more than 1% of the time; heat slowed a core down; the clock was more than 5% slower at the end.
 */
bool ls_noise_between(const ls_noise_reading *before, const ls_noise_reading *after, int used,
                      bool alone, char *words, size_t size);
