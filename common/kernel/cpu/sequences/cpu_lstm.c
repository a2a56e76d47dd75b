/* SPDX-License-Identifier: MIT */
/*
 * LSTM of the cpu table, a few samples at a time, so that their gates stay in the second-level
 * cache. Forward: one product of the inputs of all their steps, then the recurrence by a vector
 * loop. Backward: the recurrence, then one product each for both weights' gradients, added to those
 * of the samples before, and the inputs'. (One direction of 64 samples, 140 steps, 256 inputs and
 * 64 states, AVX-512, one core of a busy machine, in ms forward and backward: so 9.1 and 10.1; with
 * all samples in one product 14.3 and 15.0. oneDNN 2.6's LSTM, its plain reference on some
 * processors, took 8.2 and 17.1 on a quiet one, where all samples in one product took 6.6 and 9.4.)
 *
 * Rows of the recurrence are split over the device's threads; how many samples go together depends
 * on the sizes and the number of threads only.
 *
 * Kept: [B,T,4H] gates, [B,T,H] cells, [B,T,H] the state before each step.
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/cpu/product/cpu_product.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCT_ROWS = 512 }; /* a product's rows at least: with less, its set-up shows */

typedef struct lstm_op {
    ls_op op;
    const ls_vector_loops *loops;
    ls_device *device;
    int threads;
    bool backward;
    ls_vector_lstm loop;
    int64_t together;   /* samples that go together */
    int64_t row, count; /* those at work */
    const float *x, *weight_ih, *weight_hh;
    float *dx, *dweight_ih, *dweight_hh, *dbias;
    float *scratch; /* packed recurrent weights; backward: a bias gradient, the gradient of z of the
                       samples at work (so it stays in the cache), then the threads' own */
    float *bias_sums;
} lstm_op;

static size_t thread_scratch(const lstm_op *l)
{
    return l->backward ? (size_t)(2 * LS_VECTOR_LSTM_ROWS * ls_vector_pad(l->loop.shape.hidden))
                       : 0;
}

static void recurrence_part(void *context, int part, int parts)
{
    const lstm_op *l = context;
    const int64_t blocks = (l->count + LS_VECTOR_LSTM_ROWS - 1) / LS_VECTOR_LSTM_ROWS;
    int64_t first, last;
    ls_vector_lstm loop = l->loop;
    loop.scratch += (size_t)part * thread_scratch(l);
    ls_cpu_share(blocks, part, parts, &first, &last);
    first *= LS_VECTOR_LSTM_ROWS;
    last = last * LS_VECTOR_LSTM_ROWS < l->count ? last * LS_VECTOR_LSTM_ROWS : l->count;
    (l->backward ? l->loops->lstm_backward : l->loops->lstm_forward)(&loop, l->row + first,
                                                                     l->row + last);
}

static ls_status forward_rows(lstm_op *l)
{
    const ls_lstm_shape *s = &l->loop.shape;
    const ls_gemm_args inputs = {.transpose_b = true,
                                 .m = l->count * s->steps,
                                 .n = 4 * s->hidden,
                                 .k = s->inputs,
                                 .a = l->x + l->row * s->steps * s->inputs,
                                 .b = l->weight_ih,
                                 .c = l->loop.gates + l->row * s->steps * 4 * s->hidden};
    LS_TRY(ls_product_once(&inputs));
    ls_team_run(l->threads, recurrence_part, l);
    return LS_OK;
}

static ls_status run_forward(ls_op *op, ls_queue *queue)
{
    (void)queue;
    lstm_op *l = (lstm_op *)op;
    l->loops->pack_recurrent(l->weight_hh, l->loop.shape.hidden, false, l->scratch);
    for (l->row = 0; l->row < l->loop.shape.rows; l->row += l->count) {
        const int64_t left = l->loop.shape.rows - l->row;
        l->count = left < l->together ? left : l->together;
        LS_TRY(forward_rows(l));
    }
    return LS_OK;
}

static void bias_part(void *context, int part, int parts)
{
    const lstm_op *l = context;
    const ls_lstm_shape *s = &l->loop.shape;
    int64_t first, last;
    ls_cpu_split(4 * s->hidden, part, parts, &first, &last);
    l->loops->column_sums(l->loop.dz, l->count * s->steps, 4 * s->hidden, first, last,
                          l->bias_sums);
    l->loops->add(l->dbias + first, l->bias_sums + first, l->dbias + first, last - first);
}

static ls_status backward_rows(lstm_op *l)
{
    const ls_lstm_shape *s = &l->loop.shape;
    const int64_t H = s->hidden, I = s->inputs, N = l->count * s->steps, at = l->row * s->steps;
    ls_gemm_args weights = {.transpose_a = true,
                            .m = 4 * H,
                            .n = I,
                            .k = N,
                            .a = l->loop.dz,
                            .b = l->x + at * I,
                            .c = l->dweight_ih,
                            .accumulate = l->row + l->count < s->rows};
    l->loop.dz_row = l->row;
    ls_team_run(l->threads, recurrence_part, l);
    LS_TRY(ls_product_once(&weights));
    weights.n = H;
    weights.b = l->loop.previous + at * H;
    weights.c = l->dweight_hh;
    LS_TRY(ls_product_once(&weights));
    ls_team_run(l->threads, bias_part, l);
    if (!l->dx)
        return LS_OK;
    const ls_gemm_args inputs = {
        .m = N, .n = I, .k = 4 * H, .a = l->loop.dz, .b = l->weight_ih, .c = l->dx + at * I};
    return ls_product_once(&inputs);
}

static ls_status run_backward(ls_op *op, ls_queue *queue)
{
    (void)queue;
    lstm_op *l = (lstm_op *)op;
    const ls_lstm_shape *s = &l->loop.shape;
    l->loops->fill(l->dbias, 0, 4 * s->hidden);
    if (!s->rows) {
        l->loops->fill(l->dweight_ih, 0, 4 * s->hidden * s->inputs);
        l->loops->fill(l->dweight_hh, 0, 4 * s->hidden * s->hidden);
    }
    l->loops->pack_recurrent(l->weight_hh, s->hidden, true, l->scratch);
    for (int64_t rest = s->rows; rest > 0; rest = l->row) { /* the last that forward did first */
        l->row = (rest - 1) / l->together * l->together;
        l->count = rest - l->row;
        LS_TRY(backward_rows(l));
    }
    return LS_OK;
}

static void destroy(ls_op *op)
{
    lstm_op *l = (lstm_op *)op;
    ls_device_release(l->device, l->scratch);
    free(l);
}

static ls_status prepare(lstm_op *l)
{
    const ls_lstm_shape *s = &l->loop.shape;
    const int64_t step = (int64_t)LS_VECTOR_LSTM_ROWS * l->threads;
    l->together = (PRODUCT_ROWS / s->steps + step) / step * step;
    const int64_t most = l->together < s->rows ? l->together : s->rows;
    size_t packed = (size_t)(4 * s->hidden * ls_vector_pad(s->hidden));
    size_t sums = l->backward ? (size_t)(4 * s->hidden) : 0;
    size_t dz = l->backward ? (size_t)(most * s->steps * 4 * s->hidden) : 0;
    size_t elements = packed + sums + dz + (size_t)l->threads * thread_scratch(l);
    void *scratch;
    LS_TRY(ls_device_allocate(l->device, LS_MEMORY_WORKSPACE, elements * sizeof(float), &scratch));
    l->scratch = scratch;
    l->loop.packed = l->scratch;
    l->bias_sums = l->scratch + packed;
    l->loop.dz = l->bias_sums + sums;
    l->loop.scratch = l->loop.dz + dz;
    l->op.workspace = elements * sizeof(float);
    l->op.reorders = 1; /* recurrent weights */
    l->op.reordered_bytes = packed * sizeof(float);
    return LS_OK;
}

/* `like` has what differs; kept is divided here. */
static ls_status make(const cpu_kernels *cpu, const lstm_op *like, float *kept, ls_op **out)
{
    const ls_lstm_shape *s = &like->loop.shape;
    lstm_op *l = malloc(sizeof *l);
    if (!l)
        return ls_fail_memory(like->op.name, sizeof *l);
    *l = *like;
    l->op.destroy = destroy;
    l->loops = cpu->loops;
    l->device = cpu->base.device;
    l->threads = ls_cpu_threads_for(cpu, s->rows * s->steps * s->hidden);
    l->loop.gates = kept;
    l->loop.cells = kept + s->rows * s->steps * 4 * s->hidden;
    l->loop.previous = l->loop.cells + s->rows * s->steps * s->hidden;
    ls_status status = prepare(l);
    if (status) {
        free(l);
        return status;
    }
    *out = &l->op;
    return LS_OK;
}

ls_status ls_cpu_lstm_forward(ls_kernels *kernels, const ls_lstm_forward_args *a,
                              const ls_work *work, ls_op **out)
{
    const lstm_op like = {.op = {.name = "lstm_forward.product_loop",
                                 .run = run_forward,
                                 .flops = work->flops,
                                 .bytes = work->bytes},
                          .loop = {.shape = a->shape, .bias = a->bias, .y = a->y},
                          .x = a->x,
                          .weight_ih = a->weight_ih,
                          .weight_hh = a->weight_hh};
    return make((const cpu_kernels *)kernels, &like, a->kept, out);
}

ls_status ls_cpu_lstm_backward(ls_kernels *kernels, const ls_lstm_backward_args *a,
                               const ls_work *work, ls_op **out)
{
    const lstm_op like = {.op = {.name = "lstm_backward.product_loop",
                                 .run = run_backward,
                                 .flops = work->flops,
                                 .bytes = work->bytes},
                          .backward = true,
                          .loop = {.shape = a->shape, .dy = a->dy},
                          .x = a->x,
                          .weight_ih = a->weight_ih,
                          .weight_hh = a->weight_hh,
                          .dx = a->dx,
                          .dweight_ih = a->dweight_ih,
                          .dweight_hh = a->dweight_hh,
                          .dbias = a->dbias};
    return make((const cpu_kernels *)kernels, &like, a->kept, out);
}
