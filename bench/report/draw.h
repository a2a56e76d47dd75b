/* SPDX-License-Identifier: MIT */
/* Drawing: pictures (pictures.h) to files by gnuplot, with the templates reports/NAME.gp. */
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

/** Writes gnuplot's text of figures; their files are NAME.svg, NAME.png or NAME.pdf. In PNG and
 * PDF, letters that usual fonts do not have are written as numbers. */
ls_status ls_draw_script(FILE *stream, const json_t *figures, ls_picture kind);

/** Writes gnuplot's SVG with the figure's title, and colours for dark pages. */
void ls_draw_dress(FILE *stream, const json_t *figure, const char *drawn);

/** Sets the figure's `svg` to an element of a page that shows its SVG in the folder. */
ls_status ls_draw_embed(json_t *figure, const char *folder);

/** A file's bytes (free), and a zero after them; NULL where there is no file. */
char *ls_draw_read(const char *path, size_t *bytes);
