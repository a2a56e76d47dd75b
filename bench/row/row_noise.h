/* SPDX-License-Identifier: MIT */
/* Noise in words: what of other programs' work is worth a warning; from a row alone. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/** What of a row's noise is worth a warning, in words, then, after a semicolon, what helps; false:
 * nothing. */
bool ls_row_noise_words(const json_t *row, char *words, size_t size);
