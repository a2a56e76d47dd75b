/* SPDX-License-Identifier: MIT */
/* Calls of NCCL that may wait for ranks that never come. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

/**
 * Runs call(context) in a thread of its own and returns its status. Where it is not back after
 * `longest_ns`, *done is false and LS_OK returned: the thread goes on, and `context`, which is then
 * its, must stay.
 */
ls_status ls_nccl_bound(ls_status (*call)(void *context), void *context, uint64_t longest_ns,
                        bool *done);
