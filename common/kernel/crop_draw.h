/* SPDX-License-Identifier: MIT */
/* Where a sample's crop lies: the same for every table that computes on the host. */
#ifndef LS_COMMON_KERNEL_CROP_DRAW_H
#define LS_COMMON_KERNEL_CROP_DRAW_H

#include "common/base/philox.h"
#include "common/kernel/kernel.h"

typedef struct ls_crop {
    int64_t y, x;
    bool flip;
} ls_crop;

/** `random` is ls_random_stream(seed, "augment"). */
static inline ls_crop ls_crop_draw(const ls_gather_crops_args *a, ls_random random, int64_t row)
{
    const uint32_t places = (uint32_t)(a->in_side - a->out_side) + 1;
    const uint64_t at = 4 * (a->state->position + a->offset + (uint64_t)row);
    if (!a->augment)
        return (ls_crop){.y = places / 2, .x = places / 2};
    return (ls_crop){.y = ls_random_bits(random, at) % places,
                     .x = ls_random_bits(random, at + 1) % places,
                     .flip = ls_random_bits(random, at + 2) & 1};
}

#endif
