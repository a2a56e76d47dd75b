/* SPDX-License-Identifier: MIT */
/* Digests through xxHash; see digest.h. */
#include "common/base/digest.h"

#include <stdio.h>
#include <xxhash.h>

uint64_t ls_hash64(const void *bytes, size_t size)
{
    return XXH3_64bits(bytes, size);
}

ls_status ls_digest_open(ls_digest **out)
{
    ls_digest *digest = XXH3_createState();
    if (!digest)
        return ls_fail_memory("digest", sizeof(XXH3_state_t *));
    XXH3_128bits_reset(digest);
    *out = digest;
    return LS_OK;
}

void ls_digest_add(ls_digest *digest, const void *bytes, size_t size)
{
    XXH3_128bits_update(digest, bytes, size);
}

void ls_digest_text(const ls_digest *digest, char text[33])
{
    XXH128_hash_t hash = XXH3_128bits_digest(digest);
    snprintf(text, 33, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

void ls_digest_close(ls_digest **digest)
{
    XXH3_freeState(*digest);
}

const char *ls_digest_version(char text[32])
{
    unsigned version = XXH_versionNumber();
    snprintf(text, 32, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    return text;
}
