/* SPDX-License-Identifier: MIT */
/* Provenance: the group of a row that says what ran, from which source, built how, and where. */
#pragma once

#include "common/device/device.h"
#include "common/device/machine.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/** Facts that only the run knows; everything is borrowed. */
typedef struct ls_provenance {
    const ls_machine_info *machine;
    const ls_device_info *const *devices; /**< [device_count], in the order of the case */
    size_t device_count;
    bool oversubscribed;   /**< any two of the devices share a core */
    const json_t *kernels; /**< {operation: kernel}; NULL: none */
    const char *mpi;       /**< library and version; NULL where no MPI is in use */
} ls_provenance;

/**
 * The group `provenance`, owned by the caller (json_decref): commit, dirty, version, build_type,
 * compiler, compiler_flags, libraries {name: version}, kernels {operation: kernel}, cpu, isa,
 * arch, os, host, cores_allowed, memory_limit (bytes); of each device in turn, cores_per_device
 * (how many) and cores (which, operating-system numbers); oversubscribed, denormals_flushed (on
 * every CPU device), huge_pages (any device asks for them), ci95 (what the interval of the median
 * is). gpu, driver and gpus (of each one in turn: device, pci, multiprocessors) are there where a
 * device is a GPU, mpi where it is in use, commit and dirty where the source was under git. Text
 * that is not UTF-8 has '?' for its bytes beyond ASCII.
 */
json_t *ls_provenance_build(const ls_provenance *facts);

enum { LS_LIBRARIES_MOST = 12 };

typedef struct ls_library {
    const char *name; /**< "oneDNN" */
    char version[32]; /**< "2.6.3" */
} ls_library;

/** What this build stands on, with the versions that are loaded; how many. */
size_t ls_libraries(ls_library out[LS_LIBRARIES_MOST]);
