/* SPDX-License-Identifier: MIT */
/*
 * The build's cuBLASLt can be loaded, has every function used, and the headers' version. Runs
 * without a GPU; the library then reports that it is unusable. Skipped in a build without CUDA, or
 * if the library is not installed.
 */
#include "common/kernel/kernel.h"

#include <stdio.h>
#include <string.h>

#if LS_HAS_CUDA
#include "common/kernel/cuda/cuda_blas.h"

int main(void)
{
    ls_blas blas;
    char version[32];
    ls_status status = ls_blas_load(&blas);
    if (status) {
        const bool absent = strstr(ls_status_text(status), "cannot be loaded") != NULL;
        puts(ls_status_text(status));
        ls_status_free(status);
        return absent ? 77 : 1;
    }
    const bool right = (int)blas.call.cublasLtGetVersion() / 10000 == CUBLAS_VER_MAJOR;
    status = ls_blas_open(&blas);
    const char *text = ls_status_text(status);
    const bool said =
        !status ||
        strncmp(text, "cuBLASLt: create a handle: this function of cuBLASLt failed: ", 61) == 0;
    printf("cuBLASLt %s, handle: %s\n", ls_blas_version(&blas, version), text);
    ls_status_free(status);
    ls_blas_close(&blas);
    return right && said ? 0 : 1;
}
#else
int main(void)
{
    puts("skipped: this build has no CUDA");
    return 77;
}
#endif
