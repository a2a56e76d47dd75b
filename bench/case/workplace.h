/* SPDX-License-Identifier: MIT */
/* Opens what the cases of a command share, and resolves cases. */
#pragma once

#include "bench/case/case_plan.h"

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

/** Sets plan.initial: drawn by the seed, or read from --load (first_values.c). Cases of one model
 * and seed share the values, which the workplace owns. Until this call a plan allocates nothing of
 * its model's size. */
ls_status ls_plan_draw(ls_workplace *workplace, ls_plan_of_case *plan);

/** Frees all that ls_plan_draw made. */
void ls_first_values_close(ls_workplace *workplace);

/** Logs which device computes each node of the model, and where its variables are, if requested. */
void ls_plan_log(const ls_workplace *workplace, const ls_plan_of_case *plan);
