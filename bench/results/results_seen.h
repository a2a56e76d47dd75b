/* SPDX-License-Identifier: MIT */
/* A row, prepared for the rules of what limits a step (results_bound.c). */
#pragma once

#include "bench/results/results_verbs.h"

/** Of samples and bytes that are few: beyond, products and messages gain little by more of them. */
enum { LS_FEW_SAMPLES = 32, LS_FEW_BYTES = 64 << 10 };

/** The row's fields that rules read; 0 if absent. Times in ms of the mean step. */
typedef struct ls_seen {
    const json_t *row;
    json_t *figures; /* values that the words name and the row lacks */
    double step, compute, exposed, wait, copy, gather, optimizer, harness; /* copy: no gathering */
    double devices, replicas, batch, samples, mfu, sent, messages;
    double cores, wanted, each; /* existing cores; cores that all devices have; cores of one */
    double servers, busy;       /* parameter servers, and how busy the busiest is: 0..1 */
    double bubble, equal;       /* of a pipeline: share of the step; were its stages equal */
    double formula;             /* and as the schedule has it for its stages' own times */
    double piece;               /* samples of a micro-batch; 0: it has none */
    double exact_cost;          /* exact mode over fast mode; 0: it is not exact */
    double state;      /* bytes of parameters, gradients, optimizer of the fullest device */
    double least_wait; /* of the device that waits least; the waterfall's if unknown */
    bool crowded, linked;
    bool has_holder, divided; /* one device has the variables; a model's parts lie apart */
    bool apart;               /* backward runs on the variables' device, too */
    const char *link;
} ls_seen;

/** To be closed. */
ls_seen ls_seen_look(const json_t *row);
void ls_seen_close(ls_seen *seen);

/** Sets the figure {waiting}: these `ms` as a share of the mean step, in words; "" for none. */
void ls_seen_put_waiting(const ls_seen *seen, double ms);

/** Bytes a second of a pass forward and backward over the variables, and of the update. */
double ls_seen_streamed(const ls_seen *seen);
