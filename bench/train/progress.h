/* SPDX-License-Identifier: MIT */
/*
 * Progress: what a person sees of a case while it runs. On a terminal a bar with rate, loss and
 * remaining time, redrawn in place; elsewhere, when asked for, plain lines.
 */
#ifndef LS_BENCH_TRAIN_PROGRESS_H
#define LS_BENCH_TRAIN_PROGRESS_H

#include <stdint.h>
#include <stdio.h>

typedef struct ls_progress ls_progress;

/**
 * Opened right before the first step; borrows the stream, copies the title. `mode` 0: shows
 * nothing; -1: a bar if the stream is a terminal, else nothing; 1: a bar, or lines elsewhere.
 * NULL where nothing is to be shown (or there is no memory): the functions below take it.
 */
ls_progress *ls_progress_open(FILE *stream, int mode, const char *title);

/**
 * Between blocks of steps, never in a timed step. A bar is redrawn at most 10 times a second, a
 * line printed at most once. A rate or loss that is NaN is left out, a total of 0 is unknown.
 */
void ls_progress_update(ls_progress *progress, uint64_t done_steps, uint64_t total_steps,
                        double samples_per_s, double loss);

/** Removes the bar, or prints the last state as a line. Takes NULL. */
void ls_progress_close(ls_progress *progress);

#endif
