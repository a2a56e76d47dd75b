/* SPDX-License-Identifier: MIT */
/* Crops of images into a batch, by a vector loop over the rows; the draws are the reference's. */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/crop_draw.h"

typedef struct crop_op {
    const ls_vector_loops *loops;
    int threads;
    ls_random random;
    ls_gather_crops_args arguments;
} crop_op;

static void crop_part(void *context, int part, int parts)
{
    const crop_op *c = context;
    const ls_gather_crops_args *a = &c->arguments;
    int64_t first, last;
    ls_cpu_share(a->rows, part, parts, &first, &last);
    for (int64_t r = first; r < last; r++) {
        const ls_crop crop = ls_crop_draw(a, c->random, r);
        c->loops->crop(a, &crop, r);
    }
}

static ls_status run_crops(ls_op *op, ls_queue *queue)
{
    (void)queue;
    crop_op *c = ls_op_arguments(op);
    ls_team_run(c->threads, crop_part, c);
    return LS_OK;
}

ls_status ls_cpu_gather_crops(ls_kernels *kernels, const ls_gather_crops_args *a,
                              const ls_work *work, ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    const ls_op like = {
        .name = "gather_crops.loop", .run = run_crops, .flops = work->flops, .bytes = work->bytes};
    const crop_op bound = {.loops = cpu->loops,
                           .threads = ls_cpu_threads_for(cpu, (int64_t)work->flops),
                           .random = ls_random_stream(a->seed, "augment"),
                           .arguments = *a};
    return ls_op_bind(&like, &bound, sizeof bound, out);
}
