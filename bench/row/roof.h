/* SPDX-License-Identifier: MIT */
/*
 * Roof: the measured peak rate of one device, in matrix products of the arithmetic that a step
 * uses. `mfu` is the rate of the model's FLOPs over it. FLOPs are counted by the layers' formulas,
 * whatever the algorithm does, so that convolutions by Winograd's method can pass 100%.
 *
 * Measured once per machine, kind of processor (family, model, stepping and flags: names of virtual
 * processors say little) and number of cores, or GPU, driver and arithmetic, and version of the
 * library that is loaded. Kept in the user's cache folder ($XDG_CACHE_HOME or ~/.cache,
 * lockstep/roofs.json). Never before the steps of a run.
 */
#pragma once

#include "common/device/device.h"
#include "common/kernel/kernel.h"

/** A rate at which a device was seen to work. */
typedef struct ls_reached {
    double flops_per_s; /**< 0 if none was seen */
    bool stored;        /**< a library multiplied stored values of bfloat16 */
} ls_reached;

/**
 * The highest rate (by the tenth percentile of times) of this device's default kernels for square
 * products (512 to 1536; 2048 and 4096 on a GPU) and some of layers, in floating-point operations
 * per second. Read from the cache, or measured in about a second and stored. If it is below the
 * reached rate, it is measured again, and the higher one stored. A cache that cannot be written is
 * not a failure.
 */
ls_status ls_roof_get(const ls_machine *machine, ls_device *device, ls_math math,
                      const ls_reached *reached, double *flops_per_s);

/** What the harness costs per step on this device: the nanoseconds of one finish_step. */
ls_status ls_harness_cost(ls_device *device, double *ns);
