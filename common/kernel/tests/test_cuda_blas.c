/* SPDX-License-Identifier: MIT */
/*
 * The build's cuBLASLt can be loaded, has every function that is used and the version of the
 * headers; all that without a GPU, where it then says that it cannot be used. Skipped in a build
 * without CUDA.
 */
#include "common/kernel/kernel.h"

#include <stdio.h>
#include <string.h>

#if LS_HAS_CUDA
#include "common/device/backend.h"
#include "common/kernel/cuda/cuda_kernels.h"

int main(void)
{
    ls_device device = {.info.text = "gpu:0"};
    cuda_kernels kernels = {.base.device = &device};
    ls_status status = ls_cuda_blas_open(&kernels);
    const char *text = ls_status_text(status);
    const bool loaded = kernels.loaded && strncmp(kernels.library, "cuBLASLt ", 9) == 0;
    const bool said = !status || strncmp(text, "cuBLASLt: gpu:0: create a handle: ", 34) == 0;
    printf("%s, handle: %s\n", kernels.library, text);
    ls_status_free(status);
    ls_cuda_blas_close(&kernels);
    return loaded && said ? 0 : 1;
}
#else
int main(void)
{
    puts("skipped: this build has no CUDA");
    return 77;
}
#endif
