/* SPDX-License-Identifier: MIT */
/*
 * Words failures of CUDA's run-time library; see cuda_check.h. Tested with emulated failures
 * (test_cuda_emulated); not yet seen on a GPU.
 */
#include "common/device/cuda/cuda_check.h"

#include "common/device/cuda/cuda_error.h"

#include <stdio.h>

/* After such an error CUDA rejects every call on the device until the process ends. */
static bool is_sticky(cudaError_t error)
{
    switch (error) {
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorTensorMemoryLeak:
    case cudaErrorContained:
        return true;
    default:
        return false;
    }
}

/* Whether a call cannot be captured, or invalidated the capture. */
static bool is_of_capture(cudaError_t error)
{
    return error >= cudaErrorStreamCaptureUnsupported && error <= cudaErrorStreamCaptureWrongThread;
}

/* Free and total memory of the device; also works while this thread captures. */
static cudaError_t ask_memory(size_t *available, size_t *total)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    *available = *total = 0;
    cudaThreadExchangeStreamCaptureMode(&mode);
    const cudaError_t error = cudaMemGetInfo(available, total);
    cudaThreadExchangeStreamCaptureMode(&mode);
    cudaGetLastError(); /* the caller reports it */
    return error;
}

ls_status ls_cuda_fail(const char *where, const char *doing, cudaError_t error, const char *remedy)
{
    char memory[160] = "";
    size_t available, total;
    cudaGetLastError(); /* clears it, so that the next check does not report it again */
    if (is_sticky(error))
        return ls_status_final(
            ls_fail(LS_CODE_MISSING, "gpu", where,
                    "%s: %s (%s); this process cannot use the GPU any more; start the command "
                    "again, and if it fails again, run it with compute-sanitizer",
                    doing, cudaGetErrorString(error), cudaGetErrorName(error)));
    if (is_of_capture(error) && !remedy)
        remedy = "use --capture no";
    if (error == cudaErrorMemoryAllocation && ask_memory(&available, &total) == cudaSuccess) {
        snprintf(memory, sizeof memory, "; the GPU has %zu bytes free of %zu", available, total);
        if (!remedy)
            remedy = "try --memory growth or fraction=F, a smaller batch or more devices";
    }
    return ls_fail(LS_CODE_MISSING, "gpu", where, "%s: %s (%s)%s%s%s", doing,
                   cudaGetErrorString(error), cudaGetErrorName(error), memory, remedy ? "; " : "",
                   remedy ? remedy : "");
}

ls_status ls_cuda_check(const char *where, const char *doing, cudaError_t error)
{
    return error == cudaSuccess ? LS_OK : ls_cuda_fail(where, doing, error, NULL);
}

ls_status ls_cuda_check_code(const char *where, const char *doing, int error)
{
    return ls_cuda_check(where, doing, (cudaError_t)error);
}

/* A device that has failed answers every call with the same error, so any call shows it. */
ls_status ls_cuda_blame(ls_status status)
{
    size_t available, total;
    return status && is_sticky(ask_memory(&available, &total)) ? ls_status_final(status) : status;
}
