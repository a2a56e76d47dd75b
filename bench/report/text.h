/* SPDX-License-Identifier: MIT */
/*
 * Writes text of rows, which may be anything, into the files of a report. Characters that a file
 * cannot show (control characters, those that XML forbids) become blanks; those with a meaning in
 * the file's language are escaped.
 */
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/** The language that the text is written in. */
typedef enum ls_escape {
    LS_ESCAPE_MARKUP,   /**< HTML and XML */
    LS_ESCAPE_MARKDOWN, /**< in a table, too */
    LS_ESCAPE_GNUPLOT,  /**< between single quotes: it knows no escape but these, doubled */
    LS_ESCAPE_CSV,      /**< between double quotes */
    LS_ESCAPE_YAML,     /**< the same */
    LS_ESCAPE_BIBTEX,   /**< between braces */
} ls_escape;

/** Writes at most `most` characters of the text, then dots if it is longer. NULL is "". */
void ls_text_put(FILE *stream, const char *text, size_t most, ls_escape escape);

/** The same as HTML. */
void ls_markup(FILE *stream, const char *text, size_t most);

/** The text of an object's member; "" where it is no text. */
const char *ls_text_of(const json_t *object, const char *name);

/** Bytes of the character at `c`. */
size_t ls_text_step(const char *c);

/** Bytes of a first line of at most `width` characters: up to a blank, if one comes late enough.
 */
size_t ls_text_line(const char *text, size_t width);

/** Appends formatted text, cut between two characters if it does not fit. Returns `out`. */
char *ls_text_add(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
