/* SPDX-License-Identifier: MIT */
/*
 * Noise of the machine: what others do on it while a case is measured. Read before and after, from
 * /proc and /sys; what cannot be read there is taken for quiet.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Counters at a moment; 0 where there is none. */
typedef struct ls_noise_reading {
    double at_s;        /**< clock */
    double load;        /**< tasks that ran or wanted to, over the last minute */
    double busy_s;      /**< of all cores, but what was stolen */
    double stolen_s;    /**< that a hypervisor gave to others */
    double own_s;       /**< processor time of this process */
    double throttled_s; /**< in which the control group was held back */
    uint64_t hot;       /**< times that core 0 was slowed down for heat */
    double mhz;         /**< of core 0 */
} ls_noise_reading;

void ls_noise_read(ls_noise_reading *out);

/**
 * Why the time between two readings was not quiet, in words [size]: over 2% of the time of `cores`
 * stolen; others so busy that they and this process's `used` cores are more than 95% of the
 * machine's (`alone`: no other rank is taken for another); held back by a control group in over 1%
 * of the time; slowed down for heat; a clock over 5% slower at the end. False: it was.
 */
bool ls_noise_between(const ls_noise_reading *before, const ls_noise_reading *after, int used,
                      bool alone, char *words, size_t size);
