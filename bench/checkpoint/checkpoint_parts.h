/* SPDX-License-Identifier: MIT */
/* What the files of this folder share. */
#pragma once

#include "bench/checkpoint/checkpoint.h"
#include "impl/step/run/run.h"
#include "impl/step/plan/state_parts.h"

#define LS_MANIFEST          "manifest.json"
#define LS_MANIFEST_PART     "manifest.json.part"
#define LS_SHARD             "shard-"
#define LS_CHECKPOINT_FORMAT "lockstep-checkpoint"
enum { LS_CHECKPOINT_VERSION = 1, LS_TENSOR_NAME = 128 };

extern const char ls_checkpoint_what[]; /**< begins messages */

/** The failure of a reading: LS_CODE_MISSING; `tensor` may be NULL. */
ls_status ls_checkpoint_broken(const char *path, const char *tensor, const char *why);

/** Whether a value of a manifest is a whole number from 0, then *out; a digest. */
bool ls_manifest_size(const json_t *value, size_t *out);
bool ls_manifest_digest(const json_t *value);

/** Flushes a folder's entries to disk; returns errno. */
int ls_folder_flush(const char *path);

/** A file of a checkpoint that is being written. */
typedef struct ls_shard {
    int member;
    char name[32];
    size_t first, end; /**< of the parts */
    size_t elements;   /**< of one array */
    char *header;
    size_t header_bytes;
    char *path;
    int fd;           /**< of this process's, until it is flushed; else -1 */
    const char *read; /**< the mapped file, on rank 0; NULL if not mapped */
    size_t read_bytes;
    char digest[33];
} ls_shard;

/** A checkpoint that is being written. */
typedef struct ls_checkpoint_writing {
    const ls_checkpoint_order *order;
    const ls_step_run *run;
    const ls_job *job;
    const ls_variables *variables;
    ls_state_parts parts;
    size_t *at;       /**< [parts] first element of each in its shard's array */
    size_t *shard_of; /**< [parts] */
    ls_shard *shards; /**< [count] */
    size_t count;
    const char *names[LS_ARRAYS]; /**< of the arrays, in the order of files */
    ls_values arrays[LS_ARRAYS];
    int array_count;
    float *block; /**< [AT_ONCE] */
} ls_checkpoint_writing;

/** "exp_avg/dense0.weight", or of a part "exp_avg/dense0.weight@1024"; `out` [LS_TENSOR_NAME]. */
void ls_checkpoint_tensor(const ls_checkpoint_writing *writing, int array,
                          const ls_state_part *part, char *out);

size_t ls_shard_bytes(const ls_checkpoint_writing *writing, const ls_shard *shard);

/** The failure of a write, by errno. */
ls_status ls_checkpoint_refuse(const char *path, int error);

/** By rank 0, when all shards are written (checkpoint_manifest.c): makes the manifest, owned by the
 * caller; writes it, after which the checkpoint is complete. */
ls_status ls_manifest_make(ls_checkpoint_writing *writing, json_t **out);
ls_status ls_manifest_write(const ls_checkpoint_writing *writing, const json_t *manifest);
