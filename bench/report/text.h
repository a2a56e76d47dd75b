/* SPDX-License-Identifier: MIT */
/*
 * Text of rows, which may be anything, as the files of a report have it. What no file can show
 * (control characters, what XML has not) becomes a blank; what a language reads as its own is
 * escaped in that language's way.
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

/** Writes at most `most` characters of the text, and dots for the others. NULL is "". */
void ls_text_put(FILE *stream, const char *text, size_t most, ls_escape escape);

/** The same as HTML. */
void ls_markup(FILE *stream, const char *text, size_t most);

/** The text that a member of an object is; "" where it is none. */
const char *ls_text_of(const json_t *object, const char *name);

/** Where the character after the one at `c` begins. */
size_t ls_text_step(const char *c);

/** Bytes of its first line of at most `width` characters: to a blank, if there is one late enough.
 */
size_t ls_text_line(const char *text, size_t width);

/** Appends; what does not fit is cut between two characters. Returns `out`. */
char *ls_text_add(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
