/* SPDX-License-Identifier: MIT */
/* A session's devices under a watch (common/device/watch.h): --timeout where ranks are devices of
 * one process, and of GPUs. */
#pragma once

#include "bench/train/session_state.h"

/** Watches the session's devices where they are such, or a GPU is among them; before its strategy
 * is opened. */
ls_status ls_session_watch(ls_session *session);

/** Of a session that has lost a device, a line each on stderr: which hangs, and what the others
 *  waited for. */
void ls_session_autopsy(const ls_session *session);

/** A rank's devices hang from here on (--inject hang); one device where the case has one rank. */
ls_status ls_session_hang(const ls_session *session, int rank);
