/* SPDX-License-Identifier: MIT */
/* Version: what `lockstep --version` prints, from the configured build_info.h. */
#include "bench/commands/command.h"
#include "bench/row/provenance.h"

#include "build_info.h"

/* Libraries that only other builds have; NULL at the end. */
static const char *const absent[] = {
#ifndef LOCKSTEP_MPI
    "OpenMPI",
#endif
#if !LS_HAS_CUDA
    "CUDA",    "cuBLAS",
#endif
#if !LS_HAS_CUDNN
    "cuDNN",
#endif
#if !LS_HAS_NCCL
    "NCCL",
#endif
    NULL,
};

void ls_version_print(FILE *stream)
{
    ls_library libraries[LS_LIBRARIES_MOST];
    const size_t count = ls_libraries(libraries);
    fprintf(stream, "lockstep %s\n", LS_VERSION);
    fprintf(stream, "  %-10s %s%s\n", "commit", LS_GIT_COMMIT, LS_GIT_DIRTY ? " (changed)" : "");
    fprintf(stream, "  %-10s %s\n", "build", LS_BUILD_TYPE);
    fprintf(stream, "  %-10s %s\n", "compiler", LS_COMPILER);
    fprintf(stream, "  %-10s %s\n", "flags", LS_COMPILER_FLAGS);
    for (size_t i = 0; i < count; i++)
        fprintf(stream, "  %-10s %s\n", libraries[i].name, libraries[i].version);
    for (size_t i = 0; absent[i]; i++)
        fprintf(stream, "  %-10s not in this build\n", absent[i]);
}
