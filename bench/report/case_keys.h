/* SPDX-License-Identifier: MIT */
/* Case keys: what rows have in common, and what sets them apart, as text. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { LS_KEY_SIZE = 1024, LS_LABEL_SIZE = 300 };

/** The number at a path; `fallback` where there is none. */
double ls_report_number(const json_t *row, const char *path, double fallback);
/** The text at a path (any value), in `out`; returns it. */
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
typedef struct ls_rate {
    double rate, low, high;
} ls_rate;
ls_rate ls_report_rate(const json_t *row);

/** The rate of one device, for ideal scaling: from rows with a speed-up, else that of the fastest
 * row on one device. */
double ls_report_rate_alone(const json_t *rows);

/** a over b, with an interval where both have one: low and high are 0 otherwise. */
ls_rate ls_report_ratio(ls_rate a, ls_rate b);

/** Of repeats of a case, the row that stands for it: that of the median rate (the slower of the
 * middle two; of micro rows, by time), with the range of all as its interval, or of a single row
 * its own. Borrowed; `rate` may be NULL. */
const json_t *ls_report_median(const json_t *rows, ls_rate *rate);

/** The strategy, or a peer's program. */
const char *ls_report_strategy(const json_t *row);
/** Index of the row's strategy in the registry; the registry's size where it is not there. */
int ls_report_place(const json_t *row);
bool ls_report_is_peer(const json_t *row);
/** Whether the row is ours, and its strategy is meant to compute what one device computes. */
bool ls_report_is_candidate(const json_t *row);
bool ls_report_is_ok(const json_t *row);

/** {strategy: {member: value}}: members of `case` in which rows of one strategy differ that have
 * the same number of devices, and the same value at the path `at` (NULL: any). `value` is what most
 * of the strategy's rows have, or null. Members that only say how long or how often it was trained
 * do not count, nor does the one that `against` names. */
json_t *ls_report_differences(const json_t *rows, const char *at, const char *against);

/** "ps async staleness=2": the strategy and its `differences`, without general options that are as
 * in most rows; with `devices`, " on 2"; then ", VALUE" of `against`, unless that is NULL. `out`
 * has LS_LABEL_SIZE. */
char *ls_report_label(const json_t *row, const json_t *differences, bool devices,
                      const char *against, char *out);

/** The same with the strategy's own options alone. */
char *ls_report_variant(const json_t *row, const json_t *differences, char *out);

/** Appends the row to the list of this name in {name: [rows]}. */
void ls_report_collect(json_t *lists, const char *name, json_t *row);

/** {label: [rows]}, in the order of `rows`. A label is the text at the path `by`, or, where that is
 * NULL, ls_report_label with the other arguments. */
json_t *ls_report_cases(const json_t *rows, const char *by, const json_t *differences, bool devices,
                        const char *against);
