/* SPDX-License-Identifier: MIT */
/*
 * A setter for each field of a row, of the field's type: ls_put_time_step_ms_median(row, double).
 * A value of another type does not compile. For a field in a list of objects (LS_GROUP_EACH) give
 * the element (ls_row_make). Lists and maps take a JSON value, and own it.
 */
#pragma once

#include "bench/rows/row.h"

/** Takes signed and unsigned integers of all sizes without a cast, and no real. */
__extension__ typedef __int128 ls_any_integer;

#define LS_C_TEXT      const char *
#define LS_C_INT       ls_any_integer
#define LS_C_REAL      double
#define LS_C_BOOL      bool
#define LS_C_TEXTS     json_t *
#define LS_C_INTS      json_t *
#define LS_C_REALS     json_t *
#define LS_C_INT_LISTS json_t *
#define LS_C_MAP       json_t *

#define LS_PUT_TEXT                   ls_row_put_text
#define LS_PUT_INT(row, field, value) ls_row_put_int(row, field, (int64_t)(value))
#define LS_PUT_REAL                   ls_row_put_real
#define LS_PUT_BOOL                   ls_row_put_bool
#define LS_PUT_TEXTS                  ls_row_put_value
#define LS_PUT_INTS                   ls_row_put_value
#define LS_PUT_REALS                  ls_row_put_value
#define LS_PUT_INT_LISTS              ls_row_put_value
#define LS_PUT_MAP                    ls_row_put_value

#define LS_SETTER(name, type)                                                                      \
    static inline void ls_put_##name(json_t *row, LS_C_##type value)                               \
    {                                                                                              \
        LS_PUT_##type(row, LS_F_##name, value);                                                    \
    }

#define F1(a, type, ...)          LS_SETTER(a, type)
#define F2(a, b, type, ...)       LS_SETTER(a##_##b, type)
#define F3(a, b, c, type, ...)    LS_SETTER(a##_##b##_##c, type)
#define F4(a, b, c, d, type, ...) LS_SETTER(a##_##b##_##c##_##d, type)
#include "bench/rows/fields.def"

#undef LS_SETTER
