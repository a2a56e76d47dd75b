/* SPDX-License-Identifier: MIT */
/* Cells: what a table has of a row in a column, and texts of a width. */
#pragma once

#include "bench/output/format.h"

enum { LS_CELL_SIZE = 160, LS_TITLE_SIZE = 64 }; /**< bytes of a cell, and of its heading */

/** The field at the path as a column, as the table of fields has it; the title is in `title`. */
ls_column ls_column_of(const char *path, char title[LS_TITLE_SIZE]);

/** Writes the column's cell of a row, as a line of a terminal may have it (escape.h). */
void ls_cell_write(const ls_column *column, const json_t *row, char cell[LS_CELL_SIZE]);

/** Writes the heading and the cell of an option, a field of `case`. */
void ls_option_write(const char *name, const json_t *row, char title[LS_TITLE_SIZE],
                     char cell[LS_CELL_SIZE]);

/** Writes the status and the warnings, without the members of `shared` (may be NULL). */
void ls_status_write(const json_t *row, const json_t *shared, char cell[LS_CELL_SIZE]);

/** Columns that a UTF-8 text takes on a terminal, each character as one. */
int ls_text_width(const char *text);

/** Cuts a text to `width` columns, with ".." at its end where there is room, or in its middle:
 * values may differ at either end. */
void ls_text_cut(char *text, int width, bool middle);
