/* SPDX-License-Identifier: MIT */
/* Case keys: what rows have in common, and what sets them apart, as text. */
#pragma once

#include "bench/statistics/statistics.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { LS_KEY_SIZE = 1024, LS_LABEL_SIZE = 300 };

/** The text at a path (any value; of a commit as below), in `out`; returns it. */
char *ls_report_text(const json_t *row, const char *path, char *out, size_t size);

enum { LS_MACHINE_SIZE = 1024 };

/** "Intel Xeon (avx512f, loops avx2, library avx2), host here, NAME=VALUE": where a row ran, and
 * variables that matter; "" where it does not say. */
char *ls_report_machine(const json_t *row, char *out, size_t size);

/** "3f90da4"; "3f90da4+changes" of a changed tree; "unknown" where the row does not say. */
char *ls_report_commit(const json_t *row, int width, char out[64]);

/** How many devices train. */
double ls_report_devices(const json_t *row);

/** The number of devices if it is the same in all rows; otherwise 0. */
double ls_report_shared_devices(const json_t *rows);

/** Whether the key stands for machines (it is a fact of them, or a label), one for each value. Only
 * then are machines compared. */
bool ls_report_machine_each(const json_t *rows, const char *against);

/** The rows for which `holds` is true: a new array. */
json_t *ls_report_those(const json_t *rows, bool (*holds)(const json_t *row, const void *context),
                        const void *context);

/** Samples per second as the row has them, with bounds if they have an interval; 0 without a time.
 */
ls_interval ls_report_rate(const json_t *row);

/** a / b, with an interval if both have one; otherwise low and high are 0. */
ls_interval ls_report_ratio(ls_interval a, ls_interval b);

/** Of repeats of a case the one with the median rate (the slower of the middle two; of micro rows,
 * by time). Borrowed. */
const json_t *ls_report_median(const json_t *rows);

/** The strategy, or a peer's program. */
const char *ls_report_strategy(const json_t *row);
/** Index of the row's strategy in the registry; the registry's size where it is not there. */
int ls_report_strategy_index(const json_t *row);
bool ls_report_is_peer(const json_t *row);
/** Whether the row's checks passed; for ls_report_those. */
bool ls_report_is_ok(const json_t *row, const void *unused);

/** The members of `case`, and the cores of a device, that differ between rows with the same
 * value at the path `at` (NULL: none): members that say how work is divided are compared between
 * rows of one strategy with equally many devices, others (optimizer, data, ..) between any rows.
 * Each with the most frequent value in the strategy's rows, or in all, or null: {strategy: {member:
 * value}}. Ignores what repeats of a case may differ in (LS_BUT_REPEATS), the member that `against`
 * names, and what follows from `reduce`. */
json_t *ls_report_differences(const json_t *rows, const char *at, const char *against);

/** "ps async staleness=2": the strategy and what differs, without general options that have their
 * most frequent value; then " on 2" if `devices`; then ", VALUE" of `against`, unless that is NULL.
 * `out` has LS_LABEL_SIZE. */
char *ls_report_label(const json_t *row, const json_t *differences, bool devices,
                      const char *against, char *out);

/** Appends the row to the list of this name in {name: [rows]}. */
void ls_report_collect(json_t *lists, const char *name, json_t *row);

/** {label: [rows]}, in the order of `rows`. A label is the text at the path `by` or, if that is
 * NULL, ls_report_label with the other arguments. */
json_t *ls_report_cases(const json_t *rows, const char *by, const json_t *differences, bool devices,
                        const char *against);

/** In what the rows of one label differ, for it says less than a case: "case.seed, case.steps", and
 * of how many rows; of a `line` besides its devices, the batch that grows with them, and `at`
 * (NULL: none). */
size_t ls_report_merged(const json_t *lists, const char *at, bool line, char *out, size_t size);

/** [{label, rows}] of {label: [rows]}, sorted by `order` (NULL: unsorted). */
json_t *ls_report_sorted(const json_t *lists, int (*order)(const json_t *a, const json_t *b));

/** How many machines these rows are of. */
size_t ls_figure_machines(const json_t *rows);

/** {key: [rows]} of rows that agree in these paths and in the machine, unless `against` (NULL:
 * nothing) stands for machines. */
json_t *ls_figure_groups(const json_t *rows, const char *const *paths, const char *against);

/** Number `index` of a point. */
double ls_figure_at(const json_t *point, size_t index);

/** "1.2 ms", "83%", "571,445": a value as people read it. */
char *ls_figure_value(double value, const char *unit, char out[48]);
