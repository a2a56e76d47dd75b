/* SPDX-License-Identifier: MIT */
/*
 * A setter for each field of a row, of the field's type: ls_put_time_step_ms_median(row, double).
 * A value of another type does not compile. For a field in a list of objects (LS_GROUP_EACH) give
 * the element (ls_row_make). Lists and maps take a JSON value, and own it.
 */
#pragma once

#include "bench/rows/row.h"

#include <math.h>

/** Takes signed and unsigned integers of all sizes without a cast, and no real. */
__extension__ typedef __int128 ls_any_integer;

/** Leaves the field absent, as NAN does for a real, and NULL for a text, a list or a map. */
#define LS_ABSENT ((ls_any_integer)1 << 64)

/* The value, or what leaves the field absent. */
static inline ls_any_integer ls_nonzero(ls_any_integer value)
{
    return value ? value : LS_ABSENT;
}

static inline double ls_positive(double value)
{
    return value > 0 ? value : NAN;
}

static inline const char *ls_nonempty(const char *text)
{
    return *text ? text : NULL;
}

static inline void ls_put_integer(json_t *row, ls_field_number field, ls_any_integer value)
{
    if (value != LS_ABSENT)
        ls_row_put_int(row, field, (int64_t)value);
}

#define LS_SETTER(name, type, put)                                                                 \
    static inline void ls_put_##name(json_t *row, type value)                                      \
    {                                                                                              \
        put(row, LS_F_##name, value);                                                              \
    }

#define LS_SET_TEXT(name)      LS_SETTER(name, const char *, ls_row_put_text)
#define LS_SET_INT(name)       LS_SETTER(name, ls_any_integer, ls_put_integer)
#define LS_SET_REAL(name)      LS_SETTER(name, double, ls_row_put_real)
#define LS_SET_BOOL(name)      LS_SETTER(name, bool, ls_row_put_bool)
#define LS_SET_TEXTS(name)     LS_SETTER(name, json_t *, ls_row_put_value)
#define LS_SET_INTS(name)      LS_SET_TEXTS(name)
#define LS_SET_REALS(name)     LS_SET_TEXTS(name)
#define LS_SET_INT_LISTS(name) LS_SET_TEXTS(name)
#define LS_SET_MAP(name)       LS_SET_TEXTS(name)

#define F1(a, type, ...)          LS_SET_##type(a)
#define F2(a, b, type, ...)       LS_SET_##type(a##_##b)
#define F3(a, b, c, type, ...)    LS_SET_##type(a##_##b##_##c)
#define F4(a, b, c, d, type, ...) LS_SET_##type(a##_##b##_##c##_##d)
#include "bench/rows/fields.def"

#undef LS_SETTER
