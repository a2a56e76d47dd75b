/* SPDX-License-Identifier: MIT */
/*
 * Escape: writes text of unknown origin (rows, files, options, what other programs say) so that it
 * is nothing but text where it goes. What has a meaning in the destination's language is escaped,
 * and so is what nobody would see: control characters (of Unicode, too), marks that change the
 * direction of writing, line separators, bytes that are not valid UTF-8. Such characters are
 * written "\x1b", "\u202e", "\n"; in JSON and YAML that is exact, in BibTeX they are blanks. Other
 * text is not changed. CSV keeps line feeds and tabs, and a leading '=' or '+', which a spreadsheet
 * may take for a formula: it is data, and has to read back the same.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/** Where the text goes. */
typedef enum ls_escape {
    LS_ESCAPE_LINE,     /**< a line on a terminal, or in a log */
    LS_ESCAPE_FONT,     /**< a line in letters that any machine's fonts have */
    LS_ESCAPE_MARKUP,   /**< HTML and XML; in quotes, too */
    LS_ESCAPE_MARKDOWN, /**< in a table, too */
    LS_ESCAPE_GNUPLOT,  /**< between single quotes */
    LS_ESCAPE_TICK,     /**< the text of a tick, which is a format, in single quotes */
    LS_ESCAPE_CSV,      /**< between double quotes */
    LS_ESCAPE_JSON,     /**< between double quotes, in JSON and YAML */
    LS_ESCAPE_BIBTEX,   /**< between braces */
    LS_ESCAPE_GITHUB,   /**< after the second "::" of a workflow command */
    LS_ESCAPE_TROFF,    /**< a manual page */
    LS_ESCAPE_ZSH,      /**< between single quotes, in brackets of zsh's _arguments */
} ls_escape;

/** Writes at most `most` characters of the text, then dots if it is longer. NULL is "". */
void ls_escape_put(FILE *stream, const char *text, size_t most, ls_escape as);

/** Writes as much of it as fits into `out`, which is `size` bytes, cut between two characters.
 * Returns `out`. */
char *ls_escape_copy(char *out, size_t size, const char *text, ls_escape as);

/** The text as a destination may have it, owned by the caller (free); NULL without memory. */
char *ls_text_shown(const char *text, ls_escape as);

/** Appends formatted text, cut between two characters if it does not fit. Returns `out`. */
char *ls_text_add(char *out, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Bytes of the character at `c`; 1 for an invalid byte. */
size_t ls_escape_step(const char *c);

/* ---- Lists that users write, "a,b": a backslash before a comma makes it part of a value, and a
 * backslash before a backslash is one. -------------------------------------------------------- */

/** Ends the value at `list`, without its backslashes, and returns what follows its comma; NULL
 * after the last one. `is_part` says which commas, by what follows, are part of a value; NULL if
 * there is none. */
char *ls_list_cut(char *list, bool (*is_part)(const char *after));

/** Writes a value so that ls_list_cut gives it back. */
void ls_list_put(FILE *stream, const char *value, bool (*is_part)(const char *after));
