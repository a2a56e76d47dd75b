/* SPDX-License-Identifier: MIT */
/* The state of a session; what is done with it: session.h. */
#pragma once

#include "bench/case/case_plan.h"
#include "common/device/link.h"
#include "common/device/watch.h"

/** A strategy at work on opened devices. */
typedef struct ls_session {
    const ls_plan_of_case *plan;
    ls_job job;
    ls_job *lent;        /**< copy of `job` for `run`; not freed if a device is lost */
    bool *left;          /**< ls_workplace.left */
    ls_device **devices; /**< [device_count] */
    size_t device_count;
    ls_network *network; /**< between the devices; NULL: no links */
    ls_watch *watch;     /**< of the devices; NULL: none (bench/train/session_watch.c) */
    ls_run *run;
    uint64_t step;                       /**< steps done */
    uint64_t latest_first, latest_count; /**< the latest steps (ls_session_announce) */
    uint64_t setup_ns;                   /**< time that opening took */
    bool moved;                          /**< before it was last opened again (ls_session_moved) */
} ls_session;
