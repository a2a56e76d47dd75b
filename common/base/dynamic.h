/* SPDX-License-Identifier: MIT */
/*
 * Libraries that are loaded at first use: a GPU's, such as cuDNN. The program must also start on a
 * machine without a GPU, which does not have them.
 */
#pragma once

#include "common/base/status.h"

#include <stdbool.h>

typedef struct ls_dynamic {
    const char *name;   /**< "cuDNN", for messages */
    const char *file;   /**< "libcudnn.so.9": looked for as the system does, then in `folder` */
    const char *folder; /**< where the build found it; "" means nowhere */
    const char *remedy; /**< what would work where it is missing */
    int major;          /**< version that this build was compiled for */
    /** Major version of the loaded library, found with the library's functions. */
    int (*find_major)(const void *functions);
    const char *const *symbols; /**< names of the functions, NULL at the end */
} ls_dynamic;

/**
 * Loads the library and fills `functions`, a struct of function pointers and nothing else, in the
 * order of `symbols`. LS_CODE_MISSING where the library, one of the functions or the right major
 * version is not there. *out is for ls_dynamic_unload.
 */
ls_status ls_dynamic_load(const ls_dynamic *library, void *functions, void **out);

/**
 * After a load that failed: true where the file is neither where the system looks nor in `folder`.
 * False: it is there, but broken, of another version, or without a library that it needs.
 */
bool ls_dynamic_absent(const ls_dynamic *library);

/** Takes NULL. The code stays in the process: such libraries cannot be unloaded safely. */
void ls_dynamic_unload(void *handle);
