/* SPDX-License-Identifier: MIT */
/*
 * Ratio test: decides from logarithms of ratios whether B takes longer than A by more than a
 * threshold, does not, or is undecided. Paired: log ratios of blocks that alternated, where a coin
 * decided the order in each pair. If B is A times a constant, each log ratio minus the constant's
 * logarithm is, because of the coin, equally often above and below 0, whatever the noise of the two
 * blocks: heavy tails, drift, another program's load. Wilcoxon's signed ranks assume nothing else,
 * and are exact.
 *   slower  the lower bound of the centre is above log(1 + threshold)
 *   faster  the upper bound is below -log(1 + threshold)
 *   same    both bounds, with their own error, are within the same limits: two one-sided tests
 * At the last look whoever is not slower passes: if the upper bound of `same` is within, faster if
 * the other upper bound is below 0, else same if the centre is within.
 * The bounds are order statistics of the n (n + 1) / 2 pairwise means (Hodges and Lehmann, Annals
 * of Mathematical Statistics 34, 1963; Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15,
 * 1987). Looks: the test may be made several times. The fraction of the time used is the fraction
 * of the error spent (Lan and DeMets, Biometrika 70, 1983). A look gets the error spent since the
 * last one, so that the sum bounds the error, however looks depend on each other.
 */
#pragma once

#include "bench/statistics/statistics.h"
#include "common/base/status.h"

#include <stddef.h>

/** What a ratio of times B / A says. The only judgement of two times: `results diff`, `report
 * --against` and `regress` use it. */
typedef enum ls_verdict {
    LS_VERDICT_CANNOT_TELL,
    LS_VERDICT_SAME,
    LS_VERDICT_FASTER,
    LS_VERDICT_SLOWER
} ls_verdict;

/** "cannot tell", "same", "faster", "slower": of B */
const char *ls_verdict_name(ls_verdict verdict);

/** Judges a ratio of two rows with its 95% interval: slower or faster if 1 is outside of it, equal
 * if it is within 5% of 1. Without an interval (low is 0) it cannot be told. */
ls_verdict ls_verdict_of_pair(ls_interval ratio);

typedef struct ls_ratio_test {
    double threshold; /**< 0.03: 3% */
    size_t cases;     /**< of the comparison: each gets its part of the error (Bonferroni) */
    double spent;     /**< share of the time at the last look; first 0 */
} ls_ratio_test;

typedef struct ls_ratio_result {
    ls_verdict verdict;
    double ratio;   /**< B / A; NaN without blocks */
    double ci95[2]; /**< of this look; NaN where it would say nothing */
    size_t blocks;
    size_t more; /**< blocks, or runs a side, that would decide; or 0 */
} ls_ratio_result;

enum { LS_RATIO_BLOCKS_MOST = 2000 };

/** The share to use for a look at `n` pairs when `share` of the time is over; 0 means no look now.
 * Looks are at 1/64, then each time at twice that, if the pairs could decide anything, and at 1. */
double ls_ratio_due(const ls_ratio_test *test, size_t n, double share);

/** Tests log(B / A) of `n` pairs; `share` of the time is used (1 for the last look). */
ls_status ls_ratio_look(const ls_ratio_test *test, const double *logs, size_t n, double share,
                        ls_ratio_result *out);

/** One side of an unpaired test: logarithms of its times. */
typedef struct ls_ratio_side {
    const double *logs;
    size_t count;
    double half; /**< for a single run: half its 95% interval, in logarithms; or 0 */
} ls_ratio_side;

/**
 * Unpaired: compares medians, with normal bounds from robust deviations and `drift`, the standard
 * deviation of one program's runs between two times. A side with one run gets the deviation of the
 * other; if that run has no interval (one step), nothing is known of its error: cannot tell.
 */
void ls_ratio_unpaired(const ls_ratio_test *test, const ls_ratio_side *base,
                       const ls_ratio_side *fresh, double drift, ls_ratio_result *out);
