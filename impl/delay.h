/* SPDX-License-Identifier: MIT */
/* Delay: a straggler on purpose. */
#pragma once

#include "common/device/device.h"

/** An operation that sleeps for `ns` nanoseconds. */
ls_status ls_delay_open(uint64_t ns, ls_op **out);
