/* SPDX-License-Identifier: MIT */
/*
 * Devices of the machine: how many there are, their names and their cores. The n cores of the list
 * form a ring; cpu:i has c of them from number i*c on, so two devices share a core if the distance
 * between their first cores is less than c.
 */
#include "common/device/machine_private.h"

#include "common/base/numbers.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int ls_machine_count(const ls_machine *machine, ls_device_kind kind)
{
    return kind == LS_DEVICE_GPU ? machine->gpus.count * machine->logical_gpus
                                 : machine->cpu_devices;
}

int ls_machine_cores_per_device(const ls_machine *machine)
{
    return machine->cores_per_device;
}

ls_device_kind ls_machine_best_kind(const ls_machine *machine)
{
    return machine->gpus.count ? LS_DEVICE_GPU : LS_DEVICE_CPU;
}

size_t ls_machine_cpu_capacity(const ls_machine *machine)
{
    return machine->info.memory_limit / (size_t)machine->cpu_devices;
}

const ls_gpu *ls_machine_gpu(const ls_machine *machine, int index)
{
    return &machine->gpus.items[index];
}

int ls_machine_logical_gpus(const ls_machine *machine)
{
    return machine->logical_gpus;
}

ls_arena *ls_machine_arena(const ls_machine *machine, int index)
{
    return machine->arenas[index];
}

/* Index of a CPU device's first core in the ring. */
static int64_t first_core(const ls_machine *machine, int index)
{
    return (int64_t)index * machine->cores_per_device % machine->info.cores_allowed;
}

int ls_machine_cores(const ls_machine *machine, int index, int *cores, int capacity)
{
    const int64_t first = first_core(machine, index);
    for (int i = 0; i < machine->cores_per_device && i < capacity; i++)
        cores[i] = machine->cores[(first + i) % machine->info.cores_allowed];
    return machine->cores_per_device;
}

int ls_machine_numa_node(const ls_machine *machine, int core)
{
    for (int i = 0; i < machine->info.cores_allowed; i++)
        if (machine->cores[i] == core)
            return machine->nodes[i];
    return -1;
}

static bool share_core(const ls_machine *machine, int a, int b)
{
    const int64_t n = machine->info.cores_allowed;
    const int64_t ahead = (first_core(machine, b) - first_core(machine, a) + n) % n;
    return ahead < machine->cores_per_device || n - ahead < machine->cores_per_device;
}

bool ls_machine_oversubscribed(const ls_machine *machine, const ls_device_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (names[i].kind == names[j].kind &&
                (names[i].kind == LS_DEVICE_GPU
                     ? names[i].index == names[j].index
                     : share_core(machine, names[i].index, names[j].index)))
                return true;
    return false;
}

/* Name of device `number` of a kind, in the order of the list. */
static ls_device_name name_at(const ls_machine *machine, ls_device_kind kind, int number)
{
    const bool split = kind == LS_DEVICE_GPU && machine->logical_gpus > 1;
    return (ls_device_name){.kind = kind,
                            .index = split ? number / machine->logical_gpus : number,
                            .logical = split ? number % machine->logical_gpus : -1,
                            .replica = -1,
                            .task = -1};
}

__attribute__((format(printf, 3, 4))) static void append(char *text, size_t size,
                                                         const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, size - used, format, arguments);
    va_end(arguments);
}

char *ls_machine_list(const ls_machine *machine, char *text, size_t size)
{
    enum { SHORT = 8 }; /* longer lists print their two ends */
    static const ls_device_kind kinds[] = {LS_DEVICE_CPU, LS_DEVICE_GPU};
    if (!size)
        return text;
    *text = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const int count = ls_machine_count(machine, kinds[k]);
        for (int i = 0; i < count; i++) {
            const bool skips = count > SHORT && i > 0;
            if (skips)
                i = count - 1;
            char name[32];
            const ls_device_name named = name_at(machine, kinds[k], i);
            append(text, size, "%s%s",
                   skips   ? " to "
                   : *text ? ", "
                           : "",
                   ls_device_name_text(&named, name));
        }
    }
    return text;
}

static ls_status fail_missing(const ls_machine *machine, const char *where, const char *why)
{
    char list[256];
    return ls_fail(LS_CODE_MISSING, "device", where, "%s; devices are %s", why,
                   ls_machine_list(machine, list, sizeof list));
}

/* A name must be one of this process's own devices. */
static ls_status check_process(const ls_machine *machine, const ls_device_name *name)
{
    char text[32];
    ls_device_name_text(name, text);
    const bool gpu = name->kind == LS_DEVICE_GPU;
    if (gpu && !machine->gpus.count && *machine->info.gpu) {
        char why[192];
        snprintf(why, sizeof why, "this device cannot be used (%s)", machine->info.gpu);
        return fail_missing(machine, text, why);
    }
    if (name->index >= (gpu ? machine->gpus.count : machine->cpu_devices))
        return fail_missing(machine, text, "this device does not exist on this machine");
    if (gpu && name->logical >= machine->logical_gpus)
        return fail_missing(machine, text,
                            "this logical GPU does not exist; --logical-gpus N splits each GPU "
                            "into logical GPUs 0 to N-1");
    if (name->replica > 0 || name->task > 0) {
        char where[128];
        snprintf(where, sizeof where, "/job:%s/replica:%d/task:%d/%s", *name->job ? name->job : "*",
                 name->replica > 0 ? name->replica : 0, name->task > 0 ? name->task : 0, text);
        return fail_missing(
            machine, where,
            "this device belongs to another process (this process is replica 0, task 0)");
    }
    return LS_OK;
}

static ls_status resolve_number(const ls_machine *machine, const char *spec, ls_device_name **out,
                                size_t *out_count)
{
    int64_t count;
    if (!ls_parse_integer(spec, 1, LS_MACHINE_DEVICES_MOST, &count))
        return ls_fail(LS_CODE_USAGE, "device", spec,
                       "this is not a possible number of devices; use --devices 1 to %d, or names "
                       "such as cpu:0+cpu:1",
                       LS_MACHINE_DEVICES_MOST);
    const ls_device_kind kind = ls_machine_best_kind(machine);
    const int named = ls_machine_count(machine, kind);
    if (kind == LS_DEVICE_GPU && count > named)
        return fail_missing(machine, spec,
                            "more GPUs are named than this machine has; split each GPU with "
                            "--logical-gpus N, or use fewer");
    ls_device_name *names;
    LS_TRY(ls_allocate("device names", &names, (size_t)count, sizeof *names));
    for (int64_t i = 0; i < count; i++) /* each process has its own cores */
        names[i] =
            name_at(machine, kind,
                    (int)(kind == LS_DEVICE_GPU ? (machine->neighbour * count + i) % named : i));
    *out = names;
    *out_count = (size_t)count;
    return LS_OK;
}

static ls_status check_twice(const ls_device_name *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) {
            if (!ls_device_name_overlaps(&names[i], &names[j]))
                continue;
            char first[32], second[32];
            return ls_fail(
                LS_CODE_USAGE, "device", ls_device_name_text(&names[i], second),
                "%s and %s are the same device, or one is a part of the other; remove one of "
                "the two",
                ls_device_name_text(&names[j], first), second);
        }
    }
    return LS_OK;
}

/* Parses `count` names separated by plus signs in `text`, which it modifies. */
static ls_status read_names(const ls_machine *machine, char *text, ls_device_name *names,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *end = text + strcspn(text, "+");
        *end = 0;
        LS_TRY(ls_device_name_parse(text, &names[i]));
        text = end + 1;
    }
    for (size_t i = 0; i < count; i++)
        LS_TRY(check_process(machine, &names[i]));
    return check_twice(names, count);
}

ls_status ls_machine_resolve(const ls_machine *machine, const char *spec, ls_device_name **out,
                             size_t *out_count)
{
    if (isdigit((unsigned char)*spec) || *spec == '-')
        return resolve_number(machine, spec, out, out_count);
    size_t count = 1;
    for (const char *c = spec; *c; c++)
        count += *c == '+';
    if (count > LS_MACHINE_DEVICES_MOST)
        return ls_fail(LS_CODE_USAGE, "device", "list", "%zu names are too many; use at most %d",
                       count, LS_MACHINE_DEVICES_MOST);
    ls_device_name *names = calloc(count, sizeof *names);
    char *text = strdup(spec);
    ls_status status = names && text ? read_names(machine, text, names, count)
                                     : ls_fail_memory("device names", count * sizeof *names);
    free(text);
    if (status) {
        free(names);
        return status;
    }
    *out = names;
    *out_count = count;
    return LS_OK;
}
