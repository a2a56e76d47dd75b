/* SPDX-License-Identifier: MIT */
/*
 * Growth: what steps take of memory and keep: of the devices, by their ledgers, and of the host's
 * heap, by the C library's count (malloc's heads included: 64 bytes are 80). Blind to memory that
 * is mapped without malloc.
 */
#ifndef LS_BENCH_TRAIN_GROWTH_H
#define LS_BENCH_TRAIN_GROWTH_H

#include "bench/train/session.h"

/** Bytes at a moment. */
typedef struct ls_held {
    size_t devices, heap;
} ls_held;

typedef struct ls_growth {
    double *heap; /**< [puts] bytes a step */
    size_t puts;
    double devices; /**< bytes of all steps */
    uint64_t steps;
} ls_growth;

ls_held ls_held_by(const ls_session *session);

/** `steps` were put, and are done. growth->heap has room for one put more. */
void ls_growth_add(ls_growth *growth, ls_held before, ls_held after, uint64_t steps);

/** Bytes a step: what devices keep, and what three puts of four make the heap grow by at least: a
 *  library that takes some memory now and then is no leak. Sorts growth->heap. */
double ls_growth_per_step(const ls_growth *growth);

#endif
