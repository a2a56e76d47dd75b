/* SPDX-License-Identifier: MIT */
/*
 * IDX files, plain or gz; see idx.h. zlib reads both.
 *
 * The header comes first: its sizes are multiplied with checks, and the product is held against the
 * bytes that are there (plain: equal; gz: at most 1032 to 1, the most that deflate can expand)
 * before memory is asked for. Then the elements are read straight to where they stay, and none may
 * follow them.
 *
 * Left out: element types other than bytes; what follows a gz stream and is none.
 */
#include "common/data/idx.h"

#include "common/base/numbers.h"
#include "common/data/raw.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static const char what[] = "IDX file";
static const char hint[] = "an intact copy is needed";

enum { TYPE_UINT8 = 0x08, MAX_RANK = 4, PIECE_BYTES = 256 << 10, DEFLATE_RATIO = 1032 };

typedef struct stream {
    ls_raw_file file;
    gzFile z;
    bool gz; /* else plain */
} stream;

static ls_status broken(const stream *in, const char *why)
{
    return ls_fail(LS_CODE_MISSING, what, in->file.path, "%s; %s", why, hint);
}

/* Why there was nothing more to read. */
static ls_status fail_read(const stream *in)
{
    int code;
    const char *why = gzerror(in->z, &code), *colon = strstr(why, ": "); /* behind a file's name */
    if (code == Z_OK || code == Z_STREAM_END)
        return broken(in, "is truncated: it ends before its header says");
    if (code == Z_BUF_ERROR)
        return broken(in, "its gz stream is truncated");
    if (code == Z_MEM_ERROR)
        return ls_fail_memory(in->file.path, PIECE_BYTES);
    if (code == Z_ERRNO)
        return broken(in, strerror(errno));
    return ls_fail(LS_CODE_MISSING, what, in->file.path, "its gz stream is damaged (%s); %s",
                   colon ? colon + 2 : why, hint);
}

/* `size` bytes of contents. */
static ls_status take(const stream *in, uint8_t *out, size_t size)
{
    const size_t most = 1u << 30;
    for (int got; size; out += got, size -= (size_t)got) {
        got = gzread(in->z, out, (unsigned)(size < most ? size : most));
        if (got <= 0)
            return fail_read(in);
    }
    return LS_OK;
}

/* Of gz the checks stand behind the elements, and so may more of these. */
static ls_status check_end(const stream *in)
{
    uint8_t more;
    int code;
    if (gzread(in->z, &more, 1) > 0)
        return broken(in, "goes on after the data that its header says");
    gzerror(in->z, &code);
    return code == Z_OK || code == Z_STREAM_END ? LS_OK : fail_read(in);
}

/* Type, rank and sizes; idx->bytes is their product, which the bytes there can hold. */
static ls_status read_header(const stream *in, ls_idx *idx)
{
    uint8_t head[4 + 4 * MAX_RANK];
    LS_TRY(take(in, head, 4));
    if (head[0] || head[1])
        return broken(in, "does not begin as an IDX file does");
    if (head[2] != TYPE_UINT8)
        return ls_fail(LS_CODE_MISSING, what, in->file.path,
                       "holds elements of type 0x%02x; only bytes (0x08) are read", head[2]);
    if (head[3] < 1 || head[3] > MAX_RANK)
        return ls_fail(LS_CODE_MISSING, what, in->file.path, "has rank %d; ranks 1 to %d are read",
                       head[3], MAX_RANK);
    idx->rank = head[3];
    LS_TRY(take(in, head + 4, 4 * (size_t)idx->rank));
    idx->bytes = 1;
    for (int i = 0; i < idx->rank; i++) {
        const uint8_t *b = head + 4 + 4 * i;
        idx->shape[i] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
        if (!idx->shape[i])
            return ls_fail(LS_CODE_MISSING, what, in->file.path, "its size %d is 0; %s", i, hint);
        if (!ls_size_multiply(idx->bytes, (size_t)idx->shape[i], &idx->bytes))
            return broken(in, "its sizes are out of range");
    }
    const size_t left = in->file.size - 4 - 4 * (size_t)idx->rank; /* plain */
    if (in->gz ? idx->bytes / DEFLATE_RATIO > in->file.size : idx->bytes > left)
        return ls_fail(LS_CODE_MISSING, what, in->file.path,
                       "is truncated, or its header wrong: %zu bytes cannot hold the %zu that the "
                       "header says; %s",
                       in->file.size, idx->bytes, hint);
    if (!in->gz && idx->bytes < left)
        return ls_fail(LS_CODE_MISSING, what, in->file.path,
                       "goes on for %zu bytes after the data that its header says; %s",
                       left - idx->bytes, hint);
    return LS_OK;
}

static ls_status read_contents(const stream *in, ls_idx *out)
{
    ls_idx idx = {0};
    LS_TRY(read_header(in, &idx));
    void *data;
    LS_TRY(ls_raw_allocate(in->file.path, idx.bytes, &data));
    ls_status status = take(in, data, idx.bytes);
    if (!status)
        status = check_end(in);
    if (status) {
        free(data);
        return status;
    }
    idx.data = data;
    *out = idx;
    return LS_OK;
}

ls_status ls_idx_read(const char *path, ls_idx *out)
{
    stream in = {.z = NULL};
    LS_TRY(ls_raw_open(what, path, &in.file));
    in.z = gzdopen(in.file.fd, "rb");
    if (!in.z) {
        ls_raw_close(&in.file);
        return ls_fail_memory(path, PIECE_BYTES);
    }
    gzbuffer(in.z, PIECE_BYTES);
    in.gz = !gzdirect(in.z);
    ls_status status = read_contents(&in, out);
    gzclose(in.z); /* and the file */
    return status;
}

const char *ls_idx_zlib_version(void)
{
    return zlibVersion();
}
