/* SPDX-License-Identifier: MIT */
/* Pictures: each is a file reports/NAME.sql (reports/pictures.sql). */
#pragma once

#include "bench/report/page.h"

/** All pictures of the rows that are ok, an array, by place: objects of
 *   name, title, heading (title, and what distinguishes it from pictures of the same title), sub
 *   (what it shows), foot (machine, commit, day), caption, alt, x, y, unit, kind (the template),
 *   log_x, log_y (1), categories (names of bars and ranges), styles (of categories),
 *   series: [{name, style, variant, points: [[x, y, low, high], ..]}]; x of bars and ranges is the
 *   index of a category; style is a strategy's index in its registry, or as frame.gp says;
 *   heads, points: the data as a table, as far as the page has room
 *
 * Why there are no others, and no rows, is added to page->left_out. */
ls_status ls_pictures(const ls_page *page, json_t **out);

/** Visits the texts of SQL that make pictures. */
void ls_pictures_each_text(void (*visit)(const char *text, json_t *out), json_t *out);
