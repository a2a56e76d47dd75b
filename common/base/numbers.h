/* SPDX-License-Identifier: MIT */
/*
 * Checked size arithmetic, and the numbers of the command line: integers, reals, byte sizes,
 * durations and rates. Nothing is accepted in part: "12x", "", "1e999" and "nan" are refused.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** a * b and a + b; false, and *out untouched, where the result does not fit. */
bool ls_size_multiply(size_t a, size_t b, size_t *out);
bool ls_size_add(size_t a, size_t b, size_t *out);

/** Rounds up to a multiple of `unit`, a power of two; false where it does not fit. */
bool ls_size_round_up(size_t value, size_t unit, size_t *out);

/** Counts by bisection which of `count` items have a uint64_t key of at most `key`. The items,
 * of `size` bytes each, are sorted by it; `first` points to the number of the first item. */
size_t ls_count_up_to(uint64_t key, const void *first, size_t count, size_t size);

/** The value, for printing: a NaN without its sign, which has no meaning. */
double ls_unsigned_nan(double value);

/** Whole decimal integer within [low, high]; false otherwise. */
bool ls_parse_integer(const char *text, int64_t low, int64_t high, int64_t *out);

/** Finite real number; false otherwise. Always with a point, whatever the locale. */
bool ls_parse_real(const char *text, double *out);

/** "65536", "64KiB", "25MiB", "1GiB", "1GB", "1kB" (binary and decimal prefixes) in bytes. */
bool ls_parse_bytes(const char *text, size_t *out);

/** "1.5us", "0.3ns", "2min" in nanoseconds, fractions too; a bare number is seconds. */
bool ls_parse_time(const char *text, double *out_ns);

/** As above, in whole nanoseconds. */
bool ls_parse_duration(const char *text, uint64_t *out_ns);

/** "1GB/s", "125MB/s", "4GiB/s", and in bits "10Gbps", "10Gbit/s", in bytes per second. */
bool ls_parse_bandwidth(const char *text, double *out_bytes_per_s);

/** Writes a byte size for people: "1.5 MiB". `text` holds at least 32 bytes; returns it. */
char *ls_format_bytes(double bytes, char text[32]);

/** The first of `count` values that is not finite; `count` if all are. */
size_t ls_first_not_finite(const float *values, size_t count);
