/* SPDX-License-Identifier: MIT */
/* Order and equality of values; see value_order.h. */
#include "bench/output/value_order.h"

#include <assert.h>
#include <float.h>
#include <math.h>

static_assert(LDBL_MANT_DIG >= 64, "a long double has each integer and each double");

static long double number_of(const json_t *value)
{
    return json_is_integer(value) ? (long double)json_integer_value(value) : json_real_value(value);
}

int ls_number_order(const json_t *a, const json_t *b)
{
    const long double x = number_of(a), y = number_of(b);
    return (x > y) - (x < y);
}

json_t *ls_value_alike(const json_t *value)
{
    json_t *out, *member;
    const char *name;
    size_t index;
    const double real = json_real_value(value);
    if (json_is_real(value) && real >= -0x1p63 && real < 0x1p63 && real == trunc(real))
        return json_integer((json_int_t)real);
    if (json_is_array(value)) {
        out = json_array();
        json_array_foreach(value, index, member)
        {
            json_array_append_new(out, ls_value_alike(member));
        }
        return out;
    }
    if (!json_is_object(value))
        return json_incref((json_t *)(size_t)value);
    out = json_object();
    json_object_foreach((json_t *)(size_t)value, name, member)
    {
        json_object_set_new_nocheck(out, name, ls_value_alike(member));
    }
    return out;
}

bool ls_value_equal(const json_t *a, const json_t *b)
{
    if (a == b || json_equal(a, b))
        return true;
    if (!a || !b)
        return false;
    json_auto_t *mine = ls_value_alike(a), *its = ls_value_alike(b);
    return json_equal(mine, its);
}
