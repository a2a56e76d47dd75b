/* SPDX-License-Identifier: MIT */
/*
 * Sums of ranges of device memory, as operations: what a communicator whose work is put on devices'
 * queues adds with. Float32, every element by itself and in the order of the steps, so that a
 * result depends on neither range, alignment nor device. A processor's loops or a GPU's kernel.
 */
#pragma once

#include "common/comm/sum_step.h"
#include "common/device/device.h"

/** Has a GPU's driver load what the operations launch, now and not in a capture. Before they are
 *  put. */
ls_status ls_sums_load(ls_device *device);

/**
 * An operation that does the steps in turn. `device` reads and writes all their memory. `name` is
 * static text; the steps are copied. There is one step at least.
 */
ls_status ls_sums_make(const ls_device *device, const char *name, const ls_sum_step *steps,
                       size_t step_count, size_t count, ls_op **out);
