/* SPDX-License-Identifier: MIT */
/*
 * IDX files, plain or gz; see idx.h. Compressed bytes are read in pieces, so that such a file and
 * its contents are never in memory together. The header comes first: its sizes are multiplied with
 * checks for overflow, and compared with the bytes in the file (plain: equal; gz: at most 1032 to
 * 1, deflate's limit) before memory is allocated. Then the elements are read or inflated directly
 * to their final memory, and nothing may follow them. Left out: element types other than bytes, gz
 * files with several members.
 */
#include "common/data/idx.h"

#include "common/base/numbers.h"
#include "common/data/raw.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

static const char what[] = "IDX file";
static const char hint[] = "download an intact copy";

enum { TYPE_UINT8 = 0x08, MAX_RANK = 4, PIECE_BYTES = 256 << 10, DEFLATE_RATIO = 1032 };

typedef struct stream {
    ls_raw_file file;
    size_t left;    /* unread bytes of the file */
    bool gz, ended; /* ended: the gz member is complete */
    uint8_t *piece; /* [PIECE_BYTES], for gz */
    z_stream z;
} stream;

static ls_status broken(const stream *in, const char *why)
{
    return ls_fail(LS_CODE_MISSING, what, in->file.path, "%s; %s", why, hint);
}

/* Reads the next piece of the compressed bytes, which must not be at their end. */
static ls_status refill(stream *in)
{
    size_t size = in->left < PIECE_BYTES ? in->left : PIECE_BYTES;
    LS_TRY(ls_raw_read(&in->file, in->piece, size));
    in->z.next_in = in->piece;
    in->z.avail_in = (uInt)size;
    in->left -= size;
    return LS_OK;
}

/* Inflates up to `size` bytes; *got is less only where the stream ends. */
static ls_status inflate_bytes(stream *in, uint8_t *out, size_t size, size_t *got)
{
    size_t done = 0;
    while (done < size && !in->ended) {
        if (!in->z.avail_in && in->left)
            LS_TRY(refill(in));
        size_t room = size - done < (1u << 30) ? size - done : (1u << 30);
        in->z.next_out = out + done;
        in->z.avail_out = (uInt)room;
        int result = inflate(&in->z, Z_NO_FLUSH);
        done += room - in->z.avail_out;
        if (result == Z_STREAM_END)
            in->ended = true;
        else if (result == Z_BUF_ERROR && !in->left)
            return broken(in, "this file's gzip stream is truncated");
        else if (result == Z_MEM_ERROR)
            return ls_fail_memory(in->file.path, PIECE_BYTES);
        else if (result != Z_OK)
            return ls_fail(LS_CODE_MISSING, what, in->file.path,
                           "this file's gzip stream is damaged (%s); %s",
                           in->z.msg ? in->z.msg : "no deflate stream", hint);
    }
    *got = done;
    return LS_OK;
}

/* Reads `size` bytes of contents, plain or gz. */
static ls_status take(stream *in, uint8_t *out, size_t size)
{
    size_t got;
    if (in->gz) {
        LS_TRY(inflate_bytes(in, out, size, &got));
        return got == size ? LS_OK : broken(in, "this file has less data than its header says");
    }
    if (size > in->left)
        return broken(in, "this file is truncated within its header");
    in->left -= size;
    return ls_raw_read(&in->file, out, size);
}

/* Nothing may follow the elements: no further element, gz member or byte. */
static ls_status check_end(stream *in)
{
    if (in->gz) {
        uint8_t more;
        size_t got;
        LS_TRY(inflate_bytes(in, &more, 1, &got));
        if (got)
            return broken(in, "this file has more data than its header says");
        if (in->z.avail_in || in->left)
            return broken(in, "this file has bytes after the end of its gzip stream");
    }
    return LS_OK;
}

/* Reads type, rank and sizes; idx->bytes is their product, which the file can hold. */
static ls_status read_header(stream *in, ls_idx *idx)
{
    uint8_t head[4 + 4 * MAX_RANK];
    LS_TRY(take(in, head, 4));
    if (head[0] || head[1])
        return broken(in, "this is not an IDX file (the first bytes differ)");
    if (head[2] != TYPE_UINT8)
        return ls_fail(LS_CODE_MISSING, what, in->file.path,
                       "this file has elements of type 0x%02x, but only bytes (0x08) can be read; "
                       "convert the elements to bytes",
                       head[2]);
    if (head[3] < 1 || head[3] > MAX_RANK)
        return ls_fail(
            LS_CODE_MISSING, what, in->file.path,
            "this file has %d dimensions, but only 1 to %d can be read; use MNIST's format",
            head[3], MAX_RANK);
    idx->rank = head[3];
    LS_TRY(take(in, head + 4, 4 * (size_t)idx->rank));
    idx->bytes = 1;
    for (int i = 0; i < idx->rank; i++) {
        const uint8_t *b = head + 4 + 4 * i;
        idx->shape[i] = (int64_t)b[0] << 24 | b[1] << 16 | b[2] << 8 | b[3];
        if (!idx->shape[i])
            return ls_fail(LS_CODE_MISSING, what, in->file.path,
                           "this file is empty: dimension %d of the %d in its header is 0; %s",
                           i + 1, idx->rank, hint);
        if (!ls_size_multiply(idx->bytes, (size_t)idx->shape[i], &idx->bytes))
            return broken(in, "the sizes in this file's header are out of range");
    }
    if (in->gz ? idx->bytes / DEFLATE_RATIO > in->file.size : idx->bytes > in->left)
        return ls_fail(LS_CODE_MISSING, what, in->file.path,
                       "this file is truncated, or its header is wrong: its %zu %s bytes %s the "
                       "%zu bytes of data that the header says; %s",
                       in->gz ? in->file.size : in->left, in->gz ? "compressed" : "data",
                       in->gz ? "cannot expand to" : "are fewer than", idx->bytes, hint);
    if (!in->gz && idx->bytes < in->left)
        return ls_fail(LS_CODE_MISSING, what, in->file.path,
                       "this file has %zu bytes more than its header says; %s",
                       in->left - idx->bytes, hint);
    return LS_OK;
}

static ls_status read_contents(stream *in, ls_idx *out)
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

static ls_status read_gz(stream *in, ls_idx *out)
{
    void *piece;
    LS_TRY(ls_raw_allocate(in->file.path, PIECE_BYTES, &piece));
    in->piece = piece;
    ls_status status = LS_OK;
    if (inflateInit2(&in->z, MAX_WBITS + 16) != Z_OK) { /* 16: gz only */
        status = ls_fail_memory(in->file.path, PIECE_BYTES);
    } else {
        status = read_contents(in, out);
        inflateEnd(&in->z);
    }
    free(piece);
    return status;
}

ls_status ls_idx_read(const char *path, ls_idx *out)
{
    stream in = {.left = 0};
    uint8_t magic[2];
    LS_TRY(ls_raw_open(what, path, &in.file));
    in.left = in.file.size;
    in.gz = pread(in.file.fd, magic, 2, 0) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
    ls_status status = in.gz ? read_gz(&in, out) : read_contents(&in, out);
    ls_raw_close(&in.file);
    return status;
}

const char *ls_idx_zlib_version(void)
{
    return zlibVersion();
}
