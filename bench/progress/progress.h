/* SPDX-License-Identifier: MIT */
/*
 * Progress: what a person sees while a command runs: the present case and phase, and the time left
 * of the whole command. On a terminal it is one line, redrawn at least once a second; elsewhere, if
 * asked for, lines; of several cases, lines now and then, so that a log does not look hung.
 *
 *     case 3/8 mirrored 2 cpu, timing, 0:42 left  37%  227859 samples/s  loss 0.305
 *
 * The share never falls; case numbers may, since cases take turns. The time left is the time of all
 * cases; it appears once something of the first case is known (work_left.h).
 *
 * A command has one. All functions take NULL, where nothing is shown.
 */
#pragma once

#include "bench/progress/work_left.h"

#include <stdint.h>
#include <stdio.h>

typedef struct ls_progress ls_progress;

/**
 * Borrows the stream. `mode` 0 shows nothing, -1 redraws a line if the stream is a terminal,
 * otherwise of several cases a line when another one is at work, at most one in 10 s, and at least
 * one in 30 s; 1 means the same, or a line each second elsewhere. Returns NULL if nothing is to be
 * shown, or without memory or a thread for it.
 */
ls_progress *ls_progress_open(FILE *stream, int mode);

/** The most often that a log (mode -1) gets a line, in place of 10 s. Before it is shown. */
void ls_progress_log_every(ls_progress *progress, uint64_t ns);

/** How many cases there will be; before any of them is named. */
void ls_progress_cases(ls_progress *progress, size_t count);

/** Sets a case's title, which is copied, and its expected times (ls_work_expect). */
void ls_progress_expect(ls_progress *progress, size_t index, const char *title,
                        const double seconds[LS_PHASES], bool measured);

/** A phase of a case begins. */
void ls_progress_enter(ls_progress *progress, size_t index, ls_phase phase);

/** Sets the share of the phase that is done, from 0 to 1. Between steps, never in a timed one. A
 * rate or loss that is NaN is not shown. */
void ls_progress_update(ls_progress *progress, double share, double samples_per_s, double loss);

/** A case is over. */
void ls_progress_end(ls_progress *progress, size_t index);

/** Clears the line, since something else is about to be printed, until the next call of another
 * function. */
void ls_progress_pause(ls_progress *progress);

/** Removes the line, or prints the last state. Takes NULL. */
void ls_progress_close(ls_progress *progress);
