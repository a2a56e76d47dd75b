/* SPDX-License-Identifier: MIT */
/*
 * Change of members of an elastic case (bench/case/elastic.h): between two steps, the state goes
 * from the layout of a phase to that of the next one, as from a checkpoint that never touches the
 * disk. It is read from its owners by ranges (impl/state.h), the devices are closed, the next
 * members' devices are opened, and the state is loaded; step, position in the data and learning
 * rate go on. A step in which a rank dies is run and dropped: the state before it stays.
 */
#pragma once

#include "bench/case/elastic.h"
#include "bench/train/session.h"

/** What changes of members have done so far. */
typedef struct ls_changes {
    size_t begin, end;                       /**< the events that have happened (ls_elastic) */
    uint64_t moved_bytes[LS_ELASTIC_EVENTS]; /**< of each, counted */
    int members[LS_ELASTIC_EVENTS];          /**< after each */
    uint64_t paused_ns;                      /**< training stood for so long */
    uint64_t void_steps;                     /**< steps that were dropped */
} ls_changes;

/** Whether the members change before the session's next step. */
bool ls_change_is_due(const ls_session *session);

/** `count` steps, or fewer if the members change before. */
uint64_t ls_change_until(const ls_session *session, uint64_t count);

/** Makes all changes that are due before the next step. `changes` may be NULL. LS_CODE_CHECK if
 * other bytes moved than the formula says. After a failure the session may be closed. */
ls_status ls_change_members(const ls_workplace *workplace, ls_session *session,
                            ls_changes *changes);

/** Goes back to the case's first members and to its first step, with the initial values. */
ls_status ls_change_back(const ls_workplace *workplace, ls_session *session);
