/* SPDX-License-Identifier: MIT */
/* Cases of measured rows, to be predicted: what options would have given them. */
#pragma once

#include "bench/case/case.h"

#include <jansson.h>

/** The network that a case was measured on: "flat:latency=..", as --link was; "" means one device.
 */
typedef struct ls_measured_network {
    char platform[80];
} ls_measured_network;

typedef struct ls_measured_cases {
    ls_case *cases;                /**< [count] each once */
    ls_measured_network *networks; /**< [count] */
    size_t count;
    size_t others; /**< rows that cannot be predicted: several ranks, or devices without --link */
    struct ls_option_set *texts; /**< owns texts that configs borrow */
} ls_measured_cases;

/** The cases of the measured rows (an array) from number `first` on, of this computer; `base` has
 * the values that rows do not say. Close it also on failure. */
ls_status ls_measured_cases_open(const json_t *rows, size_t first, const ls_case *base,
                                 ls_measured_cases *out);
void ls_measured_cases_close(ls_measured_cases *cases);
