/* SPDX-License-Identifier: MIT */
/*
 * Text of rows, which may be anything, as the files of a report have it. What no file can show
 * (control characters, what XML has not) becomes a blank; what a language reads as its own is
 * escaped in that language's way.
 */
#ifndef LS_BENCH_REPORT_TEXT_H
#define LS_BENCH_REPORT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Writes what a character has before it; true where that stands for the character itself. */
typedef bool (*ls_escape)(FILE *stream, char c);
bool ls_escape_markup(FILE *stream, char c);   /**< of HTML and XML */
bool ls_escape_markdown(FILE *stream, char c); /**< in a table, too */
bool ls_escape_gnuplot(FILE *stream, char c);  /**< between single quotes */
bool ls_escape_csv(FILE *stream, char c);      /**< between double quotes */
bool ls_escape_yaml(FILE *stream, char c);     /**< the same */
bool ls_escape_bibtex(FILE *stream, char c);   /**< between braces */

/** Writes at most `most` characters of the text, and dots for the others. NULL is "". */
void ls_text_put(FILE *stream, const char *text, size_t most, ls_escape escape);

/** The same as HTML. */
void ls_markup(FILE *stream, const char *text, size_t most);

/** Where the character after the one at `c` begins. */
size_t ls_text_step(const char *c);

/** Appends; what does not fit is cut between two characters. Returns `out`. */
char *ls_text_add(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
