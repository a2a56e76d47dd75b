/* SPDX-License-Identifier: MIT */
/* An operation whose order matters, for tests. */
#pragma once

#include "common/device/tests/device_fixture.h"

/* value = value * factor + addend, so that order shows. */
typedef struct affine {
    ls_op op;
    uint64_t *value, factor, addend;
    const uint64_t *also; /* added, too; may be NULL */
} affine;

static ls_status run_affine(ls_op *op, ls_queue *queue)
{
    affine *a = (affine *)op;
    *a->value = *a->value * a->factor + a->addend + (a->also ? *a->also : 0);
    return LS_OK;
}

static affine make_affine(uint64_t *value, uint64_t factor, uint64_t addend)
{
    return (affine){.op = {.name = "affine", .run = run_affine, .destroy = keep},
                    .value = value,
                    .factor = factor,
                    .addend = addend};
}
