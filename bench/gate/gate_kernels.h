/* SPDX-License-Identifier: MIT */
/*
 * Gate of kernels. Candidate and judges use the same fast kernels, so a mistake in these only shows
 * beside the definition, the table `reference` in plain C. Both compute the mean gradient of some
 * samples of the first batch with the initial parameters. The fast kernels get as many rows as in
 * the case, the samples repeated; plain C gets each sample once, on a CPU device. Moving statistics
 * of batch normalisation depend on the number of rows, and are left out. Done once per command for
 * each model, its data, batch and kind of device.
 */
#pragma once

#include "bench/gate/verdict.h"

/** Rank 0 compares; all ranks call it, after their candidate is closed. */
ls_status ls_gate_kernels(ls_workplace *place, const ls_plan_of_case *plan, ls_gate *gate);

/** Frees the results that are kept. */
void ls_gate_kernels_close(ls_workplace *place);
