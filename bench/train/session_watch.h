/* SPDX-License-Identifier: MIT */
/* Puts a session's devices under a watch (common/device/watch.h): --timeout for ranks that are
 * devices of one process, and for GPUs. */
#pragma once

#include "bench/train/session_state.h"

/** Starts it, where there are several devices or a GPU; before the strategy is opened. */
ls_status ls_session_watch(ls_session *session);

/** After a device was lost, says on stderr, a line each, which hangs, and what the others waited
 * for. */
void ls_session_autopsy(const ls_session *session);

/** Makes a rank's devices hang (--inject hang); one device where the case has one rank. */
ls_status ls_session_hang(const ls_session *session, int rank);
