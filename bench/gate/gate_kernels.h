/* SPDX-License-Identifier: MIT */
/*
 * Gate of kernels: candidate and judges use the same fast kernels, so what these have wrong only
 * the definition shows, the table `reference` in plain C. Both compute the gradients of some
 * samples of the first batch, by the first parameters: the fast kernels of as many rows as they
 * have in the case, the samples again and again; plain C of these samples alone, on a CPU device.
 * The mean is the same. Moving statistics of batch normalisation, which know how many rows there
 * were, are left out. Known once a command for a model, its data and batch, and a kind of device.
 */
#pragma once

#include "bench/gate/verdict.h"

/** Rank 0 compares; all ranks call it, after their candidate is closed. */
ls_status ls_gate_kernels(ls_workplace *place, const ls_plan_of_case *plan, ls_gate *gate);

/** Frees what is known. */
void ls_gate_kernels_close(ls_workplace *place);
