/* SPDX-License-Identifier: MIT */
/*
 * Statistics of the times of the steps: mean, quantiles, and how well the median is known.
 *
 * A quantile p of n sorted samples x[0] <= ... <= x[n-1] interpolates between order statistics:
 * with h = (n - 1) p it is x[floor h] + (h - floor h) (x[floor h + 1] - x[floor h]), definition 7
 * of Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician 50,
 * 1996. The median is the quantile 0.5.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

/** In the unit of the samples. */
typedef struct ls_statistics {
    double mean, median, p10, p90, p99;
    size_t n; /**< how many samples; with 0 the figures above are NaN */
} ls_statistics;

/** Sorts in place. */
void ls_statistics_sort(double *values, size_t n);

/** `samples` [n], finite, are sorted in place. */
void ls_statistics_compute(double *samples, size_t n, ls_statistics *out);

/** The median of `values` [n], which are sorted in place; NaN of none. */
double ls_statistics_median(double *values, size_t n);

/** The mean of values [n]; n is at least 1. */
double ls_statistics_mean(const double *values, size_t n);

/** With fewer blocks the interval is too narrow: in 300 runs, the range of 5 in a row held the
 * median of all in 55%, of 10 in 77%, of 20 in 100%. */
enum { LS_STATISTICS_BLOCKS = 20 };

/**
 * The 95% interval of the median of `samples` (see ls_statistics_meaning). Block b has samples
 * ends[b - 1] (0 for the first) to ends[b] - 1; none is empty. NaN with fewer than two samples:
 * one says nothing of how far another would be. Equal samples give an interval of width 0 if the
 * caller knows its clock's resolution. Visits a sample up to 2,000 times.
 */
ls_status ls_statistics_interval(const double *samples, const size_t *ends, size_t blocks,
                                 double ci95[2]);

/** Units of work, and the time that they took. */
typedef struct ls_worked {
    double done, ms;
} ls_worked;

/** The 95% interval of work per second, in the same way; NaN with fewer than two blocks. work[b] is
 * all that was done up to the end of block b. */
ls_status ls_statistics_rate_interval(const ls_worked *work, size_t blocks, double ci95[2]);

/** A figure above 0, and its interval. */
typedef struct ls_interval {
    double value, low, high;
} ls_interval;

/**
 * a / b of two independent figures: the distances of the bounds, in logarithms, add up as squares
 * (MOVER: Donner and Zou, "Closed-form confidence intervals for functions of the normal mean and
 * standard deviation", 2012).
 */
ls_interval ls_statistics_ratio(ls_interval a, ls_interval b);

/** The quantile p in [0, 1] of `sorted` [n], n > 0, as defined above. */
double ls_statistics_quantile(const double *sorted, size_t n, double p);

/**
 * Over how many steps of mean length `mean` to average a time if the clock's resolution is `tick`
 * (same unit), so that a tick is at most half a percent of the sum.
 */
size_t ls_statistics_group_size(double tick, double mean);

/**
 * Writes the means of groups of `per_group` times [n] to `samples` [n]; the last group includes the
 * remainder. Returns the number of groups.
 */
size_t ls_statistics_group(const double *times, size_t n, size_t per_group, double *samples);

/** One line for the row: what `ci95` is. Static text. */
const char *ls_statistics_meaning(void);

/* ---- Level changes ---------------------------------------------------------------------------
 *
 * Where a series of figures, one per commit, moves to another level and stays there.
 * The series is divided into segments of constant level so that the squared deviations from the
 * segments' means, plus 4 s^2 ln n per segment, are least (optimal partitioning: Jackson et al.,
 * "An algorithm for optimal partitioning of data on an interval", IEEE Signal Processing Letters
 * 12, 2005). The noise s comes from the differences of neighbours, whose median a few changes do
 * not affect: median |x[i+1] - x[i]| / (0.6745 sqrt 2), times 1 + 4 / (n - 1), since few
 * differences tell little, and at least 0.2% of the median, so that nothing smaller counts. In pure
 * normal noise, 2 to 5% of the series get a change (n = 4 to 40); a change of 8 s in the middle of
 * 10 is found in 99%. Fewer than four figures get none.
 */

/** Sets changes[i] to whether a new level begins with values[i]; never for i = 0. Both have n
 * elements, and the values are finite. Takes n^2 time. */
ls_status ls_level_changes(const double *values, size_t n, bool *changes);

/**
 * Sets *out to the number of initial `times` [n] that are not yet steady. The first 128 are divided
 * into levels. Initial levels whose mean differs by more than 5% from the median
 * of the last three quarters are not steady, unless they last longer than a quarter of the block. 0
 * for n below 8.
 */
ls_status ls_steady_from(const double *times, size_t n, size_t *out);
