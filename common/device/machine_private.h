/* SPDX-License-Identifier: MIT */
/* The machine's own type, for machine.c, machine_resolve.c and their test. */
#ifndef LS_COMMON_DEVICE_MACHINE_PRIVATE_H
#define LS_COMMON_DEVICE_MACHINE_PRIVATE_H

#include "common/device/machine.h"

enum { LS_MACHINE_DEVICES_MOST = 1024, LS_MACHINE_CORES_MOST = 64, LS_MACHINE_LOGICAL_MOST = 64 };

struct ls_machine {
    ls_machine_info info;
    int *cores; /* operating-system numbers of info.cores_allowed cores */
    int cpu_devices;
    int cores_per_device;
    int gpus;
    int logical_gpus; /* of each GPU */
};

#endif
