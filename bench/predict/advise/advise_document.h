/* SPDX-License-Identifier: MIT */
/* An advice as a JSON document, and as text of lines of at most 80 columns except the command that
 * checks it. */
#pragma once

#include "bench/case/case.h"
#include "bench/predict/advise/advise.h"

#include <stdio.h>

/** What an answer says besides the ranking. */
typedef struct ls_advice_words {
    const char *guess;   /**< of --durations, if they are a rate of FLOPs; else NULL */
    const char *noise;   /**< of durations: ls_durations_words, or "" */
    const char *line;    /**< runs the first of the ranking; NULL if nothing can */
    const char *differs; /**< where that line differs from what was asked; "" means nowhere */
    bool profile;        /**< the model is only sizes and times */
    int cores;           /**< of this machine */
} ls_advice_words;

/** The first ten of a ranking in which nothing was played yet (ls_advice_show). */
void ls_advice_print_estimates(const ls_advice *advice, bool profile, FILE *out);

/** Writes it in the request's format: table, json or jsonl. */
ls_status ls_advice_write(const ls_request *request, const ls_advice *advice, size_t memory_limit,
                          const ls_advice_words *words, FILE *out);
