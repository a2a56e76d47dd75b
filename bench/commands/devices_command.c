/* SPDX-License-Identifier: MIT */
/*
 * `lockstep devices [SPEC]...`: the machine and the limits found on it, its devices with the cores
 * that each one holds, and what each SPEC (a value of --devices) resolves to.
 *
 * Every SPEC is resolved before anything is printed. One that cannot be read is refused; one that
 * does not exist here is shown with the reason, and the command then ends with that failure.
 */
#include "bench/case/workplace.h"
#include "bench/cli/option_set.h"
#include "bench/commands/command.h"
#include "bench/output/format_parts.h"
#include "bench/train/world.h"
#include "common/base/numbers.h"
#include "common/device/machine.h"
#include "common/device/machine_gpus.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { CORES_MOST = 64, SPECS_MOST = 1024 };

/* A value of --devices and what it means here. */
typedef struct resolution {
    const char *spec;
    ls_device_name *names; /* NULL where `missing` is set */
    size_t count;
    ls_status missing; /* why it does not exist here */
} resolution;

typedef struct device_view {
    const ls_machine *machine;
    int ranks;         /* that a launcher started; 0: it did not */
    char **rank_texts; /* [ranks] JSON of each, on rank 0: rank, host, cores */
    resolution *resolutions;
    size_t resolution_count;
} device_view;

/* ---- Table --------------------------------------------------------------------------------- */

/* Writes "0-3,8". */
static char *cores_text(const ls_machine *machine, int index, char *text, size_t size)
{
    int cores[CORES_MOST];
    const int count = ls_machine_cores(machine, index, cores, CORES_MOST);
    size_t used = 0;
    *text = 0;
    for (int i = 0; i < count && used < size;) {
        int last = i;
        while (last + 1 < count && cores[last + 1] == cores[last] + 1)
            last++;
        used += (size_t)snprintf(text + used, size - used, "%s%d", i ? "," : "", cores[i]);
        if (last > i && used < size)
            used += (size_t)snprintf(text + used, size - used, "-%d", cores[last]);
        i = last + 1;
    }
    return text;
}

static void print_machine(const ls_machine_info *info)
{
    char bytes[32];
    printf("host      %s (%s, %s)\n", info->host, info->kernel, info->arch);
    printf("cpu       %s; vectors: %s\n", info->cpu, info->isa);
    printf("cores     %d, %d of them for this process\n", info->cores_total, info->cores_allowed);
    printf("numa      %d node%s\n", info->numa_nodes, info->numa_nodes == 1 ? "" : "s");
    for (int i = 0; i < info->cache_count; i++)
        printf("cache     L%d: %d of %s\n", info->caches[i].level, info->caches[i].count,
               ls_format_bytes((double)info->caches[i].bytes, bytes));
    printf("memory    %s\n", ls_format_bytes((double)info->memory_total, bytes));
    if (info->driver[0])
        printf("gpu       %s; driver: %s\n", info->gpu, info->driver);
    else
        printf("gpu       %s\n", info->gpu);
}

static void print_limits(const ls_machine_info *info)
{
    char bytes[32];
    const char *separator = "limits    ";
    if (info->cpu_quota > 0) {
        printf("%sCPU quota of %.2f cores", separator, info->cpu_quota);
        separator = "; ";
    }
    if (info->cores_allowed < info->cores_total) {
        printf("%s%d of %d cores", separator, info->cores_allowed, info->cores_total);
        separator = "; ";
    }
    if (info->memory_limit < info->memory_total) {
        printf("%smemory %s", separator, ls_format_bytes((double)info->memory_limit, bytes));
        separator = "; ";
    }
    puts(separator[0] == ';' ? "" : "limits    none");
}

/* Name of the place-th GPU, or logical GPU where they are split. */
static ls_device_name gpu_at(const ls_machine *machine, int place)
{
    const int parts = ls_machine_logical_gpus(machine);
    return (ls_device_name){
        .kind = LS_DEVICE_GPU, .index = place / parts, .logical = parts > 1 ? place % parts : -1};
}

/* A GPU's capacity is known when it is opened: its part of what is free then, of this at most. */
static void print_gpus(const ls_machine *machine)
{
    const int parts = ls_machine_logical_gpus(machine);
    for (int i = 0; i < ls_machine_count(machine, LS_DEVICE_GPU); i++) {
        const ls_device_name name = gpu_at(machine, i);
        const ls_gpu *gpu = ls_machine_gpu(machine, name.index);
        char text[32], bytes[32];
        printf("%-10s %12s  %s, %d multiprocessors, sm_%d%d, pci %s%s\n",
               ls_device_name_text(&name, text),
               ls_format_bytes((double)gpu->memory / parts, bytes), gpu->name, gpu->multiprocessors,
               gpu->major, gpu->minor, gpu->pci, parts > 1 ? ", shared" : "");
    }
}

static void print_devices(const ls_machine *machine)
{
    const int count = ls_machine_count(machine, LS_DEVICE_CPU);
    char bytes[32], cores[512], list[256];
    ls_format_bytes((double)ls_machine_cpu_capacity(machine), bytes);
    printf("\n%-10s %12s  %s\n", "device", "capacity", "cores");
    for (int i = 0; i < count; i++) {
        char name[32];
        ls_device_name_text(&(ls_device_name){.kind = LS_DEVICE_CPU, .index = i, .logical = -1},
                            name);
        printf("%-10s %12s  %s\n", name, bytes, cores_text(machine, i, cores, sizeof cores));
    }
    print_gpus(machine);
    printf("names: %s\n", ls_machine_list(machine, list, sizeof list));
    if ((int64_t)count * ls_machine_cores_per_device(machine) >
        ls_machine_describe(machine)->cores_allowed)
        puts("oversubscribed: some of these devices share cores");
}

static void print_resolution(const ls_machine *machine, const resolution *one)
{
    printf("%s ->", one->spec);
    for (size_t i = 0; i < one->count; i++) {
        char name[32], cores[512];
        printf(" %s", ls_device_name_text(&one->names[i], name));
        if (one->names[i].kind == LS_DEVICE_CPU)
            printf(" (cores %s)", cores_text(machine, one->names[i].index, cores, sizeof cores));
    }
    if (one->missing)
        printf(" %s", ls_status_text(one->missing));
    else if (ls_machine_oversubscribed(machine, one->names, one->count))
        printf("; oversubscribed");
    putchar('\n');
}

/* "0,2" of a rank's list, or what stands for none; owned by the caller. */
static char *list_text(const json_t *list, const char *none)
{
    char *text = json_array_size(list) ? ls_value_text(list) : strdup(none);
    for (char *c = text; c && *c; c++)
        *c = *c == '+' ? ',' : *c;
    return text;
}

/* A line for each rank that a launcher started: where it is, which cores are its own, of which NUMA
 * nodes, and the GPUs that it sees. */
static void print_ranks(const device_view *view)
{
    if (!view->ranks || !view->rank_texts[0])
        return;
    printf("\n%-6s %-20s %-16s %-6s %s\n", "rank", "host", "cores", "numa", "gpus");
    for (int r = 0; r < view->ranks; r++) {
        json_t *rank = json_loads(view->rank_texts[r], 0, NULL);
        char *cores = list_text(json_object_get(rank, "cores"), "none");
        char *nodes = list_text(json_object_get(rank, "numa"), "?");
        char *gpus = list_text(json_object_get(rank, "gpus"), "none");
        printf("%-6d %-20s %-16s %-6s %s\n", r, json_string_value(json_object_get(rank, "host")),
               cores, nodes, gpus);
        free(cores);
        free(nodes);
        free(gpus);
        json_decref(rank);
    }
}

static void print_table(const device_view *view)
{
    const ls_machine_info *info = ls_machine_describe(view->machine);
    print_machine(info);
    print_limits(info);
    print_devices(view->machine);
    if (view->resolution_count)
        putchar('\n');
    for (size_t i = 0; i < view->resolution_count; i++)
        print_resolution(view->machine, &view->resolutions[i]);
    print_ranks(view);
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

static json_t *json_of_resolution(const ls_machine *machine, const resolution *one)
{
    if (one->missing)
        return json_pack("{s:s, s:s}", "spec", one->spec, "error", ls_status_text(one->missing));
    json_t *devices = json_array();
    for (size_t i = 0; i < one->count; i++)
        json_array_append_new(devices, json_of_device(machine, &one->names[i]));
    return json_pack("{s:s, s:o, s:b}", "spec", one->spec, "devices", devices, "oversubscribed",
                     ls_machine_oversubscribed(machine, one->names, one->count));
}

static ls_status print_json(const device_view *view)
{
    json_t *devices = json_array(), *resolved = json_array();
    for (int i = 0; i < ls_machine_count(view->machine, LS_DEVICE_CPU); i++) {
        const ls_device_name name = {.kind = LS_DEVICE_CPU, .index = i, .logical = -1};
        json_array_append_new(devices, json_of_device(view->machine, &name));
    }
    for (int i = 0; i < ls_machine_count(view->machine, LS_DEVICE_GPU); i++) {
        const ls_device_name name = gpu_at(view->machine, i);
        json_array_append_new(devices, json_of_device(view->machine, &name));
    }
    for (size_t i = 0; i < view->resolution_count; i++)
        json_array_append_new(resolved, json_of_resolution(view->machine, &view->resolutions[i]));
    json_t *root =
        json_pack("{s:o, s:o, s:o}", "machine", json_of_machine(ls_machine_describe(view->machine)),
                  "devices", devices, "resolved", resolved);
    json_t *ranks = json_array();
    for (int r = 0; r < view->ranks && view->rank_texts[r]; r++)
        json_array_append_new(ranks, json_loads(view->rank_texts[r], 0, NULL));
    if (root && json_array_size(ranks))
        json_object_set(root, "ranks", ranks);
    json_decref(ranks);
    if (!root)
        return ls_fail(LS_CODE_MISSING, "devices", "json",
                       "the text cannot be made; a SPEC must be UTF-8");
    json_dumpf(root, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(root);
    return LS_OK;
}

/* ---- Command ------------------------------------------------------------------------------- */

/* Resolves every operand; a failure other than "does not exist here" ends it. */
static ls_status resolve_all(const ls_option_set *set, device_view *view)
{
    for (size_t i = 0; i < set->operand_count; i++) {
        resolution *one = &view->resolutions[i];
        one->spec = set->operands[i];
        view->resolution_count = i + 1;
        ls_status status = ls_machine_resolve(view->machine, one->spec, &one->names, &one->count);
        if (status && ls_status_code(status) != LS_CODE_MISSING)
            return status;
        one->missing = status;
    }
    return LS_OK;
}

/* The first SPEC that is missing here, taken from the view. */
static ls_status take_missing(device_view *view)
{
    for (size_t i = 0; i < view->resolution_count; i++) {
        ls_status missing = view->resolutions[i].missing;
        view->resolutions[i].missing = LS_OK;
        if (missing)
            return missing;
    }
    return LS_OK;
}

/* The cores of this rank's devices, their NUMA nodes, each once, and its GPUs' places. */
static json_t *json_of_rank(const ls_machine *machine, int number)
{
    json_t *cores = json_array(), *nodes = json_array(), *gpus = json_array();
    uint64_t seen = 0;
    for (int i = 0; i < ls_machine_count(machine, LS_DEVICE_CPU); i++) {
        int held[CORES_MOST];
        const int count = ls_machine_cores(machine, i, held, CORES_MOST);
        for (int k = 0; k < count && k < CORES_MOST; k++) {
            const int node = ls_machine_numa_node(machine, held[k]);
            json_array_append_new(cores, json_integer(held[k]));
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

/* What each rank has, told to rank 0. */
static ls_status gather_ranks(device_view *view, const ls_processes *processes)
{
    if (!view->ranks)
        return LS_OK;
    view->rank_texts = calloc((size_t)view->ranks, sizeof *view->rank_texts);
    json_t *rank = json_of_rank(view->machine, processes->rank);
    char *text = rank ? json_dumps(rank, JSON_COMPACT) : NULL;
    ls_status status = text && view->rank_texts
                           ? LS_OK
                           : ls_fail_memory("devices", (size_t)view->ranks * sizeof(char *));
    status = ls_world_gather(processes->comm, status, text, view->rank_texts);
    free(text);
    json_decref(rank);
    return status;
}

static ls_status show(const ls_option_set *set, const ls_machine *machine,
                      const ls_processes *processes, bool json)
{
    const size_t slots = set->operand_count + 1;
    device_view view = {.machine = machine,
                        .ranks = processes->comm ? processes->size : 0,
                        .resolutions = calloc(slots, sizeof *view.resolutions)};
    if (!view.resolutions)
        return ls_fail_memory("devices", slots * sizeof *view.resolutions);
    ls_status status = gather_ranks(&view, processes);
    if (!status)
        status = resolve_all(set, &view);
    if (!status && json)
        status = print_json(&view);
    else if (!status)
        print_table(&view);
    if (!status)
        status = take_missing(&view);
    for (size_t i = 0; i < view.resolution_count; i++) {
        free(view.resolutions[i].names);
        ls_status_free(view.resolutions[i].missing);
    }
    free(view.resolutions);
    for (int r = 0; view.rank_texts && r < view.ranks; r++)
        free(view.rank_texts[r]);
    free(view.rank_texts);
    return status;
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
        return ls_fail(LS_CODE_USAGE, "--format", format, "devices are no rows; table or json");
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
