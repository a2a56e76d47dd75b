/* SPDX-License-Identifier: MIT */
/* Findings: properties of a series of times that a median and its interval hide. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * Drift: of the medians [n] of blocks, in the order of time, the mean of the last third is over 3%
 * off that of the first third (*change: their ratio less 1), and a trend like this comes by chance
 * in at most 0.3% (Mann, "Nonparametric tests against trend", Econometrica 13, 1945). False for n
 * below 8.
 */
bool ls_find_drift(const double *medians, size_t n, double *change);

/**
 * Two modes: the sorted times [n], without the outermost 1%, are cut in two where the variance
 * within the parts is least. True where that is at most 12% of the whole variance (normal: 36%,
 * uniform: 25%), each part has 10% of the times or more, and their means are over 10% apart. Sets
 * the means, and the share of the slower part. False for n below 20.
 */
bool ls_find_modes(const double *sorted, size_t n, double means[2], double *slower);

/** Autocorrelation: that of neighbours among `medians` [n], *by, is over 0.5, and over 2.5 /
 * sqrt(n), which comes by chance in 1%. False for n below 8. */
bool ls_find_autocorrelation(const double *medians, size_t n, double *by);
