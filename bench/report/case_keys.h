/* SPDX-License-Identifier: MIT */
/* Case keys: what rows have in common, and what tells them apart, as text. */
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

/** How many devices train. */
double ls_report_devices(const json_t *row);

/** Samples per second, and, where the row has an interval, its bounds; 0 without a time. */
typedef struct ls_rate {
    double rate, low, high;
} ls_rate;
ls_rate ls_report_rate(const json_t *row);

/** a's rate over b's, with an interval where both rows have one: low and high are 0 otherwise. */
ls_rate ls_report_ratio(const json_t *a, const json_t *b);

/** The strategy, or a peer's program. */
const char *ls_report_strategy(const json_t *row);
/** Place of the row's strategy in the registry; behind all of one of another version. */
int ls_report_place(const json_t *row);
bool ls_report_is_peer(const json_t *row);
/** Ours, and meant to compute what one device computes: what a comparison is about. */
bool ls_report_is_candidate(const json_t *row);
bool ls_report_is_ok(const json_t *row);

/** The members of `case` in which rows of one strategy differ that are on as many devices, and have
 *  the same at the path `at` (NULL: at none), each with what most of the strategy's rows have, or
 *  null: {strategy: {member: value}}. What only says how long and how often it was trained is no
 *  difference, nor is the member that `against` names. */
json_t *ls_report_differences(const json_t *rows, const char *at, const char *against);

/** "ps async staleness=2": the strategy with what differs, but for general options that are as in
 *  most rows; then " on 2", where `devices`; then ", VALUE" of `against`, unless that is NULL.
 * `out` has LS_LABEL_SIZE. */
char *ls_report_label(const json_t *row, const json_t *differences, bool devices,
                      const char *against, char *out);
