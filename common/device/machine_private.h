/* SPDX-License-Identifier: MIT */
/* The machine's own type, for machine.c, machine_resolve.c and their test. */
#pragma once

#include "common/base/grow.h"
#include "common/device/machine.h"
#include "common/device/machine_gpus.h"
#include "common/device/pulse.h"

enum { LS_MACHINE_DEVICES_MOST = 4096, LS_MACHINE_CORES_MOST = 64, LS_MACHINE_LOGICAL_MOST = 64 };

struct ls_machine {
    ls_machine_info info;
    int *cores; /* operating-system numbers of info.cores_allowed cores */
    int *nodes; /* NUMA node of each; -1 if unknown */
    int cpu_devices;
    int cores_per_device;
    ls_gpus gpus;
    ls_arena **arenas; /* [gpus.count]: the memory of each, for all devices on it */
    int logical_gpus;  /* of each GPU */
    int neighbour;     /* index of this process among the host's processes */
    ls_pulse *pulse;
};

/* Sets the machine's GPUs, and takes ownership of the items, even on failure. */
ls_status ls_machine_take_gpus(ls_machine *machine, ls_gpus *gpus);
