/* SPDX-License-Identifier: MIT */
/*
 * Finds the GPUs. The run-time library is linked statically and looks for the driver itself, so
 * this runs without CUDA, and reports "no driver".
 */
#include "common/device/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>

static ls_status describe(int index, ls_gpu *out)
{
    char where[32];
    struct cudaDeviceProp properties;
    snprintf(where, sizeof where, "gpu:%d", index);
    LS_TRY(ls_cuda_check(where, "properties", cudaGetDeviceProperties(&properties, index)));
    LS_TRY(ls_cuda_check(where, "PCI id",
                         cudaDeviceGetPCIBusId(out->pci, (int)sizeof out->pci, index)));
    snprintf(out->name, sizeof out->name, "%.95s", properties.name);
    out->memory = properties.totalGlobalMem;
    out->multiprocessors = properties.multiProcessorCount;
    out->major = properties.major;
    out->minor = properties.minor;
    return LS_OK;
}

static ls_status describe_all(int count, ls_gpus *out)
{
    ls_gpu *items;
    LS_TRY(ls_allocate("gpus", &items, (size_t)count, sizeof *items));
    for (int i = 0; i < count; i++) {
        ls_status status = describe(i, &items[i]);
        if (status) {
            free(items);
            return status;
        }
    }
    out->items = items;
    out->count = count;
    return LS_OK;
}

ls_status ls_gpus_look(ls_gpus *out)
{
    ls_gpu_answer answer = {.runtime = CUDART_VERSION, .visible = getenv("CUDA_VISIBLE_DEVICES")};
    *out = (ls_gpus){0};
    if (cudaDriverGetVersion(&answer.driver) != cudaSuccess)
        answer.driver = 0;
    const cudaError_t error = cudaGetDeviceCount(&answer.count);
    if (error != cudaSuccess) {
        answer.error = cudaGetErrorString(error);
        answer.count = 0;
        cudaGetLastError(); /* clears it, so that no later check reports it */
    }
    answer.too_old = error == cudaErrorInsufficientDriver;
    ls_gpus_explain(&answer, out);
    if (answer.count > LS_GPUS_MOST)
        answer.count = LS_GPUS_MOST;
    return answer.count ? describe_all(answer.count, out) : LS_OK;
}
