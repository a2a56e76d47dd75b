/* SPDX-License-Identifier: MIT */
/* Calls of NCCL that may wait for ranks that never come. */
#pragma once

#include "common/base/status.h"

#include <stdint.h>

/**
 * Runs call(context) in a separate thread and returns its status. If it does not return within
 * `longest_ns`, *done is false and LS_OK returned: the thread continues, and owns `context`, which
 * must stay valid.
 */
ls_status ls_nccl_bound(ls_status (*call)(void *context), void *context, uint64_t longest_ns,
                        bool *done);
