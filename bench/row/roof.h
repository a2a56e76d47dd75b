/* SPDX-License-Identifier: MIT */
/*
 * Roof: the most that the cores of one device do, measured: the rate of single-precision matrix
 * products, which `mfu` is a share of. The other side of that share is the model's FLOPs as written
 * down, whatever an algorithm makes of them: convolutions by Winograd's method can pass 100%.
 *
 * Measured once per machine, kind of processor (family, model, stepping and flags: names of virtual
 * ones say little), library and number of cores (per GPU and arithmetic), and kept in the user's
 * cache folder ($XDG_CACHE_HOME or ~/.cache, lockstep/roofs.json); never before the steps of a run.
 */
#pragma once

#include "common/device/device.h"
#include "common/kernel/kernel.h"

/**
 * Largest rate (tenth percentile of the times) over square products (of 512 to 1536; of 2048 and
 * 4096 on a GPU) and some of layers, floating-point operations per second, of this device's default
 * kernels: the cached figure, or it is measured, which takes about a second, and kept. A figure
 * below `reached`, a rate at which the device has been seen to work (0: none), is of another time
 * or measured badly: it is measured again, and the larger one kept. A cache that cannot be written
 * is no failure.
 */
ls_status ls_roof_get(const ls_machine *machine, ls_device *device, ls_math math, double reached,
                      double *flops_per_s);

/** What the harness itself costs a step on this device: nanoseconds of one finish_step. */
ls_status ls_harness_cost(ls_device *device, double *ns);
