/* SPDX-License-Identifier: MIT */
/*
 * Ratio test: whether B takes longer than A by more than a threshold, is within it, or cannot be
 * told, from logarithms of their ratios.
 *
 * Paired: log ratios of blocks that ran in turns, which of the two came first by a coin. Where B is
 * A times a constant, each log ratio less that constant's logarithm is by the coin as often above 0
 * as below, whatever the noise of the two turns is: heavy tails, drift and another program's load
 * among it. Wilcoxon's signed ranks need no more than that, and are exact.
 *   slower  the bound below of the centre is above log(1 + threshold)
 *   faster  the bound above is under -log(1 + threshold)
 *   same    both bounds, at their own error, are within these: two one-sided tests
 * The bounds are order statistics of the n (n + 1) / 2 means of two (Hodges and Lehmann, Annals of
 * Mathematical Statistics 34, 1963; Schuirmann, J. Pharmacokinetics and Biopharmaceutics 15, 1987).
 *
 * Looks: the test may be made at several times. The share of the time that is over is the share of
 * the error that is spent (Lan and DeMets, Biometrika 70, 1983), and a look has what was spent
 * since the last one, so that the sum bounds the error, however looks depend on each other.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef enum ls_verdict {
    LS_VERDICT_CANNOT_TELL,
    LS_VERDICT_SAME,
    LS_VERDICT_FASTER,
    LS_VERDICT_SLOWER
} ls_verdict;

/** "cannot tell", "same", "faster", "slower" */
const char *ls_verdict_name(ls_verdict verdict);

typedef struct ls_ratio_test {
    double threshold; /**< 0.03: 3% */
    size_t cases;     /**< that are judged together: each has its part of the error (Bonferroni) */
    double spent;     /**< share of the time at the last look; 0 at first, the caller moves it on */
} ls_ratio_test;

typedef struct ls_ratio_result {
    ls_verdict verdict;
    double ratio;   /**< B / A; NaN without blocks */
    double ci95[2]; /**< of this look by itself; NaN of one block */
    size_t blocks;
    size_t more; /**< blocks that it would take besides, about; 0: told, or not to be estimated */
} ls_ratio_result;

enum { LS_RATIO_BLOCKS_MOST = 2000 };

/** The share at which `n` pairs are to be looked at when `share` of the time is over: 1/64, then
 *  each time twice as much, if they could decide anything; 1 at the end. 0: not now. */
double ls_ratio_due(const ls_ratio_test *test, size_t n, double share);

/** Looks at log(B / A) of `n` pairs; `share` of the time is over (1: the last look). */
ls_status ls_ratio_look(const ls_ratio_test *test, const double *logs, size_t n, double share,
                        ls_ratio_result *out);

/** Logarithms of one side's measured times, in runs of their own. */
typedef struct ls_ratio_side {
    const double *logs;
    size_t count;
    double half; /**< of one run alone: half of its 95% interval, in logarithms; 0: not known */
} ls_ratio_side;

/**
 * Unpaired: medians of both sides, with normal bounds by robust deviations and, besides,
 * `drift`: by how much (one deviation) runs of one program differ between two times. One run alone
 * deviates as those of the other side do.
 */
void ls_ratio_unpaired(const ls_ratio_test *test, const ls_ratio_side *base,
                       const ls_ratio_side *fresh, double drift, ls_ratio_result *out);
