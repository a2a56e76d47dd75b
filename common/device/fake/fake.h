/* SPDX-License-Identifier: MIT */
/*
 * A fake GPU for the program built with -DLOCKSTEP_CUDA=FAKE: what the emulated kernels and the
 * stand-ins for cuBLASLt, cuDNN and NCCL ask of the stand-in for CUDA's run-time library, whose own
 * functions cuda_runtime_api.h declares. See README.md.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Work on a device: `run` gets a copy of `context`, once, or once for each replay of a graph. */
typedef struct ls_fake_work {
    const char *name;      /**< for messages; copied */
    void (*run)(void *);   /**< may touch the memory of the stream's device */
    bool (*ready)(void *); /**< NULL means at once; else asked again until true */
    const void *context;   /**< `bytes` of it are copied */
    size_t bytes;
    unsigned devices; /**< bits of other devices whose memory it may touch */
} ls_fake_work;

/**
 * Puts work on a stream, or into the capture of the stream. A cudaError_t: wrong where the stream
 * belongs to another device than the current one, as a kernel's launch is.
 */
int ls_fake_enqueue(void *stream, const ls_fake_work *work);

/** As above, whatever device is the current one. */
int ls_fake_enqueue_anywhere(void *stream, const ls_fake_work *work);

/** Number of a stream's device, or of the current one. */
int ls_fake_device_of(void *stream);
int ls_fake_current(void);

/** Whether a stream is captured. */
bool ls_fake_captured(void *stream);

/** The device that a pointer is the memory of; -1 if there is none. */
int ls_fake_owner(const void *memory);

/** Prints what the program did wrong, and ends the process. */
#ifdef __cplusplus
[[noreturn]]
#else
_Noreturn
#endif
void ls_fake_refuse(const char *format, ...) __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
