/* SPDX-License-Identifier: MIT */
/* Text of rows: of JSON objects, in lines, and appended. common/base/escape.h writes it. */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/** Writes at most `most` characters of the text as HTML or XML. */
void ls_markup(FILE *stream, const char *text, size_t most);

/** The text of an object's member; "" where it is no text. */
const char *ls_text_of(const json_t *object, const char *name);

/** Bytes of a first line of at most `width` characters: up to a blank, if one comes late enough.
 */
size_t ls_text_line(const char *text, size_t width);

/** Appends formatted text, cut between two characters if it does not fit. Returns `out`. */
char *ls_text_add(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
