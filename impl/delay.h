/* SPDX-License-Identifier: MIT */
/* Delay: a straggler on purpose. */
#ifndef LS_IMPL_DELAY_H
#define LS_IMPL_DELAY_H

#include "common/device/device.h"

/** An operation that takes so long, asleep, and does nothing. */
ls_status ls_delay_open(uint64_t ns, ls_op **out);

#endif
