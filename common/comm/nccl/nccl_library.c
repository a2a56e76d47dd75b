/* SPDX-License-Identifier: MIT */
/* NCCL's functions, loaded at run time; see nccl_library.h. */
#include "common/comm/nccl/nccl_library.h"

#include "common/base/dynamic.h"
#include "common/device/cuda/cuda_check.h"

#define TEXT_OF(x)  #x
#define VALUE_OF(x) TEXT_OF(x)

/* Versions before 2.9 were encoded with fewer digits. */
static int version_major(const void *functions)
{
    int version = 0;
    if (((const ls_nccl_functions *)functions)->ncclGetVersion(&version) != ncclSuccess)
        return 0;
    return version < 10000 ? version / 1000 : version / 10000;
}

ls_status ls_nccl_load(ls_nccl *out)
{
#define LS_NCCL_NAME(name) #name,
    static const char *const symbols[] = {LS_NCCL_FUNCTIONS(LS_NCCL_NAME) NULL};
#undef LS_NCCL_NAME
    static const ls_dynamic library = {
        .name = "NCCL",
        .file = "libnccl.so." VALUE_OF(NCCL_MAJOR),
        .folder = LS_NCCL_FOLDER,
        .remedy = "install a recent NCCL " VALUE_OF(
            NCCL_MAJOR) ", name its folder in LD_LIBRARY_PATH, or remove --comm nccl",
        .major = NCCL_MAJOR,
        .find_major = version_major,
        .symbols = symbols};
    *out = (ls_nccl){0};
    return ls_dynamic_load(&library, &out->call, &out->library);
}

void ls_nccl_unload(ls_nccl *nccl)
{
    ls_dynamic_unload(nccl->library);
    *nccl = (ls_nccl){0};
}

ls_status ls_nccl_check(const ls_nccl *nccl, ncclResult_t result, const char *what)
{
    if (result == ncclSuccess)
        return LS_OK;
    const char *more = nccl->call.ncclGetLastError(NULL);
    return ls_cuda_blame(
        ls_fail(LS_CODE_MISSING, "NCCL", what,
                "NCCL reports '%s%s%s'; give each rank its own GPU, and check that all "
                "ranks reach each other (NCCL_DEBUG=INFO prints the cause)",
                nccl->call.ncclGetErrorString(result), more && *more ? ": " : "",
                more && *more ? more : ""));
}
