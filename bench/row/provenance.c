/* SPDX-License-Identifier: MIT */
/* Provenance; see provenance.h. Facts about the build come from a header that CMake writes at every
 * build. */
#include "bench/row/provenance.h"

#include "bench/output/results_db.h"
#include "bench/row/set_aside.h"
#include "bench/rows/put.h"
#include "build_info.h"
#include "common/base/digest.h"
#include "common/comm/processes.h"
#include "common/data/idx.h"
#include "common/kernel/kernel.h"
#include "template_environment.h"

#include <libfyaml.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Versions come from the loaded libraries, with two exceptions: hwloc's is its headers', and CUDA,
 * cuBLAS, cuDNN and NCCL (loaded when a GPU is used) report the build's. */
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

static void put_build(json_t *row)
{
    ls_library libraries[LS_LIBRARIES_MOST];
    const size_t count = ls_libraries(libraries);
    struct stat facts;
    if (strcmp(LS_GIT_COMMIT, "unknown") != 0) {
        ls_put_provenance_commit(row, LS_GIT_COMMIT);
        ls_put_provenance_dirty(row, LS_GIT_DIRTY);
    }
    ls_put_provenance_version(row, LS_VERSION);
    ls_put_provenance_build_type(row, LS_BUILD_TYPE);
    ls_put_provenance_compiler(row, LS_COMPILER);
    ls_put_provenance_compiler_flags(row, LS_COMPILER_FLAGS);
    if (stat("/proc/self/exe", &facts) == 0)
        ls_put_provenance_binary_bytes(row, facts.st_size);
    json_t *versions = ls_row_make(row, LS_G_provenance_libraries);
    for (size_t i = 0; i < count; i++)
        json_object_set_new(versions, libraries[i].name, ls_text_value(libraries[i].version));
}

void ls_provenance_put(json_t *row, const ls_machine_info *machine, bool oversubscribed,
                       const char *mpi)
{
    put_build(row);
    ls_put_provenance_cpu(row, machine->cpu);
    ls_put_provenance_isa(row, machine->isa);
    ls_put_provenance_loops_isa(row, ls_kernel_loops_isa());
    ls_put_provenance_library_isa(row, ls_nonempty(ls_kernel_library_isa()));
    ls_put_provenance_arch(row, machine->arch);
    ls_put_provenance_os(row, machine->kernel);
    ls_put_provenance_host(row, machine->host);
    ls_put_provenance_cores_allowed(row, machine->cores_allowed);
    ls_put_provenance_memory_limit(row, machine->memory_limit);
    ls_put_provenance_environment(row, ls_environment_own());
    ls_put_provenance_oversubscribed(row, oversubscribed);
    for (char **variable = environ; *variable; variable++)
        if (ls_is_set_aside(*variable))
            ls_row_append(row, LS_F_provenance_set_aside, ls_text_value(*variable));
    ls_put_provenance_mpi(row, mpi);
}

void ls_provenance_put_device(json_t *row, const ls_machine_info *machine,
                              const ls_device_info *device)
{
    const bool first = !ls_row_has(row, LS_F_provenance_denormals_flushed);
    json_t *cores = json_array();
    for (int c = 0; c < device->core_count; c++)
        json_array_append_new(cores, json_integer(device->cores[c]));
    ls_row_append(row, LS_F_provenance_cores_per_device, json_integer(device->core_count));
    ls_row_append(row, LS_F_provenance_cores, cores);
    ls_put_provenance_huge_pages(row, device->huge_pages ||
                                          ls_row_true(row, LS_F_provenance_huge_pages));
    if (device->name.kind != LS_DEVICE_GPU) {
        ls_put_provenance_denormals_flushed(
            row, device->flushes_denormals &&
                     (first || ls_row_true(row, LS_F_provenance_denormals_flushed)));
        return;
    }
    json_t *gpu = ls_row_make(row, LS_G_provenance_gpus);
    ls_put_provenance_gpus_device(gpu, device->text);
    ls_put_provenance_gpus_pci(gpu, device->pci);
    ls_put_provenance_gpus_multiprocessors(gpu, device->multiprocessors);
    ls_put_provenance_gpu(row, machine->gpu);
    ls_put_provenance_driver(row, machine->driver);
}

/* ---- Environment ---------------------------------------------------------------------------- */

enum { TEXT_MOST = 256, ENDING = 48 };

/* Printable ASCII, of at most TEXT_MOST characters. */
static void make_safe(const char *bytes, size_t length, char text[TEXT_MOST])
{
    size_t used = 0, i = 0;
    for (; i < length && used + ENDING < TEXT_MOST; i++)
        used += (size_t)snprintf(text + used, TEXT_MOST - used,
                                 bytes[i] >= ' ' && bytes[i] <= '~' ? "%c" : "\\x%02x",
                                 (unsigned char)bytes[i]);
    text[used] = 0;
    if (i < length)
        snprintf(text + used, TEXT_MOST - used, "... (%zu bytes, %016llx)", length,
                 (unsigned long long)ls_hash64(bytes, length));
}

json_t *ls_environment_build(FILE *stream)
{
    json_auto_t *given = json_array(), *found = json_array();
    size_t size = 0;
    char *text = NULL, name[TEXT_MOST], value[TEXT_MOST];
    json_t *group = NULL;
    while (getdelim(&text, &size, 0, stream) > 0) {
        const char *rest = strchr(text, '=');
        if (!rest)
            continue;
        make_safe(text, (size_t)(rest - text), name);
        make_safe(rest + 1, strlen(rest + 1), value);
        json_array_append_new(given, json_pack("[s,s]", name, value));
    }
    free(text);
    ls_status_free(ls_document_query(ls_template_environment, given, NULL, found));
    json_unpack(found, "[{s:O}]", "group", &group);
    return group;
}

json_t *ls_environment_own(void)
{
    FILE *stream = fopen("/proc/self/environ", "re");
    json_t *group = stream ? ls_environment_build(stream) : NULL;
    if (stream)
        fclose(stream);
    return group;
}
