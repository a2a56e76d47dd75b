/* SPDX-License-Identifier: MIT */
/*
 * What the tests of common/data share: a directory of their own, files made from bytes, IDX and
 * safetensors files built field by field (so that each field can be wrong), and the check that a
 * refusal is one line with the words expected.
 */
#pragma once

#include "common/base/status.h"
#include "common/base/tests/must.h"
#include "common/data/tests/memory_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

typedef struct bytes {
    uint8_t data[8192];
    size_t size;
} bytes;

static inline void add_bytes(bytes *to, const void *data, size_t size)
{
    assert_true(to->size + size <= sizeof to->data);
    memcpy(to->data + to->size, data, size);
    to->size += size;
}

/* An IDX header, sizes[rank], and `count` elements 0, 1, 2, .. */
static inline bytes make_idx(uint8_t type, uint8_t rank, const uint32_t *sizes, size_t count)
{
    bytes made = {.size = 0};
    const uint8_t head[4] = {0, 0, type, rank};
    add_bytes(&made, head, 4);
    for (int i = 0; i < rank; i++) {
        const uint8_t size[4] = {(uint8_t)(sizes[i] >> 24), (uint8_t)(sizes[i] >> 16),
                                 (uint8_t)(sizes[i] >> 8), (uint8_t)sizes[i]};
        add_bytes(&made, size, 4);
    }
    for (size_t i = 0; i < count; i++) {
        uint8_t element = (uint8_t)i;
        add_bytes(&made, &element, 1);
    }
    return made;
}

static inline bytes make_gz(const bytes *plain)
{
    bytes made = {.size = 0};
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (Bytef *)(size_t)plain->data;
    z.avail_in = (uInt)plain->size;
    z.next_out = made.data;
    z.avail_out = sizeof made.data;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    made.size = z.total_out;
    deflateEnd(&z);
    return made;
}

/* The header's length, `header`, and `count` floats 0, 1, 2, .. */
static inline bytes make_tensors(const char *header, size_t count)
{
    bytes made = {.size = 0};
    uint64_t length = strlen(header);
    add_bytes(&made, &length, sizeof length);
    add_bytes(&made, header, strlen(header));
    for (size_t i = 0; i < count; i++) {
        float value = (float)i;
        add_bytes(&made, &value, sizeof value);
    }
    return made;
}

/* A new directory under TMPDIR, into `path`. */
static inline void make_directory(char path[128])
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(path, 128, "%s/lockstep-test-XXXXXX", parent ? parent : "/tmp");
    assert_in_range(length, 1, 127);
    assert_non_null(mkdtemp(path));
}

/* directory/name into `path`. */
static inline char *join(char path[256], const char *directory, const char *name)
{
    snprintf(path, 256, "%s/%s", directory, name);
    return path;
}

static inline void write_file(const char *path, const void *data, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Fails the test unless `status` is a failure of this code, in one line that holds each word. */
static inline void expect_refusal(ls_status status, ls_code code, const char *first,
                                  const char *second)
{
    assert_non_null(status);
    const char *text = ls_status_text(status);
    if (ls_status_code(status) != code || !strstr(text, first) || !strstr(text, second) ||
        strchr(text, '\n') || !strchr(text, ';'))
        fail_msg("'%s' (code %d) is not a refusal of code %d with '%s' and '%s'", text,
                 (int)ls_status_code(status), (int)code, first, second);
    ls_status_free(status);
}
