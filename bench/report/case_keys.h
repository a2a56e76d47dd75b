/* SPDX-License-Identifier: MIT */
/* Case keys: what rows have in common, and what sets them apart, as text. */
#pragma once

#include "bench/statistics/statistics.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { LS_KEY_SIZE = 1024, LS_LABEL_SIZE = 300 };

/** The number at a path; `fallback` where there is none. */
double ls_report_number(const json_t *row, const char *path, double fallback);
/** The text at a path (any value; of a commit as below), in `out`; returns it. */
char *ls_report_text(const json_t *row, const char *path, char *out, size_t size);

/** "Intel Xeon (avx512f), host": where a row ran; "" where it does not say. */
char *ls_report_machine(const json_t *row, char *out, size_t size);

/** "3f90da4"; "3f90da4+changes" of a changed tree; "unknown" where the row does not say. */
char *ls_report_commit(const json_t *row, int width, char out[64]);

/** How many devices train. */
double ls_report_devices(const json_t *row);

/** The number of devices that all rows have; 0 where they differ. */
double ls_report_shared_devices(const json_t *rows);

/** The rows for which `holds` is true: a new array. */
json_t *ls_report_those(const json_t *rows, bool (*holds)(const json_t *row, const void *context),
                        const void *context);

/** Samples per second, and, where the row has an interval, its bounds; 0 without a time. */
ls_interval ls_report_rate(const json_t *row);

/** The rate of one device, for ideal scaling: from rows with a speed-up, else that of the fastest
 * row on one device. */
double ls_report_rate_alone(const json_t *rows);

/** a over b, with an interval where both have one: low and high are 0 otherwise. */
ls_interval ls_report_ratio(ls_interval a, ls_interval b);

/** Of repeats of a case, the row that stands for it: that of the median rate (the slower of the
 * middle two; of micro rows, by time), with the range of all as its interval, or of a single row
 * its own. Borrowed; `rate` may be NULL. */
const json_t *ls_report_median(const json_t *rows, ls_interval *rate);

/** The strategy, or a peer's program. */
const char *ls_report_strategy(const json_t *row);
/** Index of the row's strategy in the registry; the registry's size where it is not there. */
int ls_report_place(const json_t *row);
bool ls_report_is_peer(const json_t *row);
/** Whether the row is ours, and its strategy is meant to compute what one device computes. */
bool ls_report_is_candidate(const json_t *row);
/** Its checks passed; for ls_report_those. */
bool ls_report_is_ok(const json_t *row, const void *unused);

/** The members of `case` in which rows of one strategy differ that are on as many devices, and have
 *  the same at the path `at` (NULL: at none), each with what most of the strategy's rows have, or
 *  null: {strategy: {member: value}}. What only says how long and how often it was trained is no
 *  difference, nor is the member that `against` names, nor what follows from `reduce`. */
json_t *ls_report_differences(const json_t *rows, const char *at, const char *against);

/** "ps async staleness=2": the strategy with what differs, but for general options that are as in
 *  most rows, or all of these (`own_only`). `out` has LS_LABEL_SIZE. */
char *ls_report_variant(const json_t *row, const json_t *differences, bool own_only, char *out);

/** The same; then " on 2", where `devices`; then ", VALUE" of `against`, unless that is NULL. */
char *ls_report_label(const json_t *row, const json_t *differences, bool devices,
                      const char *against, char *out);

/** Appends the row to the list of this name in {name: [rows]}. */
void ls_report_collect(json_t *lists, const char *name, json_t *row);

/** {label: [rows]}, in the order of `rows`. A label is the text at the path `by`, or, where that is
 * NULL, ls_report_label with the other arguments. */
json_t *ls_report_cases(const json_t *rows, const char *by, const json_t *differences, bool devices,
                        const char *against);

/** [{label, rows}] of {label: [rows]}, by the order of two such (NULL: as they come). */
json_t *ls_report_sorted(const json_t *lists, int (*order)(const json_t *a, const json_t *b));

/** The row that stands for such a case, and its rate; see ls_report_median. */
const json_t *ls_case_row(const json_t *one, ls_interval *rate);
