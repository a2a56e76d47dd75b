/* SPDX-License-Identifier: MIT */
/* How numbers of a figure stand on its axes. */
#pragma once

#include <jansson.h>

/** What values are multiplied by to be drawn, and how that is called (", MiB"). */
double ls_scale_of(const json_t *figure, double highest, const char **name);

/** The smallest of 1, 2, 5, 10, 20 that makes ticks of this span no closer than their texts. */
double ls_scale_step(double span, double pixels);
