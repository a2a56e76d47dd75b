/* SPDX-License-Identifier: MIT */
/* Verdict: what a ratio of times B / A says. The only judgement of two times: `results diff`,
 * `report --against` and `regress` use it. */
#pragma once

#include "bench/statistics/statistics.h"

typedef enum ls_verdict {
    LS_VERDICT_CANNOT_TELL,
    LS_VERDICT_SAME,
    LS_VERDICT_FASTER,
    LS_VERDICT_SLOWER
} ls_verdict;

/** "cannot tell", "same", "faster", "slower": of B */
const char *ls_verdict_name(ls_verdict verdict);

/** Bounds of the logarithm of the ratio. */
typedef struct ls_bounds {
    double low, high;
} ls_bounds;

/** Slower or faster if the bounds `differs` are beyond `margin`; and equal if the bounds `alike`
 * are closer than `near`. */
ls_verdict ls_verdict_of(ls_bounds differs, double margin, ls_bounds alike, double near);

/** Judges a ratio of two rows with its 95% interval: slower or faster if 1 is outside of it, equal
 * if it is within 5% of 1. Without an interval (low is 0) it cannot be told. */
ls_verdict ls_verdict_of_pair(ls_interval ratio);
