/* SPDX-License-Identifier: MIT */
/*
 * Provenance; see provenance.h. Build facts come from the header that CMake writes at every build.
 * json_object_set_new takes NULL for a value that could not be made and reports it, so the
 * failures add up in one flag.
 */
#include "bench/row/provenance.h"

#include "bench/row/libraries.h"
#include "bench/statistics/statistics.h"
#include "build_info.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static json_t *plain_text(const char *text)
{
    json_t *value = json_string(text);
    char *copy = value ? NULL : strdup(text);
    if (!copy)
        return value;
    for (char *c = copy; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = json_string(copy);
    free(copy);
    return value;
}

static int set_text(json_t *group, const char *name, const char *text)
{
    return json_object_set_new(group, name, plain_text(text));
}

static int add_build(json_t *group)
{
    struct stat facts;
    int failed = 0;
    if (strcmp(LS_GIT_COMMIT, "unknown") != 0) {
        failed |= set_text(group, "commit", LS_GIT_COMMIT);
        failed |= json_object_set_new(group, "dirty", json_boolean(LS_GIT_DIRTY));
    }
    failed |= set_text(group, "version", LS_VERSION);
    failed |= set_text(group, "build_type", LS_BUILD_TYPE);
    failed |= set_text(group, "compiler", LS_COMPILER);
    failed |= set_text(group, "compiler_flags", LS_COMPILER_FLAGS);
    if (stat("/proc/self/exe", &facts) == 0)
        failed |= json_object_set_new(group, "binary_bytes", json_integer(facts.st_size));
    size_t count;
    char scratch[32];
    const ls_library *libraries = ls_libraries(&count);
    json_t *versions = json_object();
    for (size_t i = 0; i < count; i++)
        failed |= set_text(versions, libraries[i].name, libraries[i].version(scratch));
    failed |= json_object_set_new(group, "libraries", versions);
    return failed;
}

static int add_machine(json_t *group, const ls_machine_info *machine)
{
    int failed = set_text(group, "cpu", machine->cpu);
    failed |= set_text(group, "isa", machine->isa);
    failed |= set_text(group, "arch", machine->arch);
    failed |= set_text(group, "os", machine->kernel);
    failed |= set_text(group, "host", machine->host);
    failed |= json_object_set_new(group, "cores_allowed", json_integer(machine->cores_allowed));
    failed |=
        json_object_set_new(group, "memory_limit", json_integer((json_int_t)machine->memory_limit));
    return failed;
}

/* The cores of one device, and how many. */
static int add_cores(json_t *counts, json_t *lists, const ls_device_info *device)
{
    json_t *list = json_array();
    int failed = 0;
    for (int i = 0; i < device->core_count; i++)
        failed |= json_array_append_new(list, json_integer(device->cores[i]));
    failed |= json_array_append_new(counts, json_integer(device->core_count));
    failed |= json_array_append_new(lists, list);
    return failed;
}

/* Which GPUs the devices are, or are parts of. */
static int add_gpus(json_t *group, const ls_provenance *facts)
{
    json_t *list = json_array();
    int failed = 0;
    for (size_t i = 0; i < facts->device_count; i++) {
        const ls_device_info *device = facts->devices[i];
        json_t *gpu = json_object();
        if (device->name.kind == LS_DEVICE_GPU) {
            failed |= set_text(gpu, "device", device->text);
            failed |= set_text(gpu, "pci", device->pci);
            failed |=
                json_object_set_new(gpu, "multiprocessors", json_integer(device->multiprocessors));
            failed |= json_array_append(list, gpu);
        }
        json_decref(gpu);
    }
    failed |= set_text(group, "gpu", facts->machine->gpu);
    failed |= set_text(group, "driver", facts->machine->driver);
    failed |= json_object_set_new(group, "gpus", list);
    return failed;
}

static int add_devices(json_t *group, const ls_provenance *facts)
{
    json_t *counts = json_array(), *lists = json_array();
    bool any_gpu = false, any_cpu = false, flushed = true, huge_pages = false;
    int failed = 0;
    for (size_t i = 0; i < facts->device_count; i++) {
        const ls_device_info *device = facts->devices[i];
        bool is_gpu = device->name.kind == LS_DEVICE_GPU;
        any_gpu = any_gpu || is_gpu;
        any_cpu = any_cpu || !is_gpu;
        flushed = flushed && (is_gpu || device->flushes_denormals);
        huge_pages = huge_pages || device->huge_pages;
        failed |= add_cores(counts, lists, device);
    }
    failed |= json_object_set_new(group, "cores_per_device", counts);
    failed |= json_object_set_new(group, "cores", lists);
    failed |= json_object_set_new(group, "oversubscribed", json_boolean(facts->oversubscribed));
    if (any_cpu)
        failed |= json_object_set_new(group, "denormals_flushed", json_boolean(flushed));
    failed |= json_object_set_new(group, "huge_pages", json_boolean(huge_pages));
    if (any_gpu)
        failed |= add_gpus(group, facts);
    return failed;
}

ls_status ls_provenance_build(const ls_provenance *facts, json_t **out)
{
    json_t *group = json_object();
    int failed = add_build(group);
    if (facts->kernels)
        failed |= json_object_set_new(group, "kernels", json_deep_copy(facts->kernels));
    failed |= add_machine(group, facts->machine);
    failed |= add_devices(group, facts);
    if (facts->mpi)
        failed |= set_text(group, "mpi", facts->mpi);
    failed |= set_text(group, "ci95", ls_statistics_meaning());
    if (failed) {
        json_decref(group);
        return ls_fail_memory("provenance of a row", 4096);
    }
    *out = group;
    return LS_OK;
}
