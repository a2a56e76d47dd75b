/* SPDX-License-Identifier: MIT */
/*
 * Advice: the strategies that compute what `single` computes, with the options that change their
 * speed, predicted and ranked. Options that the user gave are kept. Up to 16 devices all are
 * played as `predict` plays them; of more, those that lead a ranking by formulas and medians, until
 * the first few have all been played. The rates of the others are multiplied by what playing has
 * changed on average, and their intervals have the largest difference from that.
 */
#pragma once

#include "bench/predict/predict.h"
#include "bench/predict/validated.h"

/** A strategy with its options. */
typedef struct ls_advised {
    ls_case config;
    char options[160];    /**< that were chosen, as a command line has them */
    json_t *facts;        /**< group `case` */
    double samples_per_s; /**< 0: it was refused */
    double quick_per_s;   /**< by formulas, of many devices */
    double ci95[2];       /**< of it */
    double step_ms;
    size_t memory;        /**< bytes of the fullest device */
    const char *bound_by; /**< "compute", "bandwidth", "latency"; "network": of a platform file */
    char reason[400];     /**< why it was refused */
    bool played;          /**< not only ranked by formulas */
    ls_code code;         /**< of the reason */
} ls_advised;

/** Where the order changes: the nearest place, along one property. */
typedef struct ls_break_even {
    const char *axis; /**< "bandwidth" (bytes a second), "latency" (ns): of the network, between
                           hosts if there are several; "devices": of those that were tried;
                           "memory": bytes of a device */
    double value;     /**< where another one leads; NaN: nowhere in the range */
    double low, high; /**< the range that was tried; of memory that of the ranking */
    bool below;       /**< it leads below the value, or with fewer devices */
    size_t with;      /**< number of that other one in the ranking; its length: none fits */
} ls_break_even;

typedef struct ls_advice {
    ls_advised *ranking; /**< [count] best first */
    size_t count;
    int devices;
    ls_advised *refused; /**< [refused_count] */
    size_t refused_count;
    double alone_per_s;    /**< of `single` on one such device; 0: not known */
    size_t tied;           /**< of the ranking, the first so many cannot be told apart */
    ls_break_even *breaks; /**< [break_count] of the first and the best other strategy; of memory
                                one for each that leads with less, down to where none fits */
    size_t break_count;
    size_t second;    /**< number in the ranking of that best other strategy; 0: there is none */
    size_t tried;     /**< combinations of strategy and options */
    size_t over;      /**< of them, those that need more than the memory limit */
    ls_advised least; /**< of those the one that needs least; no facts */
    ls_regret here, published; /**< of such choices on measured rows, on published ones */
} ls_advice;

/** Of the workplace's cases, of which each has another strategy. Close it also on failure. */
ls_status ls_advise(ls_predictor *predictor, ls_workplace *workplace, ls_validations *validations,
                    ls_advice *out);

/** Why nothing is ranked, and what would work: LS_CODE_MISSING for too little memory, or what is
 * missing here, else LS_CODE_USAGE. LS_OK for a ranking that is not empty. */
ls_status ls_advice_check(const ls_advice *advice, const ls_predictor *predictor);
void ls_advice_close(ls_advice *advice);
