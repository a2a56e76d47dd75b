/* SPDX-License-Identifier: MIT */
/* How series look, the same in all pictures of a report: colour and shape stand for the strategy,
 * filling, other marks and dashes for its variant. What is no strategy of ours is grey. And how
 * numbers stand on axes. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

/** Styles other than a strategy's, which is its index in the registry. */
enum { LS_STYLE_PEER = -1, LS_STYLE_IDEAL = -2, LS_STYLE_NEUTRAL = 1000 };

/** Where some rows were predicted, variant n is number LS_VARIANT_PAIRS + 2 n of what was measured:
 * filled marks and lines without gaps; and the next one of what was predicted: the same marks,
 * hollow, and dashes. */
enum { LS_VARIANT_PAIRS = 1000 };

typedef struct ls_look {
    const char *colour; /**< "#rrggbb" */
    int marker;         /**< gnuplot's number; 0: none */
    const char *dash;   /**< gnuplot's dash type */
} ls_look;

/** Of [style, variant], or of what has members of these names. An index behind the last strategy's
 *  is LS_STYLE_NEUTRAL. */
ls_look ls_look_of(const json_t *of);

/** Whether the style has a colour and a shape of its own; others share them. */
bool ls_look_is_own(int style);

/** What values are multiplied by to be drawn, and how that is called (", MiB"). */
double ls_scale_of(const json_t *figure, double highest, const char **name);

/** The smallest of 1, 2, 5, 10, 20 that makes ticks of this span no closer than their texts. */
double ls_scale_step(double span, double pixels);
