/* SPDX-License-Identifier: MIT */
/*
 * A row: a JSON object (jansson) with the groups and fields of fields.def. Nothing outside this
 * folder spells a path: fields are numbers (LS_F_time_step_ms_median), and each field is set by the
 * function for its type (put.h).
 *   For a field in a list of objects (LS_GROUP_EACH, as memory.devices) `row` is one element of
 * that list: json_array_foreach over ls_row_list gives them.
 */
#pragma once

#include "bench/rows/fields.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_ROW_SCHEMA = 1 };

/** A number for each group: LS_G_memory_devices. */
typedef enum ls_group_number {
#define G1(a, ...)       LS_G_##a,
#define G2(a, b, ...)    LS_G_##a##_##b,
#define G3(a, b, c, ...) LS_G_##a##_##b##_##c,
#include "bench/rows/groups.def"
    LS_FIELD_GROUPS
} ls_group_number;

/* ---- Values: borrowed ----------------------------------------------------------------------- */

/** The value; NULL where it is absent or null. */
json_t *ls_row_get(const json_t *row, ls_field_number field);

/** The object or list of a group; NULL where it is absent. */
json_t *ls_row_group(const json_t *row, ls_group_number group);

/** The first element of memory.devices with the largest peak; NULL if there is none. */
json_t *ls_row_fullest(const json_t *row);

bool ls_row_has(const json_t *row, ls_field_number field);
double ls_row_real(const json_t *row, ls_field_number field);        /**< 0 if absent */
int64_t ls_row_integer(const json_t *row, ls_field_number field);    /**< 0 if absent */
bool ls_row_true(const json_t *row, ls_field_number field);          /**< false if absent */
const char *ls_row_string(const json_t *row, ls_field_number field); /**< "" if absent */

/** Elements of a list; 0 and "" where there is none. */
size_t ls_row_count(const json_t *row, ls_field_number field);
double ls_row_real_at(const json_t *row, ls_field_number field, size_t index);
const char *ls_row_string_at(const json_t *row, ls_field_number field, size_t index);

/* ---- Setting -------------------------------------------------------------------------------- */

/** Set a field, and create missing groups. What does not apply (NaN, an infinity, NULL) leaves it
 * absent; a text that is not UTF-8 is escaped. Use the functions of put.h, which check the type. */
void ls_row_put_text(json_t *row, ls_field_number field, const char *value);
void ls_row_put_int(json_t *row, ls_field_number field, int64_t value);
void ls_row_put_real(json_t *row, ls_field_number field, double value);
void ls_row_put_bool(json_t *row, ls_field_number field, bool value);

/** Sets a list or a map; takes ownership. NULL leaves the field unchanged. */
void ls_row_put_value(json_t *row, ls_field_number field, json_t *value);

/** The same at a path, whose groups are made where they are missing. */
void ls_row_put_path(json_t *row, const char *path, json_t *value);

/** Appends to a list, and makes it where it is missing; takes ownership of the element. */
void ls_row_append(json_t *row, ls_field_number field, json_t *element);

/** A text; one that is not UTF-8 is escaped. NULL of NULL. */
json_t *ls_text_value(const char *text);

/** A list of numbers (NaN: null). */
json_t *ls_reals(const double *values, size_t count);

/** The list of both; NULL where the lower one is NaN or infinite: there is no interval. */
json_t *ls_interval_value(double low, double high);

/** Removes the field. */
void ls_row_drop(json_t *row, ls_field_number field);

/** The group's object, made if it is missing; of a list of objects a new element. Borrowed. */
json_t *ls_row_make(json_t *row, ls_group_number group);
