/* SPDX-License-Identifier: MIT */
/*
 * Gate: the check that a case computes what it should, in a pass of its own before anything is
 * timed. Candidate and judges start from the same values on devices of their own; after each step
 * losses and parameters are compared bit by bit.
 *
 * - exact: with `single --reduce exact`: the same bits.
 *
 * - fast: with an oracle, which replays the strategy's sums in sequence (bench/gate/oracle.h): the
 *   same bits. The drift of the parameters from `single` is reported and judges nothing.
 *
 * - sums by a library: each step's reduced gradient with the float64 sum of the slices' gradients
 *   from the same parameters, within a bound; the update by it has the bits of `single`'s.
 *
 * - single: with a second, fresh run of itself, the same bits: a run is repeatable.
 *
 * - servers that serve whoever comes first: with nothing, for timing decides which bits a run has;
 *   what must hold whoever does is checked (gate_arrival.c).
 *
 * Where each replica has parameters of its own, all have the same bits after each step, too.
 * So that judge and candidate cannot be wrong together, the first step's gradient and loss are
 * compared with those of `single` on the whole batch in one piece, within bounds (not where parts
 * of the batch are normalised by statistics of their own: the oracle alone judges). What candidate
 * and judge then make of 256 samples of the test set must have the same bits (gate_sides.h). Then
 * the same steps are made again, put at once, and must end in the same bits: that finds what is
 * only right while the host waits after each step. A library's sums need not repeat: there a few
 * steps at a time are put at once, and the last one's gradient is compared with the slices' sum,
 * within the bound of the first step's. Then what a step sent must be what the formula says; where
 * the case has epochs, and these a last, smaller batch that the steps did not come to, that one is
 * compared, too, by itself. Last, the kernels that candidate and judges share are compared with
 * plain C (gate_kernels.h), also where nothing else is.
 *
 * Of several ranks each runs its part of the candidate; rank 0 judges, and all get its verdict.
 */
#ifndef LS_BENCH_GATE_GATE_H
#define LS_BENCH_GATE_GATE_H

#include "bench/gate/verdict.h"

/** A failed comparison is no failure of this function: see `pass`. */
ls_status ls_gate_run(ls_workplace *place, const ls_plan_of_case *plan, ls_gate *out);

#endif
