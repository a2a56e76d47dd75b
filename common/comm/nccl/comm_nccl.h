/* SPDX-License-Identifier: MIT */
/* Opens the NCCL back end with functions that are loaded already, or that are a test's own. */
#pragma once

#include "common/comm/comm_parts.h"
#include "common/comm/nccl/nccl_library.h"

/**
 * See ls_comm_open; takes ownership of `nccl`, even on failure. `own_status` is this process's
 * failure so far, if any: the others of `processes` are notified, and all fail together.
 */
ls_status ls_comm_nccl_open(ls_nccl *nccl, ls_status own_status, ls_comm *processes,
                            ls_device *const *devices, int count, ls_comm **comms);
