/* SPDX-License-Identifier: MIT */
/* How pictures tell series apart, the same in all of a report: colour and shape are the strategy's,
 * filling, other marks and dashes its variant's. What is no strategy of ours is grey. */
#pragma once

/** Places in the palette other than a strategy's in its registry. */
enum { LS_STYLE_PEER = -1, LS_STYLE_IDEAL = -2, LS_STYLE_NEUTRAL = 1000 };

typedef struct ls_look {
    const char *colour; /**< "#rrggbb" */
    int marker;         /**< gnuplot's number; 0: none */
    const char *dash;   /**< gnuplot's dash type */
} ls_look;

/** A place behind the last strategy's is LS_STYLE_NEUTRAL. */
ls_look ls_look_of(long long style, long long variant);
