/* SPDX-License-Identifier: MIT */
/* How numbers of a figure stand on its axes. */
#pragma once

#include <jansson.h>

/** The factor for drawn values, and the name of the unit that it gives (", MiB"). */
double ls_scale_of(const json_t *figure, double highest, const char **name);

/** The smallest of 1, 2, 5, 10, 20 at which the ticks' texts do not touch, over this span. */
double ls_scale_step(double span, double pixels);
