/* SPDX-License-Identifier: MIT */
/*
 * Statistics of the times of the steps: mean, quantiles, and how well the median is known.
 *
 * A quantile p of n sorted samples x[0] <= ... <= x[n-1] interpolates between order statistics:
 * with h = (n - 1) p it is x[floor h] + (h - floor h) (x[floor h + 1] - x[floor h]), definition 7
 * of Hyndman and Fan, "Sample quantiles in statistical packages", The American Statistician 50,
 * 1996. The median is the quantile 0.5.
 */
#ifndef LS_BENCH_TRAIN_STATISTICS_H
#define LS_BENCH_TRAIN_STATISTICS_H

#include <stddef.h>

/** In the unit of the samples. */
typedef struct ls_statistics {
    double mean, median, p10, p90, p99;
    double ci95[2]; /**< what ls_statistics_meaning says */
    size_t n;       /**< how many samples; with 0 the figures above are NaN */
} ls_statistics;

/** `samples` [n], finite, are sorted in place. */
void ls_statistics_compute(double *samples, size_t n, ls_statistics *out);

/** The quantile p in [0, 1] of `sorted` [n], n > 0, as defined above. */
double ls_statistics_quantile(const double *sorted, size_t n, double p);

/**
 * How many steps of `mean` their time is to be a mean of, where the clock ticks in `tick` (of one
 * unit): so many that a tick is at most half a percent of it.
 */
size_t ls_statistics_group_size(double tick, double mean);

/**
 * Writes the mean of each `together` times [n] to `samples` [n], of the last with what is left
 * over. Returns how many.
 */
size_t ls_statistics_group(const double *times, size_t n, size_t together, double *samples);

/** One line for the row: what `ci95` is. Static text. */
const char *ls_statistics_meaning(void);

#endif
