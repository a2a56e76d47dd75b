/* SPDX-License-Identifier: MIT */
/*
 * libFuzzer target of the IDX reader: the input itself, and the input in a valid gz stream, which a
 * fuzzer would not find because of its checksum. Both must give the same result.
 */
#include "common/data/idx.h"
#include "common/data/tests/memory_file.h"

#include <stdbool.h>
#include <string.h>
#include <zlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { GZ_BYTES = 8192 };

static void require(bool holds)
{
    if (!holds)
        abort();
}

/* Whether the bytes could be read; the result must be consistent. */
static bool try_parse(const uint8_t *data, size_t size)
{
    ls_idx idx;
    char path[32];
    const int file = open_memory(data, size, path);
    ls_status status = ls_idx_read(path, &idx);
    close(file);
    if (status) {
        require(ls_status_code(status) == LS_CODE_MISSING && strlen(ls_status_text(status)) > 0);
        ls_status_free(status);
        return false;
    }
    size_t product = 1;
    for (int i = 0; i < idx.rank; i++)
        product *= (size_t)idx.shape[i];
    require(idx.rank >= 1 && idx.rank <= 4 && product == idx.bytes);
    volatile uint8_t sum = 0;
    for (size_t i = 0; i < idx.bytes; i++)
        sum ^= idx.data[i];
    free(idx.data);
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    bool read = try_parse(data, size);
    uint8_t gz[GZ_BYTES];
    z_stream z = {0};
    require(deflateInit2(&z, 1, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    z.next_in = (Bytef *)(size_t)data;
    z.avail_in = (uInt)size;
    z.next_out = gz;
    z.avail_out = GZ_BYTES;
    int result = deflate(&z, Z_FINISH);
    deflateEnd(&z);
    bool is_gz = size >= 2 && data[0] == 0x1f && data[1] == 0x8b;
    if (result == Z_STREAM_END && !is_gz)
        require(try_parse(gz, GZ_BYTES - z.avail_out) == read);
    return 0;
}
