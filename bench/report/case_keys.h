/* SPDX-License-Identifier: MIT */
/* Case keys: what rows have in common, and what tells them apart, as text. */
#ifndef LS_BENCH_REPORT_CASE_KEYS_H
#define LS_BENCH_REPORT_CASE_KEYS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { LS_KEY_SIZE = 1024 };

/** The number at a path; `fallback` where there is none. */
double ls_report_number(const json_t *row, const char *path, double fallback);
/** The text at a path (any value), in `out`; returns it. */
char *ls_report_text(const json_t *row, const char *path, char *out, size_t size);

/** "Intel Xeon (avx512f), host": where a row ran; "" where it does not say. */
char *ls_report_machine(const json_t *row, char *out, size_t size);

/** How many devices train. */
double ls_report_devices(const json_t *row);

/** The strategy, or a peer's program. */
const char *ls_report_strategy(const json_t *row);
bool ls_report_is_peer(const json_t *row);
bool ls_report_is_ok(const json_t *row);

/** All that a row's case was, but for the members that `ignore` names (a blank around each). */
char *ls_report_case(const json_t *row, const char *ignore, char *out, size_t size);

/** The members of `case` in which rows of one strategy differ, as {strategy: {member: true}}. */
json_t *ls_report_differences(const json_t *rows, const char *ignore);

/** "ps ps_mode=async": the strategy with what differs; the value of `against` behind it. */
char *ls_report_label(const json_t *row, const json_t *differences, const char *against, char *out,
                      size_t size);

#endif
