/* SPDX-License-Identifier: MIT */
/* How series look, the same in all pictures of a report: colour and shape stand for the strategy,
 * filling, other marks and dashes for its variant. What is no strategy of ours is grey. */
#pragma once

/** Styles other than a strategy's, which is its index in the registry. */
enum { LS_STYLE_PEER = -1, LS_STYLE_IDEAL = -2, LS_STYLE_NEUTRAL = 1000 };

typedef struct ls_look {
    const char *colour; /**< "#rrggbb" */
    int marker;         /**< gnuplot's number; 0: none */
    const char *dash;   /**< gnuplot's dash type */
} ls_look;

/** The look of a style; one behind the last strategy is LS_STYLE_NEUTRAL. */
ls_look ls_look_of(long long style, long long variant);
