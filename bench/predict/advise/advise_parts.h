/* SPDX-License-Identifier: MIT */
/* Parts of advice: advise.c tries what there is, advise_rank.c
 * ranks it, advise_breaks.c finds where the order changes. */
#pragma once

#include "bench/predict/advise/advise.h"
#include "bench/progress/progress.h"

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
    ls_progress *progress; /**< NULL: nothing is shown */
    bool counts;           /**< combinations are counted, and not predicted */
    size_t at, all;        /**< pieces of work that are done, that are known */
} ls_advising;

/** The next piece of work begins: for a person who waits. */
void ls_advising_show(ls_advising *advising, const char *what, const char *options);

/** Sets an option of a case, as the command line does. */
ls_status ls_advising_set(ls_case *one, const char *name, const char *value);

/** Predicts a case; *refused says why it cannot be. Close `predicted` if nothing fails. */
ls_status ls_advising_predict(ls_advising *advising, ls_advised *one, ls_predicted *predicted,
                              ls_status *refused);

/** The regret of choices over published rows (published.c): results/published.jsonl, as
 * ci/published.sh wrote it; those that answer one question: reports/questions.json. */
ls_regret ls_published_regret(void);

/** Puts the ranking in order. */
void ls_advising_rank(ls_advice *advice);

/** Plays those that lead as `predict` does, until the `first` are played, or twelve and number 1;
 * corrects the others by what that changes. */
ls_status ls_advising_play_first(ls_advising *advising, size_t first);

/** Sets how many cannot be told apart from number 1. */
void ls_advising_ties(ls_advice *advice);

/** Sets the advice's breaks, of a ranking that is complete. */
ls_status ls_advising_breaks(ls_advising *advising);
