/* SPDX-License-Identifier: MIT */
/* Libraries: versions are those of the libraries loaded (of hwloc, which does not tell, its
 * headers'; of CUDA, cuBLAS, cuDNN and NCCL, which are looked for when a GPU is used, the build's);
 * see provenance.h. */
#include "bench/row/provenance.h"

#include "common/base/digest.h"
#include "common/comm/processes.h"
#include "common/data/idx.h"
#include "common/device/machine.h"
#include "common/kernel/kernel.h"

#include "build_info.h"

#include <jansson.h>
#include <libfyaml.h>
#include <sqlite3.h>
#include <stdio.h>

static void add(ls_library *out, size_t *count, const char *name, const char *version)
{
    ls_library *library = &out[(*count)++];
    library->name = name;
    snprintf(library->version, sizeof library->version, "%s", version);
}

size_t ls_libraries(ls_library out[LS_LIBRARIES_MOST])
{
    size_t count = 0;
    char text[32];
    add(out, &count, "oneDNN", ls_kernel_library_version(text));
    add(out, &count, "hwloc", ls_machine_hwloc_version());
    add(out, &count, "SQLite", sqlite3_libversion());
    add(out, &count, "jansson", jansson_version_str());
    add(out, &count, "xxHash", ls_digest_version(text));
    add(out, &count, "libfyaml", fy_library_version());
    add(out, &count, "zlib", ls_idx_zlib_version());
#if LS_HAS_CUDA
    add(out, &count, "CUDA", LS_CUDA_VERSION);
    add(out, &count, "cuBLAS", LS_CUBLAS_VERSION);
#endif
#if LS_HAS_CUDNN
    add(out, &count, "cuDNN", LS_CUDNN_VERSION);
#endif
#if LS_HAS_NCCL
    add(out, &count, "NCCL", LS_NCCL_VERSION);
#endif
#ifdef LOCKSTEP_MPI
    add(out, &count, "OpenMPI", ls_processes_library(text));
#endif
    return count;
}
