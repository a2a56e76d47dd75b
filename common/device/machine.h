/* SPDX-License-Identifier: MIT */
/*
 * Machine: what this process may use, and the devices made of it. A CPU device is a set of cores
 * chosen with hwloc inside the process's affinity mask and CPU quota (cgroup). cpu:i has cores
 * [i*c, (i+1)*c) of this set in order, c cores per device; past its end the numbers wrap around:
 * such devices share cores, and are called oversubscribed. If several processes of a job may use
 * the same cores, each gets a share of them, or shares one with others. gpu:g is the GPU with
 * number g among the GPUs that the driver shows (which CUDA_VISIBLE_DEVICES limits). With n logical
 * GPUs gpu:g/0 to gpu:g/n-1 are parts of it: each has its queues and an n-th of its memory; they
 * share its multiprocessors as the hardware schedules them, and so are oversubscribed, too. With
 * several processes on a host, a number N in `--devices` means, for process number r, GPUs r N to r
 * N + N - 1 of the GPUs that process r sees, wrapping around at their end. A name such as gpu:0
 * means the same GPU in every process.
 */
#pragma once

#include "common/base/status.h"
#include "common/device/device_name.h"

#include <stdbool.h>
#include <stddef.h>

/** What this process may use of its host. */
typedef struct ls_machine ls_machine;

/** How the machine is divided into devices. All zero: a device for each core, all for this
 * process. */
typedef struct ls_machine_options {
    int cpu_devices;      /**< 0 means cores / cores_per_device, at least 1 */
    int cores_per_device; /**< 0 means 1 */
    int logical_gpus;     /**< 0 means 1; each GPU counts as this many */
    int part, parts;      /**< this process gets cores number `part` of `parts`; 0 means all */
    int neighbours;       /**< processes that share the memory; 0 means 1 */
    int neighbour;        /**< its number on the host, which decides its GPUs */
} ls_machine_options;

/** Caches of one level. */
typedef struct ls_machine_cache {
    int level;    /**< 1, 2, ... */
    size_t bytes; /**< of one cache */
    int count;    /**< how many the machine has */
} ls_machine_cache;

/** Facts for provenance and `lockstep devices`. Text is never NULL. */
typedef struct ls_machine_info {
    char host[64];              /**< name of the host */
    char cpu[128];              /**< model name as the system tells it */
    char cpu_identity[96];      /**< tells processors of one model name apart (machine_limits.h) */
    char arch[32];              /**< uname machine */
    char kernel[64];            /**< operating system and release */
    char isa[32];               /**< widest vector extension found: for example "avx512f" */
    int cores_total;            /**< cores of the machine, hardware threads counted once */
    int cores_allowed;          /**< after the affinity mask and the CPU quota */
    int numa_nodes;             /**< of the machine */
    double cpu_quota;           /**< cores' worth of the cgroup's quota; 0 if none */
    size_t memory_total;        /**< bytes */
    size_t memory_limit;        /**< the smaller of memory_total and the cgroup's limit */
    ls_machine_cache caches[8]; /**< the first cache_count of them */
    int cache_count;            /**< at most 8 */
    char gpu[128];              /**< why there is no GPU ("no driver"), or the first one's name */
    char driver[32];            /**< "" without one */
} ls_machine_info;

/** Inspects the machine. LS_CODE_USAGE for numbers out of range. */
ls_status ls_machine_open(const ls_machine_options *options, ls_machine **out);
/** After every device. Takes NULL. */
void ls_machine_close(ls_machine *machine);

/** Its facts; owned by the machine. */
const ls_machine_info *ls_machine_describe(const ls_machine *machine);

/** Version of the topology library that this build uses: "2.9.0". */
const char *ls_machine_hwloc_version(void);

/** How many devices of a kind there are. A number in `--devices` may make more CPU devices. */
int ls_machine_count(const ls_machine *machine, ls_device_kind kind);

/** Cores of one CPU device. */
int ls_machine_cores_per_device(const ls_machine *machine);

/** The kind of the default device: a GPU where there is one. */
ls_device_kind ls_machine_best_kind(const ls_machine *machine);

/**
 * Resolves "2" or "cpu:0+cpu:1" to names, owned by the caller (free). A number selects devices of
 * the best kind and creates more CPU devices as needed; a name that does not exist is
 * LS_CODE_MISSING with the list of existing ones; a device named twice is LS_CODE_USAGE.
 */
ls_status ls_machine_resolve(const ls_machine *machine, const char *spec, ls_device_name **out,
                             size_t *out_count);

/** "cpu:0, cpu:1": the names that exist, for messages. Returns `text`. */
char *ls_machine_list(const ls_machine *machine, char *text, size_t size);

/**
 * Operating-system numbers of the cores that CPU device `index` holds, one per core (the first
 * hardware thread). Writes at most `capacity`, returns how many there are.
 */
int ls_machine_cores(const ls_machine *machine, int index, int *cores, int capacity);

/** NUMA node (operating-system number) of a core that this process may use; -1 if not known. */
int ls_machine_numa_node(const ls_machine *machine, int core);

/** Whether any two of the devices share a core, or a GPU. */
bool ls_machine_oversubscribed(const ls_machine *machine, const ls_device_name *names,
                               size_t count);

/** Bytes that a CPU device may take: the memory limit over the number of CPU devices. */
size_t ls_machine_cpu_capacity(const ls_machine *machine);
