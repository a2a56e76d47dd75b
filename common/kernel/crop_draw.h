/* SPDX-License-Identifier: MIT */
/* Draws the position of a sample's crop, for all tables. */
#pragma once

#include "common/base/random/philox_inline.h"
#include "common/kernel/kernel.h"

/** The crop's first pixel, in pixels of the image; the border begins at -pad. */
typedef struct ls_crop {
    int64_t y, x;
    bool flip;
} ls_crop;

/** `random` is ls_random_stream(seed, "augment"). */
LS_DEVICE_FN ls_crop ls_crop_draw(const ls_gather_crops_args *a, ls_random random, int64_t row)
{
    const uint32_t positions = (uint32_t)(a->in_side + 2 * a->pad - a->out_side) + 1;
    ls_crop crop;
    crop.y = crop.x = positions / 2 - a->pad;
    crop.flip = false;
    if (!a->augment)
        return crop;
    uint32_t words[4];
    ls_random_block(random, a->state->position + a->offset + (uint64_t)row, words);
    crop.y = words[0] % positions - a->pad;
    crop.x = words[1] % positions - a->pad;
    crop.flip = words[2] & 1;
    return crop;
}
