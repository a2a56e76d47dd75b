/* SPDX-License-Identifier: MIT */
/*
 * Placed operations: a small program of named operations, each on its own device or the default one
 * (placement.h). Operands on another device are copied, once per device, and copies are counted. A
 * device is opened when it is first used.
 */
#pragma once

#include "common/comm/comm_choice.h"
#include "common/device/placement.h"
#include "common/device/device.h"

typedef struct ls_placed ls_placed;

/** A float32 matrix [rows, columns] in device memory; owned by the program. */
typedef struct ls_matrix {
    char name[40]; /**< of the operation that made it */
    int64_t rows, columns;
    ls_device *device;
    void *data; /**< device memory */
} ls_matrix;

/** An operation's name and its device. */
typedef struct ls_place {
    const char *name;
    const char *device; /**< NULL means the default */
} ls_place;

/** `placement` is borrowed. */
ls_status ls_placed_open(const ls_placement *placement, ls_placed **out);

/** Takes NULL. */
void ls_placed_close(ls_placed *placed);

/** A matrix of values of the host, float32 [rows, columns], which are copied. */
ls_status ls_placed_constant(ls_placed *placed, ls_place place, int64_t rows, int64_t columns,
                             const float *values, const ls_matrix **out);

/** The product a b. LS_CODE_USAGE if shapes do not match. */
ls_status ls_placed_matmul(ls_placed *placed, ls_place place, const ls_matrix *a,
                           const ls_matrix *b, const ls_matrix **out);

/** ((t0 + t1) + t2) + ... of matrices of the same shape; count is at least 2. */
ls_status ls_placed_add_n(ls_placed *placed, ls_place place, const ls_matrix *const *terms,
                          size_t count, const ls_matrix **out);

/** Runs all operations, in the order of their calls, as one program, and waits. Captures the
 * program at the first call after a change. */
ls_status ls_placed_run(ls_placed *placed);

/** Copies a matrix to the host, float32 [rows, columns]. */
ls_status ls_placed_read(const ls_placed *placed, const ls_matrix *matrix, float *values);

/** The program that ran last. */
ls_program_info ls_placed_describe(const ls_placed *placed);

/** Copies between devices in one run. */
ls_traffic ls_placed_traffic(const ls_placed *placed);
