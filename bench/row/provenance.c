/* SPDX-License-Identifier: MIT */
/* Provenance; see provenance.h. Facts about the build come from a header that CMake writes at every
 * build. */
#include "bench/row/provenance.h"

#include "bench/output/format_parts.h"
#include "bench/row/environment.h"
#include "bench/row/set_aside.h"
#include "bench/statistics/statistics.h"
#include "build_info.h"
#include "common/base/digest.h"
#include "common/comm/processes.h"
#include "common/data/idx.h"
#include "common/kernel/kernel.h"

#include <libfyaml.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Versions are those of the loaded libraries, with two exceptions: hwloc's is its headers', and
 * CUDA, cuBLAS, cuDNN and NCCL (loaded when a GPU is used) report the build's. */
static void add_library(ls_library *out, size_t *count, const char *name, const char *version)
{
    ls_library *library = &out[(*count)++];
    library->name = name;
    snprintf(library->version, sizeof library->version, "%s", version);
}

size_t ls_libraries(ls_library out[LS_LIBRARIES_MOST])
{
    size_t count = 0;
    char text[32];
    add_library(out, &count, "oneDNN", ls_kernel_library_version(text));
    add_library(out, &count, "hwloc", ls_machine_hwloc_version());
    add_library(out, &count, "SQLite", sqlite3_libversion());
    add_library(out, &count, "jansson", jansson_version_str());
    add_library(out, &count, "xxHash", ls_digest_version(text));
    add_library(out, &count, "libfyaml", fy_library_version());
    add_library(out, &count, "zlib", ls_idx_zlib_version());
#if LS_HAS_CUDA
    add_library(out, &count, "CUDA", LS_CUDA_VERSION);
    add_library(out, &count, "cuBLAS", LS_CUBLAS_VERSION);
#endif
#if LS_HAS_CUDNN
    add_library(out, &count, "cuDNN", LS_CUDNN_VERSION);
#endif
#if LS_HAS_NCCL
    add_library(out, &count, "NCCL", LS_NCCL_VERSION);
#endif
#ifdef LOCKSTEP_MPI
    add_library(out, &count, ls_processes_library_name(), ls_processes_library(text));
#endif
    return count;
}

static json_t *make_text(const char *text)
{
    json_t *value = json_string(text);
    char *copy = value ? NULL : strdup(text);
    for (char *c = copy; c && *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    value = value ? value : json_string(copy);
    free(copy);
    return value;
}

static void put_text(json_t *group, const char *name, const char *text)
{
    json_object_set_new(group, name, make_text(text));
}

static void add_build(json_t *group)
{
    ls_library libraries[LS_LIBRARIES_MOST];
    const size_t count = ls_libraries(libraries);
    struct stat facts;
    json_t *versions = json_object();
    if (strcmp(LS_GIT_COMMIT, "unknown") != 0) {
        put_text(group, "commit", LS_GIT_COMMIT);
        json_object_set_new(group, "dirty", json_boolean(LS_GIT_DIRTY));
    }
    put_text(group, "version", LS_VERSION);
    put_text(group, "build_type", LS_BUILD_TYPE);
    put_text(group, "compiler", LS_COMPILER);
    put_text(group, "compiler_flags", LS_COMPILER_FLAGS);
    if (stat("/proc/self/exe", &facts) == 0)
        ls_put_integer(group, "binary_bytes", (uint64_t)facts.st_size);
    for (size_t i = 0; i < count; i++)
        put_text(versions, libraries[i].name, libraries[i].version);
    json_object_set_new(group, "libraries", versions);
}

static void add_machine(json_t *group, const ls_machine_info *machine)
{
    put_text(group, "cpu", machine->cpu);
    put_text(group, "isa", machine->isa);
    put_text(group, "loops_isa", ls_kernel_loops_isa());
    if (*ls_kernel_library_isa())
        put_text(group, "library_isa", ls_kernel_library_isa());
    put_text(group, "arch", machine->arch);
    put_text(group, "os", machine->kernel);
    put_text(group, "host", machine->host);
    ls_put_integer(group, "cores_allowed", (uint64_t)machine->cores_allowed);
    ls_put_integer(group, "memory_limit", machine->memory_limit);
    json_t *environment = ls_environment_own();
    if (environment)
        json_object_set_new(group, "environment", environment);
}

/* Which GPUs the devices are, or are parts of. */
static void add_gpus(json_t *group, const ls_provenance *facts)
{
    json_t *list = json_array();
    for (size_t i = 0; i < facts->device_count; i++) {
        const ls_device_info *device = facts->devices[i];
        if (device->name.kind != LS_DEVICE_GPU)
            continue;
        json_t *gpu = json_object();
        put_text(gpu, "device", device->text);
        put_text(gpu, "pci", device->pci);
        ls_put_integer(gpu, "multiprocessors", (uint64_t)device->multiprocessors);
        json_array_append_new(list, gpu);
    }
    put_text(group, "gpu", facts->machine->gpu);
    put_text(group, "driver", facts->machine->driver);
    json_object_set_new(group, "gpus", list);
}

static void add_devices(json_t *group, const ls_provenance *facts)
{
    json_t *counts = json_array(), *lists = json_array();
    bool any_gpu = false, any_cpu = false, flushed = true, huge_pages = false;
    for (size_t i = 0; i < facts->device_count; i++) {
        const ls_device_info *device = facts->devices[i];
        const bool is_gpu = device->name.kind == LS_DEVICE_GPU;
        json_t *cores = json_array();
        any_gpu = any_gpu || is_gpu;
        any_cpu = any_cpu || !is_gpu;
        flushed = flushed && (is_gpu || device->flushes_denormals);
        huge_pages = huge_pages || device->huge_pages;
        for (int c = 0; c < device->core_count; c++)
            json_array_append_new(cores, json_integer(device->cores[c]));
        json_array_append_new(counts, json_integer(device->core_count));
        json_array_append_new(lists, cores);
    }
    json_object_set_new(group, "cores_per_device", counts);
    json_object_set_new(group, "cores", lists);
    json_object_set_new(group, "oversubscribed", json_boolean(facts->oversubscribed));
    if (any_cpu)
        json_object_set_new(group, "denormals_flushed", json_boolean(flushed));
    json_object_set_new(group, "huge_pages", json_boolean(huge_pages));
    if (any_gpu)
        add_gpus(group, facts);
}

/* OpenMP's variables, which have no effect. */
static void add_set_aside(json_t *group)
{
    json_auto_t *set_aside = json_array();
    for (char **variable = environ; *variable; variable++)
        if (ls_is_set_aside(*variable))
            json_array_append_new(set_aside, make_text(*variable));
    if (json_array_size(set_aside))
        json_object_set(group, "set_aside", set_aside);
}

json_t *ls_provenance_build(const ls_provenance *facts)
{
    json_t *group = json_object();
    add_build(group);
    if (facts->kernels)
        json_object_set_new(group, "kernels", json_deep_copy(facts->kernels));
    add_machine(group, facts->machine);
    add_devices(group, facts);
    add_set_aside(group);
    if (facts->mpi)
        put_text(group, "mpi", facts->mpi);
    put_text(group, "ci95", ls_statistics_meaning());
    return group;
}
