/* SPDX-License-Identifier: MIT */
/* What the files of this folder share. */
#pragma once

#include "bench/checkpoint/checkpoint.h"
#include "common/comm/comm.h"

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

/** Flushes a folder's entries to disk; if not, sets errno. */
bool ls_folder_flush(const char *path);
