/* SPDX-License-Identifier: MIT */
/*
 * `lockstep devices [SPEC]...`: the machine and its limits, its devices and each one's cores, and
 * what each SPEC (a value of --devices) resolves to. Every SPEC is resolved before anything is
 * printed. An invalid one is refused; one that does not exist here is shown with the reason, and
 * the command then ends with that failure.
 */
#include "bench/case/workplace.h"
#include "bench/cli/option_set.h"
#include "bench/commands/command.h"
#include "bench/output/format.h"
#include "bench/output/standard_output.h"
#include "bench/train/world.h"
#include "common/base/numbers.h"
#include "common/kernel/kernel.h"
#include "common/device/machine.h"
#include "common/device/machine_gpus.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { CORES_MOST = 64, SPECS_MOST = 1024 };

/* ---- Table --------------------------------------------------------------------------------- */

static json_int_t core_at(const json_t *cores, size_t index)
{
    return json_integer_value(json_array_get(cores, index));
}

/* "cpu:0", and "0-3,8" for a device with cores, otherwise "". */
static const char *name_device(json_t *device, char *text, size_t size)
{
    const char *name = "";
    const json_t *cores = NULL;
    size_t used = 0;
    json_unpack(device, "{s:s,s?o}", "name", &name, "cores", &cores);
    *text = 0;
    for (size_t i = 0, last; i < json_array_size(cores) && used < size; i = last + 1) {
        for (last = i; core_at(cores, last + 1) == core_at(cores, last) + 1;)
            last++;
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i ? "," : "",
                                 (long long)core_at(cores, i));
        if (last > i && used < size)
            used += (size_t)snprintf(text + used, size - used, "-%lld",
                                     (long long)core_at(cores, last));
    }
    return name;
}

static void print_machine(const ls_machine_info *info)
{
    char bytes[32];
    fprintf(ls_output(), "host      %s (%s, %s)\n", info->host, info->kernel, info->arch);
    const char *library = ls_kernel_library_isa();
    fprintf(ls_output(), "cpu       %s; vectors: %s\n", info->cpu, info->isa);
    fprintf(ls_output(), "uses      loops %s, oneDNN %s\n", ls_kernel_loops_isa(),
            *library ? library : "what it finds");
    fprintf(ls_output(), "cores     %d, %d of them for this process\n", info->cores_total,
            info->cores_allowed);
    fprintf(ls_output(), "numa      %d node%s\n", info->numa_nodes,
            info->numa_nodes == 1 ? "" : "s");
    for (int i = 0; i < info->cache_count; i++)
        fprintf(ls_output(), "cache     L%d: %d of %s\n", info->caches[i].level,
                info->caches[i].count, ls_format_bytes((double)info->caches[i].bytes, bytes));
    fprintf(ls_output(), "memory    %s\n", ls_format_bytes((double)info->memory_total, bytes));
    if (info->driver[0])
        fprintf(ls_output(), "gpu       %s; driver: %s\n", info->gpu, info->driver);
    else
        fprintf(ls_output(), "gpu       %s\n", info->gpu);
}

static void print_limits(const ls_machine_info *info)
{
    char bytes[32];
    const char *separator = "limits    ";
    if (info->cpu_quota > 0) {
        fprintf(ls_output(), "%sCPU quota of %.2f cores", separator, info->cpu_quota);
        separator = "; ";
    }
    if (info->cores_allowed < info->cores_total) {
        fprintf(ls_output(), "%s%d of %d cores", separator, info->cores_allowed, info->cores_total);
        separator = "; ";
    }
    if (info->memory_limit < info->memory_total) {
        fprintf(ls_output(), "%smemory %s", separator,
                ls_format_bytes((double)info->memory_limit, bytes));
        separator = "; ";
    }
    fprintf(ls_output(), "%s\n", separator[0] == ';' ? "" : "limits    none");
}

/* Name of GPU `number`, or of the logical GPU if they are split. */
static ls_device_name gpu_at(const ls_machine *machine, int number)
{
    const int parts = ls_machine_logical_gpus(machine);
    return (ls_device_name){
        .kind = LS_DEVICE_GPU, .index = number / parts, .logical = parts > 1 ? number % parts : -1};
}

/* A GPU's capacity is only known once it is opened: its share of the memory then free. */
static void print_gpus(const ls_machine *machine)
{
    const int parts = ls_machine_logical_gpus(machine);
    for (int i = 0; i < ls_machine_count(machine, LS_DEVICE_GPU); i++) {
        const ls_device_name name = gpu_at(machine, i);
        const ls_gpu *gpu = ls_machine_gpu(machine, name.index);
        char text[32], bytes[32];
        fprintf(ls_output(), "%-10s %12s  %s, %d multiprocessors, sm_%d%d, pci %s%s\n",
                ls_device_name_text(&name, text),
                ls_format_bytes((double)gpu->memory / parts, bytes), gpu->name,
                gpu->multiprocessors, gpu->major, gpu->minor, gpu->pci,
                parts > 1 ? ", shared" : "");
    }
}

static void print_devices(const ls_machine *machine, const json_t *devices)
{
    const int count = ls_machine_count(machine, LS_DEVICE_CPU);
    char bytes[32], cores[512], list[256];
    ls_format_bytes((double)ls_machine_cpu_capacity(machine), bytes);
    fprintf(ls_output(), "\n%-10s %12s  %s\n", "device", "capacity", "cores");
    for (int i = 0; i < count; i++) {
        const char *name = name_device(json_array_get(devices, (size_t)i), cores, sizeof cores);
        fprintf(ls_output(), "%-10s %12s  %s\n", name, bytes, cores);
    }
    print_gpus(machine);
    fprintf(ls_output(), "names: %s\n", ls_machine_list(machine, list, sizeof list));
    if ((int64_t)count * ls_machine_cores_per_device(machine) >
        ls_machine_describe(machine)->cores_allowed)
        fputs("oversubscribed: some of these devices share cores\n", ls_output());
}

static void print_resolutions(const json_t *resolved)
{
    size_t r, d;
    json_t *one, *device;
    char cores[512];
    json_array_foreach(resolved, r, one)
    {
        const char *spec, *error = NULL;
        json_t *devices = NULL;
        int crowded = false;
        json_unpack(one, "{s:s,s?s,s?o,s?b}", "spec", &spec, "error", &error, "devices", &devices,
                    "oversubscribed", &crowded);
        fprintf(ls_output(), "%s%s ->", r ? "" : "\n", spec);
        json_array_foreach(devices, d, device)
        {
            fprintf(ls_output(), " %s", name_device(device, cores, sizeof cores));
            if (*cores)
                fprintf(ls_output(), " (cores %s)", cores);
        }
        if (error)
            fprintf(ls_output(), " %s", error);
        fprintf(ls_output(), "%s\n", crowded ? "; oversubscribed" : "");
    }
}

/* "0,2" for a rank's list, or `none` if it is empty; owned by the caller. */
static char *list_text(const json_t *list, const char *none)
{
    char *text = json_array_size(list) ? ls_value_text(list) : strdup(none);
    for (char *c = text; c && *c; c++)
        *c = *c == '+' ? ',' : *c;
    return text;
}

/* A line for each rank that a launcher started: its host, its own cores and their NUMA nodes, and
 * its visible GPUs. */
static void print_ranks(const json_t *ranks)
{
    size_t r;
    json_t *rank;
    if (json_array_size(ranks))
        fprintf(ls_output(), "\n%-6s %-20s %-16s %-6s %s\n", "rank", "host", "cores", "numa",
                "gpus");
    json_array_foreach(ranks, r, rank)
    {
        const char *host = "";
        json_t *lists[3] = {NULL};
        json_unpack(rank, "{s:s,s:o,s:o,s:o}", "host", &host, "cores", &lists[0], "numa", &lists[1],
                    "gpus", &lists[2]);
        char *cores = list_text(lists[0], "none");
        char *nodes = list_text(lists[1], "?");
        char *gpus = list_text(lists[2], "none");
        fprintf(ls_output(), "%-6zu %-20s %-16s %-6s %s\n", r, host, cores, nodes, gpus);
        free(cores);
        free(nodes);
        free(gpus);
    }
}

/* ---- JSON ---------------------------------------------------------------------------------- */

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
    for (int i = 0; i < ls_machine_count(machine, LS_DEVICE_CPU); i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        json_array_append_new(devices, json_of_device(machine, &name));
    }
    for (int i = 0; i < ls_machine_count(machine, LS_DEVICE_GPU); i++) {
        const ls_device_name name = gpu_at(machine, i);
        json_array_append_new(devices, json_of_device(machine, &name));
    }
    return devices;
}

/* Appends what a SPEC resolves to, or why it does not exist here (also to *missing). */
static ls_status resolve(const ls_machine *machine, const char *spec, json_t *resolved,
                         ls_status *missing)
{
    ls_device_name *names = NULL;
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
    free(names);
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
    for (int i = 0; i < ls_machine_count(machine, LS_DEVICE_GPU); i++)
        json_array_append_new(gpus,
                              json_string(ls_machine_gpu(machine, gpu_at(machine, i).index)->pci));
    return json_pack("{s:i, s:s, s:o, s:o, s:o}", "rank", number, "host",
                     ls_machine_describe(machine)->host, "cores", cores, "numa", nodes, "gpus",
                     gpus);
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
        print_machine(ls_machine_describe(machine));
        print_limits(ls_machine_describe(machine));
        print_devices(machine, devices);
        print_resolutions(resolved);
        print_ranks(ranks);
    }
    return ls_status_first(status, missing);
}

static ls_status run(const ls_option_set *set, const ls_processes *processes)
{
    const char *format = ls_option_set_text(set, "format", "table");
    const bool json = strcmp(format, "json") == 0;
    static const char *const taken[] = {"launcher", "cpu-devices", "cores-per-device",
                                        "logical-gpus"};
    ls_request request = {.processes = processes};
    ls_machine *machine;
    if (!json && strcmp(format, "table") != 0)
        return ls_fail(LS_CODE_USAGE, "--format", format,
                       "is a format of rows of results, which devices are not; use table or json");
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        LS_TRY(ls_option_set_take(set, taken[i], NULL, NULL, NULL, &request));
    const ls_machine_options options = ls_request_machine(&request);
    LS_TRY(ls_world_agree(processes->comm, ls_machine_open(&options, &machine)));
    ls_status status = show(set, machine, processes, json);
    ls_machine_close(machine);
    return ls_world_agree(processes->comm, status);
}

ls_status ls_command_devices(const ls_processes *processes, int argc, char **argv, int *exit_status)
{
    ls_option_set set;
    LS_TRY(ls_option_set_open(LS_FOR_DEVICES, &set));
    ls_status status = ls_option_set_read(&set, argc, argv, SPECS_MOST);
    if (!status)
        status = run(&set, processes);
    ls_option_set_close(&set);
    *exit_status = 0;
    return status;
}
