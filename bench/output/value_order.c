/* SPDX-License-Identifier: MIT */
/* Order and equality of values; see value_order.h. */
#include "bench/output/value_order.h"

#include "bench/output/format_parts.h"
#include "common/base/numbers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static int order_integer(json_int_t whole, double real)
{
    if (real >= 0x1p63 || real < -0x1p63)
        return real > 0 ? -1 : 1;
    const json_int_t cut = (json_int_t)real; /* towards 0 */
    if (whole != cut)
        return whole < cut ? -1 : 1;
    const double rest = real - (double)cut; /* exact: a real with a fraction is below 2^53 */
    return (rest < 0) - (rest > 0);
}

int ls_number_order(const json_t *a, const json_t *b)
{
    if (json_is_integer(a) && json_is_integer(b)) {
        const json_int_t x = json_integer_value(a), y = json_integer_value(b);
        return (x > y) - (x < y);
    }
    if (json_is_integer(a))
        return order_integer(json_integer_value(a), json_real_value(b));
    if (json_is_integer(b))
        return -order_integer(json_integer_value(b), json_real_value(a));
    const double x = json_real_value(a), y = json_real_value(b);
    return (x > y) - (x < y);
}

json_t *ls_number_read(const char *text)
{
    int64_t whole;
    double real;
    if (ls_parse_integer(text, INT64_MIN, INT64_MAX, &whole))
        return json_integer(whole);
    return ls_parse_real(text, &real) ? json_real(real) : NULL;
}

int ls_value_order(const json_t *a, const json_t *b)
{
    if (!a || !b)
        return (a == NULL) - (b == NULL);
    if (json_is_number(a) != json_is_number(b))
        return json_is_number(a) ? -1 : 1;
    if (json_is_number(a))
        return ls_number_order(a, b);
    char *mine = ls_value_text(a), *other = ls_value_text(b);
    const int order = mine && other ? strcmp(mine, other) : 0;
    free(mine);
    free(other);
    return order;
}

bool ls_value_equal(const json_t *a, const json_t *b)
{
    const char *name;
    json_t *member;
    if (json_is_number(a) && json_is_number(b))
        return ls_number_order(a, b) == 0;
    if (json_is_array(a) && json_is_array(b)) {
        const size_t count = json_array_size(a);
        size_t i = 0;
        while (i < count && ls_value_equal(json_array_get(a, i), json_array_get(b, i)))
            i++;
        return i == count && count == json_array_size(b);
    }
    if (!json_is_object(a) || !json_is_object(b))
        return a == b || json_equal(a, b);
    json_object_foreach((json_t *)(size_t)a, name, member)
    {
        if (!ls_value_equal(member, json_object_get(b, name)))
            return false;
    }
    return json_object_size(a) == json_object_size(b);
}
