/* SPDX-License-Identifier: MIT */
/* Opens what the cases of a command share, and resolves cases. */
#pragma once

#include "bench/case/case_plan.h"

#include <jansson.h>

/** How the command divides the machine into devices. */
ls_machine_options ls_request_machine(const ls_request *request);

ls_status ls_workplace_open(const ls_request *request, ls_workplace *out);
void ls_workplace_close(ls_workplace *workplace);

/** Begins, or ends, work without progress of any queue that may take long: writing a file, timing
 * one large product. Meanwhile other processes wait longer, by some timeouts at most. */
void ls_workplace_busy(ls_workplace *workplace, bool begins);

/** Resolves a case. Every refusal before training is made here. job.ranks.comm is set if all
 * processes of the command run the case together; otherwise only rank 0 runs it. */
ls_status ls_plan_open(ls_workplace *workplace, const ls_case *config, ls_plan_of_case *out);
void ls_plan_close(ls_plan_of_case *plan);

/* ---- Elastic replicas (elastic.c) ------------------------------------------------------------ */

/** Opens the phases of a resolved plan, from its first step on; none if it is not elastic. */
ls_status ls_plan_open_phases(ls_workplace *workplace, ls_plan_of_case *plan);
void ls_plan_close_phases(ls_plan_of_case *plan);

/** Resolves the plan of a phase (elastic.h), whose `config`, `whole` and devices are set. */
ls_status ls_plan_resolve(ls_workplace *workplace, ls_plan_of_case *plan);

/** Sets plan.initial: drawn by the seed, or read from --load (first_values.c) or a checkpoint,
 * whose files are checked. Cases of one model share them; the workplace owns them. The plan must
 * not move. Processes that run the case together call it together. */
ls_status ls_plan_draw(ls_workplace *workplace, ls_plan_of_case *plan);

/** The values that a seed draws, of the model's elements. Borrows `drawn`. */
ls_state_source ls_drawn_source(const ls_drawn_values *drawn);

/** Copies all of plan.initial's parameters to `out`, [elements]. */
ls_status ls_plan_initial(const ls_plan_of_case *plan, float *out);

/* ---- Checkpoints (plan_checkpoint.c) --------------------------------------------------------- */

/** Whether the command goes on from a checkpoint, which there is. */
bool ls_plan_is_resumed(const ls_workplace *workplace);

/** What a run that goes on from a checkpoint must have in common with the plan, and what else a
 * manifest says of it. Owned by the caller. */
json_t *ls_plan_agreed(const ls_plan_of_case *plan);
json_t *ls_plan_written(const ls_plan_of_case *plan);

/** If the request goes on from a checkpoint, refuses one of another run, and sets job.start and how
 * many steps are left. Refuses strategies without checkpoints. */
ls_status ls_plan_resume(ls_workplace *workplace, ls_plan_of_case *plan);

/** Opens and checks the checkpoint's files. plan.initial and job.resumed then read from them; the
 * workplace owns them. Processes that run the case together call it together. */
ls_status ls_plan_read_state(ls_workplace *workplace, ls_plan_of_case *plan);

/** Opens and checks a checkpoint's folder, --load, for its parameters alone: `source` reads from it
 * as long as `out` is open. `hash` is its manifest's. */
ls_status ls_plan_open_parameters(const ls_workplace *workplace, const ls_plan_of_case *plan,
                                  struct ls_resumed **out, ls_state_source *source, uint64_t *hash);

/** Takes NULL. */
void ls_resumed_close(struct ls_resumed *resumed);

/** Frees all that ls_plan_draw made. */
void ls_first_values_close(ls_workplace *workplace);

/** Logs which device computes each node of the model, and where its variables are, if requested. */
void ls_plan_log(const ls_workplace *workplace, const ls_plan_of_case *plan);
