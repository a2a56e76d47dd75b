/* SPDX-License-Identifier: MIT */
/* The rows that pictures are made of, those that are ok, in the report's database, and the points
 * that queries make of them. */
#pragma once

#include "bench/output/results_db.h"

enum { LS_HEAD = 600 };

typedef struct ls_album {
    ls_results *db;
    const json_t *rows; /**< number n of pictures is element n - 1 */
    const char *against;
    json_t *figures;
    json_t *reasons; /**< {what is missing: {name: true}} */
    json_t *missing; /**< {what would make it: {name: true}}: pictures of which there is none */
} ls_album;

/** What the picture's head says of it; "" if nothing. */
const char *ls_picture_said(const char *sql, const char *what, char out[LS_HEAD]);

/** Adds facts of the rows to the database. */
ls_status ls_album_fill(const ls_album *all);

/** Reads the fields that these texts of queries name, which are all that `s` has from then on. */
ls_status ls_album_read(const ls_album *all, const char *queries);

/** Runs one statement with a number and a text. */
ls_status ls_album_run(const ls_album *all, const char *sql, int64_t number, const char *text);

/** The query's points, of the chosen rows, without those that no axis can hold. */
ls_status ls_album_points(const ls_album *all, const char *sql);

/** Their series; those of one x are one point: their median, with their range. Of `parts` each has
 * a style of its own. */
ls_status ls_album_series(const ls_album *all, bool parts, json_t *list);

/** [[each, [number, ..]], ..] of the rows that are the picture's: groups by `each`, the largest
 * first. */
ls_status ls_album_groups(const ls_album *all, const char *sql, json_t **out);

/** Adds heading and alt to the figures: those of one title are told apart by what their rows have
 * in common or, where that is the same, by where they come from. */
void ls_album_headings(const ls_album *all);
