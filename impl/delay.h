/* SPDX-License-Identifier: MIT */
/* Delay: makes a replica slow, to measure what a straggler costs. */
#pragma once

#include "common/device/device.h"

/** An operation that sleeps for `ns` nanoseconds. */
ls_status ls_delay_open(uint64_t ns, ls_op **out);
