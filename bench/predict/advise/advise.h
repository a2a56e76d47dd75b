/* SPDX-License-Identifier: MIT */
/*
 * Advice: strategies with the options that change their speed or memory, ranked. Options that the
 * user gave are kept. Combinations are searched (advise_search.c) by estimates: one step with
 * median durations, on the engine `ports`, which knows the ports that messages share. Then the
 * leading cases are played as `predict` plays them. An estimate's interval is as wide as estimates
 * have been wrong (advise_rank.c). Searching and playing end after some seconds of processor time,
 * and at an interrupt; what is known by then is ranked.
 */
#pragma once

#include "bench/predict/predict.h"
#include "bench/predict/validated.h"

#include <stdio.h>

enum { LS_ADVISED_OPTIONS = 240 };

/** Where a step's time goes: the mean of all devices, as shares of 1. */
typedef struct ls_advised_shares {
    double compute;
    double network; /**< share of the step that a network without cost would save */
    double idle;    /**< the rest: devices wait for each other */
} ls_advised_shares;

/** A strategy with its options. */
typedef struct ls_advised {
    ls_case config;
    char options[LS_ADVISED_OPTIONS]; /**< that were chosen, as a command line has them */
    json_t *facts;                    /**< group `case` */
    double samples_per_s;             /**< 0 if it was refused */
    double quick_per_s;               /**< as estimated */
    double ci95[2];                   /**< of samples_per_s */
    double step_ms;
    size_t memory;        /**< bytes of the fullest device */
    size_t activities;    /**< of a step */
    const char *bound_by; /**< "compute", "bandwidth", "latency"; "network": of a platform file */
    ls_advised_shares shares;
    char reason[400]; /**< why it was refused */
    bool played;      /**< as `predict` does; false if estimated */
    ls_code code;     /**< of the reason */
} ls_advised;

/** Where the order changes: the nearest place, along one property. */
typedef struct ls_break_even {
    const char *axis; /**< "bandwidth" (bytes/s), "latency" (ns): between hosts, if several;
                           "devices"; "memory" (bytes) */
    double value;     /**< where another one leads; NaN if nowhere in the range */
    double low, high; /**< the range that was tried; for memory the ranking's */
    bool below;       /**< it leads below the value, or with fewer devices */
    size_t with;      /**< number of that other one in the ranking; its length: none fits */
} ls_break_even;

typedef struct ls_advice {
    ls_advised *ranking; /**< [count] best first */
    size_t count;
    int devices;
    int devices_per_host;
    ls_advised *refused; /**< [refused_count] */
    size_t refused_count;
    double alone_per_s;    /**< of `single` on one such device; 0 if not known */
    size_t tied;           /**< of the ranking, the first so many are within the noise */
    ls_break_even *breaks; /**< [break_count]: where another case comes to lead, by axis */
    size_t break_count;
    size_t second;    /**< place of the best other strategy in the ranking; 0 if none */
    size_t tried;     /**< combinations of strategy and options that were estimated */
    size_t over;      /**< how many of them need more than the memory limit */
    ls_advised least; /**< the one of them that needs least; without facts */
    ls_advised usual; /**< Megatron-LM users' first choice; no config.strategy if there is none */
    int64_t batch;    /**< of a step, or with weak scaling of a replica */
    bool cut;         /**< the time for the search was over before its end */
    bool interrupted; /**< by a signal */
    ls_regret measured, published; /**< of such choices on measured rows, on published ones */
} ls_advice;

/** Advises on the workplace's cases, which have different strategies. Where progress is shown,
 * prints the estimates before anything is played. An interrupt ends it early, and does not count as
 * a failure. Close it also on failure. */
ls_status ls_advise(ls_predictor *predictor, ls_workplace *workplace, ls_validations *validations,
                    ls_advice *out);

/** Why nothing is ranked, and what would work: LS_CODE_MISSING for too little memory, or what is
 * missing here, LS_CODE_INTERRUPTED after an interrupt, else LS_CODE_USAGE. LS_OK for a ranking
 * that is not empty. */
ls_status ls_advice_check(const ls_advice *advice, const ls_predictor *predictor);
void ls_advice_close(ls_advice *advice);

/* ---- As a JSON document, and as text (advise_document.c) ------------------------------------- */
/* The text's lines have at most 80 columns, except the command that checks it. */

/** What an answer says besides the ranking. */
typedef struct ls_advice_words {
    const char *guess;   /**< of --durations, if they are a rate of FLOPs; else NULL */
    const char *noise;   /**< of durations: ls_durations_words, or "" */
    const char *line;    /**< runs the first of the ranking; NULL if nothing can */
    const char *differs; /**< where that line differs from what was asked; "" means nowhere */
    bool profile;        /**< the model is only sizes and times */
    int cores;           /**< of this machine */
} ls_advice_words;

/** The first ten of a ranking in which nothing was played yet. `profile`: the model is one. */
void ls_advice_print_estimates(const ls_advice *advice, bool profile, FILE *out);

/** Writes it in the request's format: table, json or jsonl. */
ls_status ls_advice_write(const ls_request *request, const ls_advice *advice, size_t memory_limit,
                          const ls_advice_words *words, FILE *out);
