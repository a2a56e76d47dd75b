/* SPDX-License-Identifier: MIT */
/* Findings: properties of a series of times that a median and its interval hide. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * Drift: of the medians [n] of blocks, in order of time, the mean of the last third differs by more
 * than 3% from the mean of the first third (*change: their ratio minus 1), and such a trend occurs
 * by chance in at most 0.3% (Mann, "Nonparametric tests against trend", Econometrica 13, 1945).
 * False for n below 8.
 */
bool ls_find_drift(const double *medians, size_t n, double *change);

/**
 * Two modes: the sorted times [n], without the outermost 1%, are split where the variance within
 * the parts is least. True if that is at most 12% of the total variance (normal: 36%, uniform:
 * 25%), each part has at least 10% of the times, and their means differ by more than 10%. Sets the
 * means, and the share of the slower part. False for n below 20.
 */
bool ls_find_modes(const double *sorted, size_t n, double means[2], double *slower);

/** Autocorrelation: the correlation of neighbouring `medians` [n], *by, is over 0.5, and over 2.5 /
 * sqrt(n), which occurs by chance in 1%. False for n below 8. */
bool ls_find_autocorrelation(const double *medians, size_t n, double *by);
