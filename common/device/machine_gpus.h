/* SPDX-License-Identifier: MIT */
/* What devices are made of: the machine's GPUs, and what all devices on it, or on one GPU, share.
 */
#pragma once

#include "common/device/arena.h"
#include "common/device/gpus.h"

struct ls_device_info;                /* device.h */
typedef struct ls_machine ls_machine; /* machine.h */

/** The pulse (pulse.h) of all queues of the machine's devices. */
struct ls_pulse *ls_machine_pulse(const ls_machine *machine);

/** Writes what is known of a GPU before it is opened. */
void ls_device_info_of_gpu(const ls_gpu *gpu, struct ls_device_info *out);

/** GPU of this number, below the number of GPUs; owned by the machine. */
const ls_gpu *ls_machine_gpu(const ls_machine *machine, int index);

/** How many parts a GPU counts as. */
int ls_machine_logical_gpus(const ls_machine *machine);

/** The memory of GPU `index`, which all devices on it share; owned by the machine. */
ls_arena *ls_machine_arena(const ls_machine *machine, int index);
