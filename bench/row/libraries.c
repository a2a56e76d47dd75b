/* SPDX-License-Identifier: MIT */
/* Libraries: versions are those of the libraries loaded (of hwloc, which does
 * not tell, its headers'; of CUDA, cuBLAS, cuDNN and NCCL, which are
 * looked for when a GPU is used, the build's); see libraries.h. */
#include "bench/row/libraries.h"

#include "common/base/digest.h"
#include "common/comm/processes.h"
#include "common/data/idx.h"
#include "common/device/machine.h"
#include "common/kernel/kernel.h"

#include "build_info.h"

#include <jansson.h>
#include <libfyaml.h>
#include <sqlite3.h>

static const char *onednn(char scratch[32])
{
    return ls_kernel_library_version(scratch);
}

static const char *hwloc(char scratch[32])
{
    (void)scratch;
    return ls_machine_hwloc_version();
}

static const char *sqlite(char scratch[32])
{
    (void)scratch;
    return sqlite3_libversion();
}

static const char *jansson(char scratch[32])
{
    (void)scratch;
    return jansson_version_str();
}

static const char *libfyaml(char scratch[32])
{
    (void)scratch;
    return fy_library_version();
}

static const char *zlib(char scratch[32])
{
    (void)scratch;
    return ls_idx_zlib_version();
}

#if LS_HAS_CUDA
static const char *cuda(char scratch[32])
{
    (void)scratch;
    return LS_CUDA_VERSION;
}

static const char *cublas(char scratch[32])
{
    (void)scratch;
    return LS_CUBLAS_VERSION;
}
#endif

#if LS_HAS_CUDNN
static const char *cudnn(char scratch[32])
{
    (void)scratch;
    return LS_CUDNN_VERSION;
}
#endif

#if LS_HAS_NCCL
static const char *nccl(char scratch[32])
{
    (void)scratch;
    return LS_NCCL_VERSION;
}
#endif

static const ls_library libraries[] = {
    {"oneDNN", onednn},
    {"hwloc", hwloc},
    {"SQLite", sqlite},
    {"jansson", jansson},
    {"xxHash", ls_digest_version},
    {"libfyaml", libfyaml},
    {"zlib", zlib},
#if LS_HAS_CUDA
    {"CUDA", cuda},
    {"cuBLAS", cublas},
#endif
#if LS_HAS_CUDNN
    {"cuDNN", cudnn},
#endif
#if LS_HAS_NCCL
    {"NCCL", nccl},
#endif
#ifdef LOCKSTEP_MPI
    {"OpenMPI", ls_processes_library},
#endif
};

const ls_library *ls_libraries(size_t *count)
{
    *count = sizeof libraries / sizeof *libraries;
    return libraries;
}
