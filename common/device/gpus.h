/* SPDX-License-Identifier: MIT */
/*
 * GPUs as the driver shows them. Only ls_gpus_look asks the driver; names, numbers and messages
 * follow from the list alone, so that a test can make its own.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct ls_gpu {
    char name[96];       /**< "NVIDIA H200" */
    char pci[16];        /**< "0000:17:00.0" */
    size_t memory;       /**< bytes in all */
    int multiprocessors; /**< whole, however it is split */
    int major, minor;    /**< compute capability */
} ls_gpu;

enum { LS_GPUS_MOST = 64 };

typedef struct ls_gpus {
    ls_gpu *items; /**< in the order of their numbers: gpu:0 is items[0]; owned, free() */
    int count;
    char reason[128]; /**< why there is none; "" where there are some */
    char driver[32];  /**< "CUDA 13.0"; "" without one */
} ls_gpus;

/** What the driver answered when it was asked for its GPUs; versions are 1000 major + 10 minor. */
typedef struct ls_gpu_answer {
    int driver;          /**< newest version that the driver knows; 0 if there is no driver */
    int runtime;         /**< version that this build needs */
    bool too_old;        /**< it refused, being too old for this build */
    const char *visible; /**< CUDA_VISIBLE_DEVICES, or NULL */
    const char *error;   /**< the driver's own words; NULL means no error, there are `count` GPUs */
    int count;
} ls_gpu_answer;

/** Lists the GPUs, or sets `reason` where there is none. In builds with CUDA (cuda/cuda_look.c). */
ls_status ls_gpus_look(ls_gpus *out);

/** In machine.c. Sets `driver` and `reason`: "no driver", "driver too old: ...", "no GPU: ...". */
void ls_gpus_explain(const ls_gpu_answer *answer, ls_gpus *out);
