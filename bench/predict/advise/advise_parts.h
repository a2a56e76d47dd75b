/* SPDX-License-Identifier: MIT */
/* Parts of advice: advise_search.c finds what is estimated, advise.c predicts it, advise_rank.c
 * plays and ranks, advise_breaks.c finds where the order changes. */
#pragma once

#include "bench/predict/advise/advise.h"
#include "bench/progress/progress.h"

/** Seconds of processor time, without what measuring durations takes, after which no further start
 * of the search is estimated, no further combination, none is played any more, and other networks
 * and numbers of devices are left out. */
enum {
    LS_ADVICE_STARTS_S = 10,
    LS_ADVICE_SEARCH_S = 16,
    LS_ADVICE_PLAY_S = 22,
    LS_ADVICE_BREAKS_S = 25
};

typedef struct ls_advising {
    ls_predictor *predictor;
    ls_predictor asked; /**< what the user asked for: engine, level, draws */
    ls_workplace *workplace;
    ls_validations *validations;
    ls_platform ideal[2]; /**< no network cost; only latency */
    ls_advice *out;
    int64_t devices;
    bool estimates;        /**< one step, medians, if possible on `ports`; else as `predict` */
    double begun_s;        /**< processor time */
    ls_progress *progress; /**< NULL if nothing is shown */
} ls_advising;

/** The next piece of work begins: for a person who waits. */
void ls_advising_show(ls_advising *advising, const char *what, const char *options);

/** Processor time so far, in seconds, without what measuring takes. */
double ls_advising_spent(const ls_advising *advising);

/** Sets an option of a case, as the command line does. */
ls_status ls_advising_set(ls_case *one, const char *name, const char *value);

/** Predicts a case; a failure says why it cannot be. `other_ms`: the predictor's other platforms;
 * may be NULL. */
ls_status ls_advising_predict(ls_advising *advising, ls_advised *one, double *other_ms);

/** Sets whether a strategy is ranked: it computes what `single` does, or the user names it; else it
 * is refused. */
ls_status ls_advising_takes(ls_advising *advising, const ls_case *base, bool *takes);

/** Estimates a case, and adds it to the ranking or to what is refused. Sets its quick_per_s (0
 * means refused) and memory (0 if not known). LS_CODE_INTERRUPTED after an interrupt. */
ls_status ls_advising_estimate(ls_advising *advising, ls_advised *one);

/** Moves one of the ranking to what is refused, for a reason that it takes over. */
ls_status ls_advising_withdraw(ls_advising *advising, size_t number, ls_status why);

/** Estimates what there is (advise_search.c). */
ls_status ls_advising_search(ls_advising *advising);

/** Puts the ranking in order, with an interval for each. */
void ls_advising_rank(const ls_advising *advising);

/** Plays the leading cases as `predict` does, best first: the first of the ranking, the best of the
 * first other strategy, and the usual one of Megatron-LM. */
ls_status ls_advising_play_first(ls_advising *advising);

/** Sets how many are within the noise of number 1, and the best other strategy. */
void ls_advising_ties(ls_advice *advice);

/** The number of a combination in the ranking; its length: it is not there. */
size_t ls_advice_find(const ls_advice *advice, const ls_advised *one);

/** Sets the advice's breaks, of a ranking that is complete. */
ls_status ls_advising_breaks(ls_advising *advising);
