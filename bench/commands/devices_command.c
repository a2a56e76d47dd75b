/* SPDX-License-Identifier: MIT */
/*
 * `lockstep devices [SPEC]...`: the machine and its limits, its devices and each one's cores, and
 * what each SPEC (a value of --devices) resolves to. Every SPEC is resolved before anything is
 * printed. An invalid one is refused; one that does not exist here is shown with the reason, and
 * the command then ends with that failure.
 */
#include "bench/case/workplace.h"
#include "bench/commands/command.h"
#include "bench/output/format.h"
#include "bench/output/standard_output.h"
#include "bench/train/world.h"
#include "common/base/grow.h"
#include "common/kernel/kernel.h"
#include "common/device/machine.h"
#include "common/device/machine_gpus.h"
#include "template_devices.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { CORES_MOST = 64 };

/* ---- JSON ---------------------------------------------------------------------------------- */

/* Device `number`: CPU devices come before GPUs, or logical GPUs if those are split. */
static ls_device_name device_at(const ls_machine *machine, int number)
{
    const int parts = ls_machine_logical_gpus(machine);
    const int gpu = number - ls_machine_count(machine, LS_DEVICE_CPU);
    return gpu < 0 ? (ls_device_name){.kind = LS_DEVICE_CPU, .index = number, .logical = -1}
                   : (ls_device_name){.kind = LS_DEVICE_GPU,
                                      .index = gpu / parts,
                                      .logical = parts > 1 ? gpu % parts : -1};
}

static int device_count(const ls_machine *machine)
{
    return ls_machine_count(machine, LS_DEVICE_CPU) + ls_machine_count(machine, LS_DEVICE_GPU);
}

static json_t *json_of_machine(const ls_machine_info *info)
{
    json_t *caches = json_array();
    for (int i = 0; i < info->cache_count; i++)
        json_array_append_new(caches, json_pack("{s:i, s:I, s:i}", "level", info->caches[i].level,
                                                "bytes", (json_int_t)info->caches[i].bytes, "count",
                                                info->caches[i].count));
    json_t *quota = info->cpu_quota > 0 ? json_real(info->cpu_quota) : json_null();
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:i, s:i, s:i, s:o, s:I, s:I, s:o, s:s, s:s, s:s}",
                     "host", info->host, "cpu", info->cpu, "arch", info->arch, "kernel",
                     info->kernel, "isa", info->isa, "cores_total", info->cores_total,
                     "cores_allowed", info->cores_allowed, "numa_nodes", info->numa_nodes,
                     "cpu_quota", quota, "memory_total", (json_int_t)info->memory_total,
                     "memory_limit", (json_int_t)info->memory_limit, "caches", caches, "gpu",
                     info->gpu, "driver", info->driver, "hwloc", ls_machine_hwloc_version());
}

static json_t *json_of_device(const ls_machine *machine, const ls_device_name *name)
{
    char text[32];
    json_t *device = json_pack("{s:s}", "name", ls_device_name_text(name, text));
    if (name->kind == LS_DEVICE_GPU) {
        const ls_gpu *gpu = ls_machine_gpu(machine, name->index);
        json_t *facts =
            json_pack("{s:s, s:s, s:i, s:s, s:I}", "gpu", gpu->name, "pci", gpu->pci,
                      "multiprocessors", gpu->multiprocessors, "driver",
                      ls_machine_describe(machine)->driver, "memory", (json_int_t)gpu->memory);
        json_object_update_new(device, facts);
        return device;
    }
    int cores[CORES_MOST];
    const int count = ls_machine_cores(machine, name->index, cores, CORES_MOST);
    json_t *list = json_array();
    for (int i = 0; i < count; i++)
        json_array_append_new(list, json_integer(cores[i]));
    json_object_set_new(device, "cores", list);
    json_object_set_new(device, "capacity",
                        json_integer((json_int_t)ls_machine_cpu_capacity(machine)));
    return device;
}

static json_t *json_of_devices(const ls_machine *machine)
{
    json_t *devices = json_array();
    for (int i = 0; i < device_count(machine); i++) {
        const ls_device_name name = device_at(machine, i);
        json_array_append_new(devices, json_of_device(machine, &name));
    }
    return devices;
}

/* Appends what a SPEC resolves to, or why it does not exist here (also to *missing). */
static ls_status resolve(const ls_machine *machine, const char *spec, json_t *resolved,
                         ls_status *missing)
{
    ls_auto ls_device_name *names = NULL;
    size_t count = 0;
    json_auto_t *devices = json_array();
    ls_status status = ls_machine_resolve(machine, spec, &names, &count);
    for (size_t i = 0; i < count && !status; i++)
        json_array_append_new(devices, json_of_device(machine, &names[i]));
    if (!status)
        json_array_append_new(resolved,
                              json_pack("{s:s, s:O, s:b}", "spec", spec, "devices", devices,
                                        "oversubscribed",
                                        ls_machine_oversubscribed(machine, names, count)));
    if (ls_status_code(status) != LS_CODE_MISSING)
        return status;
    json_array_append_new(resolved,
                          json_pack("{s:s, s:s}", "spec", spec, "error", ls_status_text(status)));
    *missing = ls_status_first(*missing, status);
    return LS_OK;
}

/* The cores of this rank's devices, their distinct NUMA nodes, and its GPUs' addresses. */
static json_t *json_of_rank(const ls_machine *machine, int number)
{
    json_t *cores = json_array(), *nodes = json_array(), *gpus = json_array();
    uint64_t seen = 0;
    for (int i = 0; i < ls_machine_count(machine, LS_DEVICE_CPU); i++) {
        int numbers[CORES_MOST];
        const int count = ls_machine_cores(machine, i, numbers, CORES_MOST);
        for (int k = 0; k < count && k < CORES_MOST; k++) {
            const int node = ls_machine_numa_node(machine, numbers[k]);
            json_array_append_new(cores, json_integer(numbers[k]));
            if (node < 0 || node >= 64 || seen >> node & 1)
                continue;
            seen |= 1ull << node;
            json_array_append_new(nodes, json_integer(node));
        }
    }
    for (int i = ls_machine_count(machine, LS_DEVICE_CPU); i < device_count(machine); i++)
        json_array_append_new(
            gpus, json_string(ls_machine_gpu(machine, device_at(machine, i).index)->pci));
    return json_pack("{s:i, s:s, s:o, s:o, s:o}", "rank", number, "host",
                     ls_machine_describe(machine)->host, "cores", cores, "numa", nodes, "gpus",
                     gpus);
}

/* What only the text has. A GPU's capacity is known once it is opened: its share of the memory
 * then free. */
static json_t *json_of_text(const ls_machine *machine)
{
    char list[256];
    const int count = ls_machine_count(machine, LS_DEVICE_CPU);
    json_t *sm = json_array();
    for (int i = 0; i < device_count(machine); i++) {
        const ls_gpu *gpu = i < count ? NULL : ls_machine_gpu(machine, device_at(machine, i).index);
        json_array_append_new(sm,
                              gpu ? json_sprintf("sm_%d%d", gpu->major, gpu->minor) : json_null());
    }
    return json_pack("{s:s,s:s,s:i,s:o,s:s,s:b}", "loops", ls_kernel_loops_isa(), "library",
                     ls_kernel_library_isa(), "parts", ls_machine_logical_gpus(machine), "sm", sm,
                     "names", ls_machine_list(machine, list, sizeof list), "crowded",
                     (int64_t)count * ls_machine_cores_per_device(machine) >
                         ls_machine_describe(machine)->cores_allowed);
}

static ls_status show(const ls_option_set *set, const ls_machine *machine,
                      const ls_processes *processes, bool json)
{
    ls_status missing = LS_OK;
    json_t *resolved = json_array(), *devices = json_of_devices(machine);
    json_auto_t *ranks = NULL;
    json_auto_t *all =
        json_pack("{s:o, s:o, s:o}", "machine", json_of_machine(ls_machine_describe(machine)),
                  "devices", devices, "resolved", resolved);
    ls_status status = LS_OK;
    if (processes->comm) { /* each rank's part on rank 0 */
        json_auto_t *rank = json_of_rank(machine, processes->rank);
        status = ls_world_gather_json(processes->comm, rank, &ranks);
    }
    if (json_array_size(ranks))
        json_object_set(all, "ranks", ranks);
    for (size_t i = 0; i < set->operand_count && !status; i++)
        status = resolve(machine, set->operands[i], resolved, &missing);
    if (!status && json) {
        json_dumpf(all, ls_output(), JSON_INDENT(2));
        fputc('\n', ls_output());
    } else if (!status) {
        json_object_set_new(all, "also", json_of_text(machine));
        status = ls_document_write(ls_template_devices, all, "table", NULL, ls_output());
    }
    return ls_status_first(status, missing);
}

ls_status ls_command_devices(const ls_invocation *in, int *exit_status)
{
    static const char *const taken[] = {"launcher", "cpu-devices", "cores-per-device",
                                        "logical-gpus"};
    const char *format = ls_option_set_text(in->set, "format", "table");
    const bool json = strcmp(format, "json") == 0;
    ls_comm *comm = in->processes->comm;
    ls_request request = {.processes = in->processes};
    ls_machine *machine;
    if (!json && strcmp(format, "table") != 0)
        return ls_fail(
            LS_CODE_USAGE, "--format", format,
            "this format does not work with lockstep devices; use --format table or json");
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        LS_TRY(ls_option_set_take(in->set, taken[i], NULL, NULL, NULL, &request));
    const ls_machine_options options = ls_request_machine(&request);
    LS_TRY(ls_world_agree(comm, ls_machine_open(&options, &machine)));
    ls_status status = show(in->set, machine, in->processes, json);
    ls_machine_close(machine);
    *exit_status = 0;
    return ls_world_agree(comm, status);
}
