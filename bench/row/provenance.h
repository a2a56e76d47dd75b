/* SPDX-License-Identifier: MIT */
/* Provenance: the group of a row that describes program, source, build and machine. */
#pragma once

#include "common/device/device.h"
#include "common/device/machine.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/**
 * Sets the facts of program, source, build and machine. `commit` and `dirty` exist if the source
 * was under git, `set_aside` ("NAME=value") if OpenMP's variables are in the environment
 * (set_aside.h). `oversubscribed`: any two of the devices share a core. `mpi`: library and version;
 * NULL where no MPI is in use.
 */
void ls_provenance_put(json_t *row, const ls_machine_info *machine, bool oversubscribed,
                       const char *mpi);

/** Adds the next of the case's devices to the lists of devices, cores and GPUs. Denormals are
 * flushed if they are on every CPU device; huge pages count if any device requests them. */
void ls_provenance_put_device(json_t *row, const ls_machine_info *machine,
                              const ls_device_info *device);

enum { LS_LIBRARIES_MOST = 12 };

typedef struct ls_library {
    const char *name; /**< "oneDNN" */
    char version[32]; /**< "2.6.3" */
} ls_library;

/** Lists the libraries that this build uses, with the loaded versions; returns their number. */
size_t ls_libraries(ls_library out[LS_LIBRARIES_MOST]);

/* ---- Environment: the variables that change what a library computes, or how fast ------------- */

/**
 * {NAME: value} for the stream's variables ("NAME=value", each ended by a zero, as in
 * /proc/self/environ) that are in environment.sql's tables, in the order of their names; owned by
 * the caller (json_decref). NULL if there is none, or no memory. Text from outside: bytes that are
 * not printable ASCII become \xNN, and a long value ends in its length and its hash.
 */
json_t *ls_environment_build(FILE *stream);

/** As above, for this process when it was started: without what libraries have set since (Open MPI
 * sets PSM2_DEVICES). NULL also without /proc. */
json_t *ls_environment_own(void);
