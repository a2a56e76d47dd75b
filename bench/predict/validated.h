/* SPDX-License-Identifier: MIT */
/*
 * Validated rows: predicted rows next to measured ones of the same case and machine. Their errors
 * are the model's, and widen the intervals of further predictions. The half width of an interval,
 * in logarithms, is the root of the sum of the squares of the draws' half width and of t e: e is
 * the root mean square of the errors of the strategy's validated rows, if there are three or more,
 * else of all, and t the 97.5% quantile of Student's distribution with as many degrees of freedom
 * as there are rows. Rows of the case itself do not count. A prediction for more devices than any
 * of the rows is extrapolated.
 *
 * With fewer than three rows of this machine, the model's part is what the program's own table says
 * (results/validated.jsonl, ci/validate.sh), of rows of several machines: the error that nine in
 * ten rows of this kind have at most. A kind is whether devices share cores, and if so whether a
 * step is busy: computes for more than a third of the time, or sends more than one message a device
 * and ms. Only measured durations have a kind.
 */
#pragma once

#include "bench/statistics/statistics.h"
#include "common/base/status.h"

#include <jansson.h>
#include <stdio.h>

/** A predicted row and what was measured: the median step, or the mean of unlike ones. */
typedef struct ls_validation {
    ls_interval predicted_ms; /**< with the interval of its draws alone */
    double measured_ms;
    json_t *row; /**< the predicted one */
} ls_validation;

typedef struct ls_validations {
    json_t *table;        /**< rows of other machines, an array */
    json_t *measured;     /**< rows that may be of the same case, an array */
    ls_validation *items; /**< [count] */
    size_t count;
} ls_validations;

/** Opens the validations in rows of a database (an array, borrowed): its predicted rows are
 * validated by its measured ones. Close it also on failure. */
ls_status ls_validations_open(const json_t *rows, ls_validations *out);
void ls_validations_close(ls_validations *validations);

/** Sets a predicted row's interval, prediction.error, .error_source and .extrapolated by the
 * validations so far; then adds the row to them, if its case was measured here: *added. */
ls_status ls_validations_take(ls_validations *validations, json_t *row, bool *added);

/** What following predictions costs, over sets of two or more choices: the time of the choice that
 * was predicted the fastest, over the time of the fastest, less 1. */
typedef struct ls_regret {
    size_t sets;
    double mean, worst;
} ls_regret;

/** Over each set of validations that differ only in strategy and its options. */
ls_regret ls_validations_regret(const ls_validations *validations);

/** Over the sets of a document (regret.sql). */
ls_regret ls_regret_of(const json_t *document);

/** Rows of other machines, which are a part of the program; owned by the caller. */
json_t *ls_validated_table(void);

/** Parses JSON lines that are a part of the program; owned by the caller. */
json_t *ls_embedded_rows(const char *lines);

/** Whether a predicted row's step is busy. */
bool ls_validated_busy(const json_t *row);

/** The error that nine in ten rows of a kind do not exceed, in logarithms, without those of the
 * machine `without` (NULL means with all); *count of them. */
double ls_validated_error(const json_t *table, bool shared, bool busy, const char *without,
                          size_t *count);

/** Prints a line for each of the validations from number `first` on, and their summary: as a table,
 * or (`json`) an object a line. Their intervals are by the errors of all others, later ones too:
 * what a further prediction would have. */
void ls_validations_print(const ls_validations *validations, size_t first, bool json, FILE *stream);
