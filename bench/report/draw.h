/* SPDX-License-Identifier: MIT */
/* Drawing: pictures (pictures.h) to files by gnuplot, and as text for a page. */
#pragma once

#include "common/base/status.h"

#include <jansson.h>
#include <stdio.h>

typedef enum ls_picture { LS_PICTURE_SVG, LS_PICTURE_PNG, LS_PICTURE_PDF } ls_picture;

/** Draws all figures, if any, in the folder. LS_CODE_MISSING where there is no gnuplot, or a
 * picture is not complete. */
ls_status ls_draw(const json_t *figures, const char *folder, ls_picture kind);

/** Draws one figure to a file (whole_file.h) with the ending .svg, .png or .pdf. Sets its name. */
ls_status ls_draw_file(json_t *figure, const char *path);

/** Writes gnuplot's text of one figure; its file is NAME.svg, NAME.png or NAME.pdf. */
void ls_draw_script(FILE *stream, const json_t *figure, ls_picture kind);

/** Makes gnuplot's SVG in the folder self-describing, with dark colours; for a page, it becomes the
 * figure's `svg`. LS_CODE_MISSING where that cannot be written. */
ls_status ls_draw_dress(json_t *figure, const char *folder);

/** A file's text (free), up to a zero byte; NULL where there is no file. */
char *ls_draw_read(const char *path);

/** Writes the CSS for dark pages. */
void ls_draw_dark_style(FILE *stream);

/** The points of all series: a new array. */
json_t *ls_figure_points(const json_t *figure);
