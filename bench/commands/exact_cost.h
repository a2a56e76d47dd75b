/* SPDX-License-Identifier: MIT */
/* What exact mode costs. */
#pragma once

#include "bench/train/session_state.h"

/** The session's median step over that of the same case in fast mode, from five alternating blocks
 * each, of at most `at_once` steps. Trains the session further, so it is called last. */
ls_status ls_exact_cost(ls_workplace *workplace, ls_session *session, uint64_t at_once,
                        double *out);
