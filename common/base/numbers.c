/* SPDX-License-Identifier: MIT */
/* Checked arithmetic and number parsing; see numbers.h. */
#include "common/base/numbers.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool ls_size_multiply(size_t a, size_t b, size_t *out)
{
    size_t result;
    if (__builtin_mul_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}

bool ls_size_add(size_t a, size_t b, size_t *out)
{
    size_t result;
    if (__builtin_add_overflow(a, b, &result))
        return false;
    *out = result;
    return true;
}

bool ls_size_round_up(size_t value, size_t unit, size_t *out)
{
    size_t sum;
    if (!ls_size_add(value, unit - 1, &sum))
        return false;
    *out = sum & ~(unit - 1);
    return true;
}

double ls_unsigned_nan(double value)
{
    return isnan(value) ? (double)NAN : value;
}

size_t ls_count_up_to(uint64_t key, const void *first, size_t count, size_t size)
{
    size_t low = 0;
    while (low < count) {
        const size_t middle = (low + count) / 2;
        if (*(const uint64_t *)(const void *)((const char *)first + middle * size) <= key)
            low = middle + 1;
        else
            count = middle;
    }
    return low;
}

bool ls_parse_integer(const char *text, int64_t low, int64_t high, int64_t *out)
{
    if (!text || !(isdigit((unsigned char)*text) || *text == '-'))
        return false;
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || value < low || value > high)
        return false;
    *out = value;
    return true;
}

/* A decimal number at the start of `text`; its end in *end. No "inf", "nan" or hexadecimal. */
static bool leading_real(const char *text, double *out, const char **end)
{
    const char *c = text;
    if (*c == '-' || *c == '+')
        c++;
    if (!isdigit((unsigned char)c[0]) && !(c[0] == '.' && isdigit((unsigned char)c[1])))
        return false;
    if (c[0] == '0' && (c[1] == 'x' || c[1] == 'X'))
        return false;
    char *stop;
    errno = 0;
    double value = strtod(text, &stop);
    if (stop == text || !isfinite(value) || (errno == ERANGE && fabs(value) > 1))
        return false;
    *out = value;
    *end = stop;
    return true;
}

bool ls_parse_real(const char *text, double *out)
{
    double value;
    const char *end;
    if (!text || !leading_real(text, &value, &end) || *end)
        return false;
    *out = value;
    return true;
}

typedef struct unit {
    const char *name;
    double scale;
} unit;

/* A non-negative number followed by one of the units; NULL ends the list. */
static bool parse_with_unit(const char *text, const unit *units, double *out)
{
    double value;
    const char *end;
    if (!text || !leading_real(text, &value, &end) || value < 0)
        return false;
    for (const unit *u = units; u->name; u++) {
        if (strcmp(end, u->name) == 0) {
            *out = value * u->scale;
            return isfinite(*out);
        }
    }
    return false;
}

static const unit byte_units[] = {
    {"", 1},
    {"B", 1},
    {"kB", 1e3},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
    {"KiB", 1024.0},
    {"MiB", 1048576.0},
    {"GiB", 1073741824.0},
    {"TiB", 1099511627776.0},
    {NULL, 0},
};

bool ls_parse_bytes(const char *text, size_t *out)
{
    double value;
    if (!parse_with_unit(text, byte_units, &value) || value > 9e15 || value != floor(value))
        return false;
    *out = (size_t)value;
    return true;
}

bool ls_parse_time(const char *text, double *out_ns)
{
    static const unit units[] = {{"", 1e9},   {"s", 1e9},    {"ms", 1e6}, {"us", 1e3},
                                 {"ns", 1.0}, {"min", 6e10}, {NULL, 0}};
    return parse_with_unit(text, units, out_ns) && *out_ns <= 9e18;
}

bool ls_parse_duration(const char *text, uint64_t *out_ns)
{
    double value;
    if (!ls_parse_time(text, &value))
        return false;
    *out_ns = (uint64_t)llround(value);
    return true;
}

bool ls_parse_bandwidth(const char *text, double *out_bytes_per_s)
{
    static const unit bits[] = {{"bps", 0.125},      {"kbps", 0.125e3},   {"Mbps", 0.125e6},
                                {"Gbps", 0.125e9},   {"Tbps", 0.125e12},  {"kbit/s", 0.125e3},
                                {"Mbit/s", 0.125e6}, {"Gbit/s", 0.125e9}, {NULL, 0}};
    size_t length = text ? strlen(text) : 0;
    char bytes[64];
    double value;
    if (length < 3 || length >= sizeof bytes)
        return false;
    memcpy(bytes, text, length + 1);
    if (strcmp(text + length - 2, "/s") == 0)
        bytes[length - 2] = 0;
    if ((!parse_with_unit(text, bits, &value) &&
         (!bytes[0] || bytes[length - 2] || !parse_with_unit(bytes, byte_units, &value))) ||
        value <= 0)
        return false;
    *out_bytes_per_s = value;
    return true;
}

char *ls_format_bytes(double bytes, char text[32])
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t i = 0;
    while (fabs(bytes) >= 1024 && i + 1 < sizeof names / sizeof *names) {
        bytes /= 1024;
        i++;
    }
    snprintf(text, 32, i ? "%.1f %s" : "%.0f %s", bytes, names[i]);
    return text;
}

size_t ls_first_not_finite(const float *values, size_t count)
{
    const uint32_t magnitude = 0x7fffffff, infinite = 0x7f800000;
    uint32_t any = 0;
    for (size_t i = 0; i < count; i++) { /* vectorized: nearly always all are */
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        any |= (bits & magnitude) >= infinite;
    }
    size_t first = any ? 0 : count;
    while (first < count && isfinite(values[first]))
        first++;
    return first;
}
