/* SPDX-License-Identifier: MIT */
/* Findings: what a series of times has that one figure with an interval does not say. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * Drift: of `medians` [n] of blocks in the order of time, those of the last third are over 3% off
 * those of the first in the mean, `*change` their ratio less 1; and the trend is one by chance in
 * 0.3% (Mann, "Nonparametric tests against trend", Econometrica 13, 1945). Never of fewer than 8.
 */
bool ls_find_drift(const double *medians, size_t n, double *change);

/**
 * Two modes: `sorted` [n] times, the outermost 1% left aside, cut in two so that what varies inside
 * the parts is least, leaves 12% of what varies in all (normal: 36%, uniform: 25%), the parts have
 * 10% of the times or more, and means over 10% apart. Sets the means, and the share of the slower.
 * Never of fewer than 20.
 */
bool ls_find_modes(const double *sorted, size_t n, double means[2], double *slower);

/** Autocorrelation: that of neighbours among `medians` [n] is over 0.5, and over 2.5 / sqrt(n),
 *  which chance gives in 1%. Sets `*by`. Never of fewer than 8. */
bool ls_find_autocorrelation(const double *medians, size_t n, double *by);
