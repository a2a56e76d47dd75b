/* SPDX-License-Identifier: MIT */
/*
 * Sums of ranges of device memory, as operations: used by communicators on devices' queues.
 * Float32, elementwise and in the order of the steps, so that a result does not depend on range,
 * alignment or device. A processor's loops or a GPU's kernel.
 */
#pragma once

#include "common/comm/sum_step.h"
#include "common/device/device.h"

/** Makes a GPU's driver load the kernels now, since it cannot in a capture. Before the operations
 * are enqueued. */
ls_status ls_sums_load(ls_device *device);

/**
 * An operation that does the steps in turn. `device` reads and writes all their memory. `name` is
 * static text; the steps are copied. There is one step at least.
 */
ls_status ls_sums_make(const ls_device *device, const char *name, const ls_sum_step *steps,
                       size_t step_count, size_t count, ls_op **out);
