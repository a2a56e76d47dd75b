/* SPDX-License-Identifier: MIT */
/* Provenance: the group of a row that describes program, source, build and machine. */
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
 * loops_isa, library_isa, arch, os, host, cores_allowed, memory_limit (bytes), environment {NAME:
 * value} (environment.h); lists over devices: cores_per_device (their number) and cores (the
 * system's numbers); oversubscribed, denormals_flushed (on every CPU device), huge_pages (requested
 * by any device), ci95 (what the median's interval means). set_aside ("NAME=value") exists if
 * OpenMP's variables are in the environment (set_aside.h), gpu, driver and gpus (a list: device,
 * pci, multiprocessors) exist if a device is a GPU, mpi if it is used, commit and dirty if the
 * source was under git. Bytes beyond ASCII in text that is not UTF-8 become '?'.
 */
json_t *ls_provenance_build(const ls_provenance *facts);

enum { LS_LIBRARIES_MOST = 12 };

typedef struct ls_library {
    const char *name; /**< "oneDNN" */
    char version[32]; /**< "2.6.3" */
} ls_library;

/** Lists the libraries that this build uses, with the loaded versions; returns their number. */
size_t ls_libraries(ls_library out[LS_LIBRARIES_MOST]);
