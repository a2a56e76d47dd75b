/* SPDX-License-Identifier: MIT */
/*
 * Gate: the check that a case computes what it should, in a pass of its own before anything is
 * timed. Candidate and judges start from the same values on devices of their own; after each step
 * losses and parameters are compared. compared.md has the rules.
 */
#pragma once

#include "bench/gate/verdict.h"

/** A failed comparison is no failure of this function: look at out->pass. */
ls_status ls_gate_run(ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out);
