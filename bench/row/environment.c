/* SPDX-License-Identifier: MIT */
/*
 * Environment; see environment.h. Left out is what only says where files are or which version a
 * module loaded; what a launcher sets by itself; and what a row has elsewhere: which libraries were
 * loaded (`libraries`) and which GPUs were visible (`gpus`, by their PCI addresses).
 */
#include "bench/row/environment.h"

#include "common/base/digest.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Patterns of names, as fnmatch has them, each followed by a blank. */
static const char listed[] =
    /* oneDNN: instruction set, caches, what it prints meanwhile */
    "ONEDNN_* DNNL_* "
    /* glibc: memory functions and libm's by instruction set, its allocator */
    "GLIBC_TUNABLES MALLOC_* "
    /* the loader: libraries in the place of others, when symbols are bound */
    "LD_PRELOAD LD_AUDIT LD_BIND_NOW "
    /* hwloc: the cores that are seen, and how they are numbered */
    "HWLOC_XMLFILE HWLOC_SYNTHETIC HWLOC_FSROOT HWLOC_CPUID_PATH HWLOC_COMPONENTS HWLOC_ALLOW "
    "HWLOC_THISSYSTEM* "
    /* Open MPI: transports, algorithms of collectives, waiting; mpirun --mca sets them, too */
    "OMPI_MCA_allocator* OMPI_MCA_bml* OMPI_MCA_btl* OMPI_MCA_coll* OMPI_MCA_common_* "
    "OMPI_MCA_mpi_* OMPI_MCA_mpool* OMPI_MCA_mtl* OMPI_MCA_op OMPI_MCA_op_* OMPI_MCA_opal_* "
    "OMPI_MCA_osc* OMPI_MCA_pml* OMPI_MCA_rcache* OMPI_MCA_smsc* OMPI_MCA_threads* "
    /* MPICH and its relatives: as for Open MPI */
    "MPICH_* MPIR_CVAR_* I_MPI_* "
    /* networks under MPI and NCCL */
    "UCX_* UCC_* FI_* PSM2_* PSM3_* HCOLL_* SHARP_* IBV_* RDMAV_* MLX4_* MLX5_* "
    /* CUDA: arithmetic of products in float32; compilation, launches, queues, shares of a GPU */
    "NVIDIA_TF32_OVERRIDE CUDA_AUTO_BOOST CUDA_DEVICE_MAX_CONNECTIONS "
    "CUDA_DEVICE_MAX_COPY_CONNECTIONS CUDA_DEVICE_WAITS_ON_EXCEPTION CUDA_DISABLE_*JIT "
    "CUDA_ENABLE_CRC_CHECK CUDA_FORCE_*JIT CUDA_GRAPHS_USE_NODE_PRIORITY CUDA_INJECTION64_PATH "
    "CUDA_LAUNCH_BLOCKING CUDA_MANAGED_FORCE_DEVICE_ALLOC CUDA_MODULE_*LOADING CUDA_MPS_* "
    "CUDA_SCALE_LAUNCH_QUEUES "
    /* NVIDIA's libraries: algorithms, workspaces, transports, what they print meanwhile */
    "CUBLAS_* CUBLASLT_* CUDNN_* NCCL_* ";

static const char left_out[] =
    /* where it is, and which */
    "*_VERSION *_HOME *_ROOT *_DIR CUBLAS_*PATH CUDNN_*PATH NCCL_*PATH UCX_*PATH "
    /* set by mpirun and mpiexec for each rank; which warnings are printed */
    "OMPI_MCA_mpi_oversubscribe MPIR_CVAR_CH3_INTERFACE_HOSTNAME I_MPI_HYDRA_* I_MPI_MPIRUN* "
    "OMPI_MCA_*warn* ";

enum { NAME_MOST = 128, TEXT_MOST = 256, ENDING = 48 };

static bool fits(const char *name, const char *patterns)
{
    char pattern[NAME_MOST];
    for (size_t length; *patterns; patterns += length + 1) {
        length = strcspn(patterns, " ");
        memcpy(pattern, patterns, length);
        pattern[length] = 0;
        if ((*pattern == '*' || *pattern == *name) && fnmatch(pattern, name, 0) == 0)
            return true;
    }
    return false;
}

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
    json_auto_t *found = json_object();
    size_t size = 0;
    char *text = NULL, name[TEXT_MOST], shown[TEXT_MOST];
    while (getdelim(&text, &size, 0, stream) > 0) {
        const size_t length = strcspn(text, "=");
        snprintf(name, NAME_MOST, "%.*s", (int)(length < NAME_MOST ? length : NAME_MOST), text);
        if (!text[length] || !fits(name, listed) || fits(name, left_out))
            continue;
        make_safe(text, length, name);
        make_safe(text + length + 1, strlen(text + length + 1), shown);
        if (!json_object_get(found, name)) /* of one name the first counts, as for getenv */
            json_object_set_new(found, name, json_string(shown));
    }
    free(text);
    char *sorted = json_object_size(found) ? json_dumps(found, JSON_SORT_KEYS) : NULL;
    json_t *group = sorted ? json_loads(sorted, 0, NULL) : NULL;
    free(sorted);
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
