/* SPDX-License-Identifier: MIT */
/* Digests of bits: XXH3 of the xxHash library, which is fast enough to hash every parameter. */
#pragma once

#include "common/base/status.h"

#include <stddef.h>
#include <stdint.h>

/** 64-bit XXH3 of `size` bytes, seed 0. */
uint64_t ls_hash64(const void *bytes, size_t size);

/** 128-bit XXH3 over several ranges, as 32 lower-case hexadecimal digits. */
typedef struct XXH3_state_s ls_digest;

/** ls_closing(ls_digest_close) closes it where it is declared, NULL. */
ls_status ls_digest_open(ls_digest **out);
void ls_digest_add(ls_digest *digest, const void *bytes, size_t size);
void ls_digest_text(const ls_digest *digest, char text[33]);
void ls_digest_close(ls_digest **digest);

/** Version of the hash library that is loaded, "0.8.1". Returns `text`. */
const char *ls_digest_version(char text[32]);
