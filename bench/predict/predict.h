/* SPDX-License-Identifier: MIT */
/* Prediction of a case: its strategy's own step, built on virtual devices, played in virtual time.
 */
#pragma once

#include "bench/case/workplace.h"
#include "bench/predict/durations.h"
#include "bench/play/engine.h"
#include "bench/predict/expand.h"

#include <jansson.h>

/** Data that a run of a case is proposed with. */
#define LS_PROPOSED_DATA "synthetic:4096"

/** How cases are played: the request's options, read. */
typedef struct ls_predictor {
    const ls_prediction_request *request;
    ls_platform platform;
    int devices_per_host;
    ls_expansion level;
    int draws;                 /**< 0 means as many as fit the number of devices */
    const ls_platform *others; /**< [other_count] platforms that are played, too; borrowed */
    size_t other_count;
    ls_engine engine;
    size_t memory_limit; /**< SIZE_MAX if none */
    int slow_device;     /**< -1 if none */
    double slow_factor;
    ls_durations durations; /**< what is known so far */
    bool measures;          /**< what is not known is measured */
    int probed;             /**< the platform is known to have so many devices */
    ls_wires wires;         /**< of a platform file, with `wired` devices */
    int wired;              /**< see wires; 0 if not known */
    double measuring_s;     /**< processor time of this process that measuring has taken */
} ls_predictor;

/** Reads the options; refuses what is wrong with them. Close it also on failure. */
ls_status ls_predictor_open(const ls_prediction_request *request, ls_predictor *out);
void ls_predictor_close(ls_predictor *predictor);

/** Changes the network: the text of a platform (NULL means one device), borrowed. Durations that
 * were measured with another number of devices at work are forgotten. */
ls_status ls_predictor_set_network(ls_predictor *predictor, const char *platform,
                                   int devices_per_host);

/** Resolves a case in the form that is played: the platform is its link, and the data are
 * synthetic, since only their shape counts; steps are whole periods. `played` must live as long as
 * the plan. LS_CODE_USAGE for what cannot be predicted, or does not fit the platform. */
ls_status ls_predictor_plan(ls_predictor *predictor, ls_workplace *workplace, const ls_case *given,
                            ls_case *played, ls_plan_of_case *out);

/** The virtual devices of a case, with the variables' device. */
size_t ls_predictor_devices(const ls_plan_of_case *plan);

/** What a case would take. */
typedef struct ls_predicted {
    double *step_ms; /**< [draws, steps] counted steps */
    size_t draws, steps;
    double all_ms;             /**< counted steps of all draws */
    double busy_ms;            /**< delays of all devices in them */
    double *uses_ns;           /**< [devices, LS_TIME_USES] of a pipeline, the same by use */
    size_t activities;         /**< delays and messages of all steps of a draw */
    ls_traffic sent, formula;  /**< of a step */
    ls_memory_ledger *ledgers; /**< [devices] */
    ls_memory_formula *memory; /**< [devices] */
    size_t devices;
    size_t most_memory; /**< bytes of the fullest device */
    double *other_ms;   /**< [other_count] the step on other platforms, as the row's pace */
    double wall_s;
    ls_status unsaved; /**< why a file of it could not be written; else NULL */
} ls_predicted;

/** Predicts a resolved case. A device that needs more than the memory limit: LS_CODE_MISSING, and
 * `out` has the memory, but no times. Close it also on failure. */
ls_status ls_predict(ls_predictor *predictor, const ls_machine *machine,
                     const ls_plan_of_case *plan, ls_predicted *out);
/** Measures the durations of a case, and plays nothing. */
ls_status ls_predictor_calibrate(ls_predictor *predictor, const ls_machine *machine,
                                 const ls_plan_of_case *plan);

void ls_predicted_close(ls_predicted *predicted);

/** The row of a case, owned by the caller; of a `plan` whose case names the data that the user
 * gave. `error`: why there are no times, or NULL. */
ls_status ls_predicted_row(const ls_predictor *predictor, const ls_workplace *workplace,
                           const ls_plan_of_case *plan, const ls_predicted *predicted,
                           const char *error, json_t **out);
