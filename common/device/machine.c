/* SPDX-License-Identifier: MIT */
/*
 * Machine: what hwloc and the system report, read once. The whole topology is loaded to count the
 * machine's cores. The usable cores have a hardware thread in both the process's affinity mask and
 * the group's set (hwloc's allowed set), each represented by the first such thread. With a CPU
 * quota of q cores only the first ceil(q) are used: more threads would only be throttled
 * alternately. The GPUs are found by the CUDA back end, not by hwloc. Left out: cores that go
 * offline later, and other processes on the same cores.
 */
#include "common/device/affinity.h"
#include "common/device/machine_limits.h"
#include "common/device/machine_private.h"

#include <hwloc.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

const char *ls_machine_hwloc_version(void)
{
    return HWLOC_VERSION;
}

static const char *widest_isa(void)
{
#if defined(__x86_64__) || defined(__i386__)
    if (__builtin_cpu_supports("avx512f"))
        return "avx512f";
    if (__builtin_cpu_supports("avx2"))
        return "avx2";
    return "portable";
#elif defined(__aarch64__)
    return "neon";
#else
    return "portable";
#endif
}

/* Names of the system; never empty, even if a call fails. */
static void describe_system(ls_machine_info *info)
{
    struct utsname names;
    if (uname(&names) == 0) {
        snprintf(info->host, sizeof info->host, "%.63s", names.nodename);
        snprintf(info->arch, sizeof info->arch, "%.31s", names.machine);
        snprintf(info->kernel, sizeof info->kernel, "%.20s %.42s", names.sysname, names.release);
    } else {
        snprintf(info->host, sizeof info->host, "unknown");
        snprintf(info->arch, sizeof info->arch, "unknown");
        snprintf(info->kernel, sizeof info->kernel, "unknown");
    }
    snprintf(info->isa, sizeof info->isa, "%s", widest_isa());
}

static void describe_cpu(ls_machine_info *info, hwloc_topology_t topology)
{
    char *text = ls_limits_read("/proc/cpuinfo");
    const bool found = text && ls_limits_cpu_model(text, info->cpu, sizeof info->cpu);
    if (text)
        ls_limits_cpu_identity(text, info->cpu_identity, sizeof info->cpu_identity);
    free(text);
    if (found)
        return;
    hwloc_obj_t package = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PACKAGE, 0);
    const char *model = package ? hwloc_obj_get_info_by_name(package, "CPUModel") : NULL;
    snprintf(info->cpu, sizeof info->cpu, "%s", model ? model : info->arch);
}

/* Counts a cache of a level and size; a ninth kind is ignored. */
static void count_cache(ls_machine_info *info, int level, size_t bytes)
{
    const int most = (int)(sizeof info->caches / sizeof *info->caches);
    int i = 0;
    while (i < info->cache_count &&
           (info->caches[i].level != level || info->caches[i].bytes != bytes))
        i++;
    if (i == most)
        return;
    if (i == info->cache_count)
        info->caches[info->cache_count++] = (ls_machine_cache){.level = level, .bytes = bytes};
    info->caches[i].count++;
}

static void describe_caches(ls_machine_info *info, hwloc_topology_t topology)
{
    static const hwloc_obj_type_t levels[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                              HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE,
                                              HWLOC_OBJ_L5CACHE};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        hwloc_obj_t cache = NULL;
        while ((cache = hwloc_get_next_obj_by_type(topology, levels[i], cache)) != NULL)
            count_cache(info, (int)i + 1, (size_t)cache->attr->cache.size);
    }
}

/* Lists the usable cores (see the head of this file) in machine->cores. */
static ls_status list_cores(ls_machine *machine, hwloc_topology_t topology, hwloc_bitmap_t usable)
{
    ls_machine_info *info = &machine->info;
    const int total = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    const hwloc_obj_type_t type = total > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    info->cores_total = total > 0 ? total : hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    const size_t cores = (size_t)info->cores_total;
    LS_TRY(ls_allocate("machine", &machine->cores, cores, sizeof *machine->cores));
    LS_TRY(ls_allocate("machine", &machine->nodes, cores, sizeof *machine->nodes));
    hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
    if (!allowed)
        return ls_fail_memory("machine", sizeof(void *));
    hwloc_obj_t core = NULL;
    while ((core = hwloc_get_next_obj_by_type(topology, type, core)) != NULL) {
        hwloc_bitmap_and(allowed, core->cpuset, usable);
        if (hwloc_bitmap_iszero(allowed))
            continue;
        const int node = core->nodeset ? hwloc_bitmap_first(core->nodeset) : -1;
        machine->nodes[info->cores_allowed] = node;
        machine->cores[info->cores_allowed++] = hwloc_bitmap_first(allowed);
    }
    hwloc_bitmap_free(allowed);
    if (!info->cores_allowed)
        return ls_fail(LS_CODE_MISSING, "machine", "cores",
                       "the affinity mask and the control group leave no core to this process; "
                       "allow a core with taskset, or in the control group's cpuset");
    if (info->cpu_quota > 0 && info->cpu_quota < info->cores_allowed)
        info->cores_allowed = info->cpu_quota <= 1 ? 1 : (int)ceil(info->cpu_quota);
    return LS_OK;
}

static ls_status find_cores(ls_machine *machine, hwloc_topology_t topology)
{
    hwloc_bitmap_t usable = hwloc_bitmap_alloc();
    if (!usable)
        return ls_fail_memory("machine", sizeof(void *));
    if (hwloc_get_cpubind(topology, usable, HWLOC_CPUBIND_THREAD) != 0)
        hwloc_bitmap_copy(usable, hwloc_topology_get_complete_cpuset(topology));
    hwloc_bitmap_and(usable, usable, hwloc_topology_get_allowed_cpuset(topology));
    ls_status status = list_cores(machine, topology, usable);
    hwloc_bitmap_free(usable);
    return status;
}

static ls_limits find_limits(void)
{
    char *groups = ls_limits_read("/proc/self/cgroup");
    char *mounts = ls_limits_read("/proc/self/mountinfo");
    ls_limits limits = {.memory = SIZE_MAX};
    if (groups && mounts)
        limits = ls_limits_find(groups, mounts);
    free(groups);
    free(mounts);
    return limits;
}

/* Fills the machine's description and its list of cores. */
static ls_status look(ls_machine *machine)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0)
        return ls_fail_memory("machine", sizeof(void *));
    ls_status status = LS_OK;
    if (hwloc_topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        hwloc_topology_load(topology) != 0) {
        status = ls_fail(LS_CODE_MISSING, "machine", "hwloc",
                         "the machine's topology cannot be read; check that /sys is mounted");
    } else {
        const ls_limits limits = find_limits();
        describe_system(&machine->info);
        describe_cpu(&machine->info, topology);
        const long pages = sysconf(_SC_PHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
        if (pages > 0 && bytes > 0)
            machine->info.memory_total = (size_t)pages * (size_t)bytes;
        machine->info.memory_limit =
            limits.memory < machine->info.memory_total ? limits.memory : machine->info.memory_total;
        describe_caches(&machine->info, topology);
        machine->info.cpu_quota = limits.cpu_quota;
        machine->info.numa_nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
        status = find_cores(machine, topology);
    }
    hwloc_topology_destroy(topology);
    return status;
}

void ls_gpus_explain(const ls_gpu_answer *answer, ls_gpus *out)
{
    const int driver = answer->driver, runtime = answer->runtime;
    *out->reason = 0;
    *out->driver = 0;
    if (driver <= 0) {
        snprintf(out->reason, sizeof out->reason, "no GPU driver is installed");
        return;
    }
    snprintf(out->driver, sizeof out->driver, "CUDA %d.%d", driver / 1000, driver % 1000 / 10);
    if (answer->too_old)
        snprintf(out->reason, sizeof out->reason,
                 "the GPU driver is too old: it supports %s, but this build needs CUDA %d.%d",
                 out->driver, runtime / 1000, runtime % 1000 / 10);
    else if (answer->error && answer->visible)
        snprintf(out->reason, sizeof out->reason, "no GPU: %s (CUDA_VISIBLE_DEVICES is '%.32s')",
                 answer->error, answer->visible);
    else if (answer->error)
        snprintf(out->reason, sizeof out->reason, "no GPU: %s", answer->error);
    else if (!answer->count)
        snprintf(out->reason, sizeof out->reason, "no GPU: the driver shows none");
}

/* Lists the GPUs that this build finds. */
static ls_status find_gpus(ls_machine *machine)
{
    ls_gpus gpus = {.reason = "no GPU: this build has no CUDA"};
#if LS_HAS_CUDA
    LS_TRY(ls_gpus_look(&gpus));
#endif
    return ls_machine_take_gpus(machine, &gpus);
}

ls_status ls_machine_take_gpus(ls_machine *machine, ls_gpus *gpus)
{
    ls_machine_info *info = &machine->info;
    machine->gpus = *gpus;
    snprintf(info->gpu, sizeof info->gpu, "%s", gpus->count ? gpus->items->name : gpus->reason);
    memcpy(info->driver, gpus->driver, sizeof info->driver);
    LS_TRY(ls_allocate("machine", &machine->arenas, (size_t)gpus->count, sizeof(void *)));
    for (int i = 0; i < gpus->count; i++)
        LS_TRY(ls_arena_create(&machine->arenas[i]));
    return LS_OK;
}

static ls_status check_range(const char *option, int value, int most)
{
    if (value >= 0 && value <= most)
        return LS_OK;
    char where[16];
    snprintf(where, sizeof where, "%d", value);
    return ls_fail(LS_CODE_USAGE, option, where, "this number is out of range; use 1 to %d", most);
}

/* Keeps this process's share of the cores, or one core if there are fewer cores than processes. */
static void keep_part(ls_machine *machine, const ls_machine_options *options)
{
    ls_machine_info *info = &machine->info;
    const int parts = options->parts, all = info->cores_allowed;
    if (parts > 1) {
        const int first = (int)((int64_t)options->part * all / parts);
        const int last = (int)((int64_t)(options->part + 1) * all / parts);
        info->cores_allowed = last > first ? last - first : 1;
        memmove(machine->cores, machine->cores + first,
                (size_t)info->cores_allowed * sizeof *machine->cores);
        memmove(machine->nodes, machine->nodes + first,
                (size_t)info->cores_allowed * sizeof *machine->nodes);
    }
    if (options->neighbours > 1)
        info->memory_limit /= (size_t)options->neighbours;
}

/* Sets the numbers of devices from the options. */
static ls_status set_devices(ls_machine *machine, const ls_machine_options *options)
{
    const int cores = machine->info.cores_allowed;
    machine->cores_per_device = options->cores_per_device ? options->cores_per_device : 1;
    if (machine->cores_per_device > cores) {
        char where[16];
        snprintf(where, sizeof where, "%d", machine->cores_per_device);
        return ls_fail(LS_CODE_USAGE, "--cores-per-device", where,
                       "this is more than the cores that this process may use; use at most %d",
                       cores);
    }
    machine->cpu_devices = options->cpu_devices;
    if (!machine->cpu_devices)
        machine->cpu_devices = cores / machine->cores_per_device;
    if (machine->cpu_devices > LS_MACHINE_DEVICES_MOST)
        machine->cpu_devices = LS_MACHINE_DEVICES_MOST;
    machine->logical_gpus = options->logical_gpus ? options->logical_gpus : 1;
    machine->neighbour = options->neighbour;
    return LS_OK;
}

ls_status ls_machine_open(const ls_machine_options *options, ls_machine **out)
{
    LS_TRY(check_range("--cpu-devices", options->cpu_devices, LS_MACHINE_DEVICES_MOST));
    LS_TRY(check_range("--cores-per-device", options->cores_per_device, LS_MACHINE_CORES_MOST));
    LS_TRY(check_range("--logical-gpus", options->logical_gpus, LS_MACHINE_LOGICAL_MOST));
    LS_TRY(ls_affinity_check_openmp());
    ls_machine *machine;
    LS_TRY(ls_allocate("machine", &machine, 1, sizeof *machine));
    ls_status status = ls_pulse_open(&machine->pulse);
    if (!status)
        status = look(machine);
    if (!status)
        keep_part(machine, options);
    if (!status)
        status = set_devices(machine, options);
    if (!status)
        status = find_gpus(machine);
    if (status) {
        ls_machine_close(machine);
        return status;
    }
    *out = machine;
    return LS_OK;
}

void ls_machine_close(ls_machine *machine)
{
    if (!machine)
        return;
    for (int i = 0; machine->arenas && i < machine->gpus.count; i++)
        ls_arena_destroy(machine->arenas[i]);
    free(machine->arenas);
    free(machine->gpus.items);
    free(machine->cores);
    free(machine->nodes);
    ls_pulse_close(machine->pulse);
    free(machine);
}

ls_pulse *ls_machine_pulse(const ls_machine *machine)
{
    return machine->pulse;
}

const ls_machine_info *ls_machine_describe(const ls_machine *machine)
{
    return &machine->info;
}
