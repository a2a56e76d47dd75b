/* SPDX-License-Identifier: MIT */
/*
 * Checkpoint: the state of a run (impl/state.h) in a folder; a run with any layout can continue
 * from it. DIR/step-00000100/ has a safetensors file for each device that writes, and, last, a
 * manifest: a folder without manifest.json is not a checkpoint. The format: README.md.
 *
 *     checkpoint_folder.c   which folders are checkpoints; leftovers; older ones; reads a manifest
 *     checkpoint_write.c    writes one, by all processes together; last its manifest
 *     checkpoint_read.c     checks and reads the files of one
 */
#pragma once

#include "impl/strategy.h"

#include <jansson.h>
#include <stdbool.h>

/* ---- Folders --------------------------------------------------------------------------------- */

/** The checkpoint of a path: the folder itself, or the newest complete one in it; *out, owned by
 * the caller, is NULL if there is none. */
ls_status ls_checkpoint_find(const char *path, char **out);

/** Makes the folder of checkpoints if it is not there, and refuses one that cannot be written. */
ls_status ls_checkpoints_make(const char *folder);

/** Removes what a write left that did not end: folders of steps without a manifest. */
void ls_checkpoints_clean(const char *folder);

/** Removes older checkpoints than `step`, except the newest ones: `keep` are left, with `step`. */
void ls_checkpoints_keep(const char *folder, uint64_t step, int64_t keep);

/** Removes the checkpoint of a step, or the files left of it; the manifest first. */
void ls_checkpoint_remove(const char *folder, uint64_t step);

/** "FOLDER/step-00000100", then "/NAME" unless `name` is NULL; owned by the caller. NULL if out of
 * memory. */
char *ls_checkpoint_path(const char *folder, uint64_t step, const char *name);

/* ---- Writing --------------------------------------------------------------------------------- */

/** What to write. Everything is borrowed. */
typedef struct ls_checkpoint_order {
    ls_run *run;           /**< whose state it is; no step is enqueued */
    const char *folder;    /**< of checkpoints; there */
    uint64_t step;         /**< steps done */
    uint64_t position;     /**< samples in `step` steps */
    const json_t *agree;   /**< the manifest's `case`: what a run that goes on must have */
    const json_t *written; /**< its `written`: where from */
} ls_checkpoint_order;

/** Writes a checkpoint, complete or not at all. *bytes: of the state's elements. LS_CODE_CHECK if
 * an element is not finite; LS_CODE_MISSING if a file cannot be written. All processes call it. */
ls_status ls_checkpoint_write(const ls_checkpoint_order *order, uint64_t *bytes);

/* ---- Reading --------------------------------------------------------------------------------- */

typedef struct ls_checkpoint {
    char *folder;
    char *path; /**< of the manifest */
    json_t *manifest;
    uint64_t step;
} ls_checkpoint;

/** Reads and checks the manifest. LS_CODE_MISSING, naming the file. */
ls_status ls_checkpoint_open(const char *folder, ls_checkpoint *out);

/** It may be zero-filled. */
void ls_checkpoint_close(ls_checkpoint *checkpoint);

/** A checkpoint's files, open and checked. */
typedef struct ls_checkpoint_files ls_checkpoint_files;

/** Checks are numbered; of so many shares a process does one, others of its host with the same file
 * or folder the rest. */
typedef struct ls_check_share {
    int share, shares;
    int first;     /**< the lowest rank of these processes */
    ls_comm *comm; /**< of all processes; NULL if this one is alone */
} ls_check_share;

/** Which processes have the file or folder at `path`; all call it. `own_status`: as of
 * ls_comm_bring. */
ls_status ls_check_share_find(const char *path, int host, ls_comm *comm, ls_status own_status,
                              ls_check_share *out);

/**
 * Opens the files for reading the arrays `names` [LS_ARRAYS] (NULL leaves one out; if only the
 * first is given, all tensors of the others are skipped). Every file has its size and its parts,
 * which cover each variable of each array once, its digest, and finite elements: else
 * LS_CODE_MISSING, naming file and tensor. All processes call it. All arguments except `names` are
 * borrowed.
 */
ls_status ls_checkpoint_files_open(const ls_checkpoint *checkpoint, const ls_variables *variables,
                                   const char *const names[LS_ARRAYS], ls_check_share share,
                                   ls_checkpoint_files **out);

/** Reads elements `range` of the model from an array. */
ls_status ls_checkpoint_read(const ls_checkpoint_files *files, ls_values array, ls_range range,
                             float *out);

/** Takes NULL. */
void ls_checkpoint_files_close(ls_checkpoint_files *files);
