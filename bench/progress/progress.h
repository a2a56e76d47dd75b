/* SPDX-License-Identifier: MIT */
/*
 * Progress: what a person sees of a command while it runs: what is at work, what is left of the
 * whole command. On a terminal a line that is redrawn in place, once a second at least; elsewhere,
 * when asked for, lines.
 *
 *     case 3/8 mirrored 2 cpu, timing, 0:42 left  37%  227859 samples/s  loss 0.305
 *
 * The share never goes back. Cases take turns, so that their numbers do. The time left is there
 * when something of the first case is known (work_left.h), and is that of all cases.
 *
 * One for a command, which lends it to what it calls. NULL, where nothing is shown, is taken by
 * all functions.
 */
#pragma once

#include "bench/progress/work_left.h"

#include <stdio.h>

typedef struct ls_progress ls_progress;

/**
 * Borrows the stream. `mode` 0: shows nothing; -1: a line that is redrawn if the stream is a
 * terminal, else nothing; 1: the same, or lines elsewhere. NULL where nothing is to be shown, or
 * there is no memory or thread for it.
 */
ls_progress *ls_progress_open(FILE *stream, int mode);

/** How many cases there will be; before any of them is named. */
void ls_progress_cases(ls_progress *progress, size_t count);

/** What a case is called, and what it will take (ls_work_expect). Copies the title. */
void ls_progress_expect(ls_progress *progress, size_t index, const char *title,
                        const double seconds[LS_PHASES], bool measured);

/** From here on this phase of this case is at work. */
void ls_progress_enter(ls_progress *progress, size_t index, ls_phase phase);

/** Between steps, never in a timed one: so much of the phase is done, from 0 to 1. A rate or loss
 *  that is NaN is left out. */
void ls_progress_update(ls_progress *progress, double share, double samples_per_s, double loss);

/** Nothing more comes of a case. */
void ls_progress_end(ls_progress *progress, size_t index);

/** Something else is about to be printed: nothing is in its way until the next call of another
 *  function. */
void ls_progress_pause(ls_progress *progress);

/** Removes the line, or prints the last state. Takes NULL. */
void ls_progress_close(ls_progress *progress);
