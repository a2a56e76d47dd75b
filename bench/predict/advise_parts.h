/* SPDX-License-Identifier: MIT */
/* Parts of advice: advise.c ranks, advise_breaks.c finds where the order changes. */
#pragma once

#include "bench/predict/advise.h"

enum { LS_ADVICE_PLAYS = 16 }; /**< with more devices, only the first of a ranking are played */

typedef struct ls_advising {
    ls_predictor *predictor;
    ls_workplace *workplace;
    ls_validations *validations;
    ls_platform ideal[2]; /**< no network cost; only latency */
    ls_advice *out;
    int64_t devices;
    bool quick; /**< cases are played by formulas, with medians, and few steps */
    int draws;  /**< that were asked for, when it is not */
    ls_expansion level;
} ls_advising;

/** Sets an option of a case, as the command line does. */
ls_status ls_advising_set(ls_case *one, const char *name, const char *value);

/** Predicts a case; *refused says why it cannot be. Close `predicted` if nothing fails. */
ls_status ls_advising_predict(ls_advising *advising, ls_advised *one, ls_predicted *predicted,
                              ls_status *refused);

/** Sets the advice's breaks, of a ranking that is complete. */
ls_status ls_advising_breaks(ls_advising *advising);
