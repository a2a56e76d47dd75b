/* SPDX-License-Identifier: MIT */
/*
 * Placement: which devices something runs on: the devices that it names, or the default device.
 * With soft placement a device that is not here is replaced, and the log says so.
 */
#pragma once

#include "common/base/log.h"
#include "common/device/machine.h"

#include <stdbool.h>

/** By which rules devices are chosen. */
typedef struct ls_placement {
    const ls_machine *machine; /**< whose devices; borrowed */
    const ls_log *log;         /**< NULL means says nothing */
    bool soft;                 /**< a device that is not here may be replaced */
    bool logged;               /**< ls_placement_log says where things run */
} ls_placement;

/**
 * Resolves `spec` (ls_machine_resolve; NULL means the default device, of the best kind and the
 * lowest number) to names owned by the caller (free), for the operation of this name; NULL means
 * for none in particular. Where a device is not here: with soft placement as many devices of the
 * best kind, *replaced set; else LS_CODE_MISSING, which names the operation, the device and the
 * devices that exist.
 */
ls_status ls_placement_resolve(const ls_placement *placement, const char *operation,
                               const char *spec, ls_device_name **out, size_t *out_count,
                               bool *replaced);

/** As above, for one device. */
ls_status ls_placement_device(const ls_placement *placement, const char *operation,
                              const char *spec, ls_device_name *out);

/** Logs, where asked to, "placement: <operation>: cpu:0"; `variables` (NULL if there is none) says
 * where the operation's variables are. */
void ls_placement_log(const ls_placement *placement, const char *operation,
                      const ls_device_name *device, const ls_device_name *variables);
