/* SPDX-License-Identifier: MIT */
/* Sheets: what page, report.md and CSV all have: tables and lines of text. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef enum ls_sheet_kind { LS_SHEET_HTML, LS_SHEET_MARKDOWN, LS_SHEET_CSV } ls_sheet_kind;

typedef struct ls_sheet {
    FILE *stream;
    ls_sheet_kind kind;
    size_t cells;        /**< of the current row */
    bool data;           /**< of a picture: cells in number columns are right-aligned */
    const char *stacked; /**< heads of a table whose cells stand one below the other on a phone */
} ls_sheet;

/** A text, escaped, cut after 400 bytes. */
void ls_sheet_text(const ls_sheet *to, const char *text);

/** A text in a tag, or after its Markdown prefix; nothing for NULL. */
void ls_sheet_line(const ls_sheet *to, const char *tag, const char *before, const char *text);

/** The text is already written as the file needs it. */
void ls_sheet_plain(const ls_sheet *to, const char *html, const char *markdown);

/** A table; '|' separates the heads; the label names the scrolling region. */
void ls_sheet_table(ls_sheet *to, const char *label, const char *heads);
void ls_sheet_table_end(const ls_sheet *to);

/** A row, "" or of a class, and its cells. */
void ls_sheet_row(ls_sheet *to, const char *class);
void ls_sheet_cell(ls_sheet *to, const char *text, const char *class);
void ls_sheet_number(ls_sheet *to, const char *format, double value); /**< NaN: empty */
void ls_sheet_row_end(const ls_sheet *to);
