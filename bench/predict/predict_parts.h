/* SPDX-License-Identifier: MIT */
/* Parts of a prediction: predict.c builds a case, predict_play.c plays it. */
#pragma once

#include "bench/predict/predict.h"
#include "impl/step/run/run.h"

/** What a case's durations are taken from. */
const ls_durations *ls_predictor_durations(const ls_predictor *predictor,
                                           const ls_plan_of_case *plan);

/** A case on virtual devices. */
typedef struct ls_virtual_run {
    const ls_strategy *strategy;
    ls_job job;
    ls_device *like;     /**< a real device, for kernels */
    ls_device **devices; /**< [count] with the variables' device */
    size_t count;
    ls_allreduce described;        /**< the job's */
    const ls_allreduce *algorithm; /**< that it stands for; NULL if NCCL's */
    ls_run *run;
} ls_virtual_run;

/** Writes a play's steps from `first` on, as Chrome's JSON: a thread for each lane; and the counted
 * steps' waterfall. The graph has labels; of `play` the factors count. LS_CODE_MISSING where the
 * file cannot be written. */
ls_status ls_virtual_trace_write(const char *path, const ls_play *play, const ls_step_run *run,
                                 const double *end_ns, uint32_t first);

/** Write a play's graph, which has labels, and whose messages are by themselves, for other
 * simulators: in GOAL; as Chakra traces, a file of the folder for each device. LS_CODE_MISSING
 * where a file cannot be written. */
ls_status ls_goal_write(const char *path, const ls_play *play);
ls_status ls_chakra_write(const char *folder, const ls_play *play);

/** Sets the times and the traffic of a prediction. */
ls_status ls_predictor_play(const ls_predictor *predictor, const ls_plan_of_case *plan,
                            const ls_virtual_run *run, ls_predicted *out);
