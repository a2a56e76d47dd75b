/* SPDX-License-Identifier: MIT */
/*
 * LSTM of the cpu table, a few samples at a time, so that their gates stay in the second-level
 * cache. Forward: one product for the inputs of all their steps, then the recurrence by a vector
 * loop. Backward: the recurrence, then one product each for both weights' gradients (added to the
 * sums of earlier samples) and for the inputs'; in two passes, the gradient of z takes the gates'
 * place. (One direction with 64 samples, 140 steps, 256 inputs and 64 states, AVX-512, one core of
 * a busy machine, ms forward and backward: 9.1 and 10.1; with all samples in one product 14.3 and
 * 15.0. oneDNN 2.6's LSTM, on some processors its plain reference, took 8.2 and 17.1 on a quiet
 * one, where all samples in one product took 6.6 and 9.4.) The device's threads share the rows of
 * the recurrence; the number of samples at a time depends only on the sizes and the number of
 * threads. Kept: [B,T,4H] gates, [B,T,H] cells, [B,T,H] the state before each step.
 */
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/cpu/product/cpu_product.h"

enum { LEAST_ROWS = 512 }; /* fewest rows of a product; below, its set-up dominates */

/* In the operation's memory: packed recurrent weights; backward: a bias gradient, and, if it is one
 * pass, the gradient of z of the current samples, which stays in the cache; then what products work
 * in. */
typedef struct lstm_args {
    ls_vector_lstm loop;
    void (*part)(const cpu_part *p);
    int64_t at_once;    /* samples at a time */
    int64_t row, count; /* the current ones */
    size_t scratch;     /* where products work in the operation's memory */
    const float *x, *weight_ih, *weight_hh;
    float *dx, *dweight_ih, *dweight_hh, *dbias, *bias_sums;
} lstm_args;

static ls_status run_product(cpu_op *op, const ls_gemm_args *gemm)
{
    const lstm_args *l = (const void *)op->arguments;
    const ls_vector_product product = {.gemm = *gemm};
    return ls_packed_run(op->loops, &product, op->threads, (char *)op->memory + l->scratch);
}

static lstm_args *args_of(cpu_op *op)
{
    return (void *)op->arguments;
}

/* The part's samples, in blocks of LS_VECTOR_LSTM_ROWS. */
static void share_rows(const cpu_part *p, int64_t *first, int64_t *last)
{
    const lstm_args *l = p->arguments;
    const int64_t end = p->last * LS_VECTOR_LSTM_ROWS;
    *first = l->row + p->first * LS_VECTOR_LSTM_ROWS;
    *last = l->row + (end < l->count ? end : l->count);
}

static void forward_part(const cpu_part *p)
{
    const lstm_args *l = p->arguments;
    int64_t first, last;
    share_rows(p, &first, &last);
    p->loops->lstm_forward(&l->loop, first, last);
}

static void backward_part(const cpu_part *p)
{
    ls_vector_lstm loop = ((const lstm_args *)p->arguments)->loop;
    int64_t first, last;
    share_rows(p, &first, &last);
    loop.scratch = p->own;
    p->loops->lstm_backward(&loop, first, last);
}

static ls_status share_recurrence(cpu_op *op)
{
    const lstm_args *l = args_of(op);
    return ls_cpu_op_share(op, (l->count + LS_VECTOR_LSTM_ROWS - 1) / LS_VECTOR_LSTM_ROWS, l->part);
}

static ls_status forward_rows(cpu_op *op)
{
    const lstm_args *l = args_of(op);
    const ls_lstm_shape *s = &l->loop.shape;
    const ls_gemm_args inputs = {.transpose_b = true,
                                 .m = l->count * s->steps,
                                 .n = 4 * s->hidden,
                                 .k = s->inputs,
                                 .a = l->x + l->row * s->steps * s->inputs,
                                 .b = l->weight_ih,
                                 .c = l->loop.gates + l->row * s->steps * 4 * s->hidden};
    LS_TRY(run_product(op, &inputs));
    return share_recurrence(op);
}

static ls_status run_forward(cpu_op *op)
{
    lstm_args *l = args_of(op);
    l->loop.packed = op->memory;
    op->loops->pack_recurrent(l->weight_hh, l->loop.shape.hidden, false, op->memory);
    for (l->row = 0; l->row < l->loop.shape.rows; l->row += l->count) {
        const int64_t left = l->loop.shape.rows - l->row;
        l->count = left < l->at_once ? left : l->at_once;
        LS_TRY(forward_rows(op));
    }
    return LS_OK;
}

/* The gradient of z of the current samples. */
static const float *dz_of(const lstm_args *l)
{
    const ls_lstm_shape *s = &l->loop.shape;
    return l->loop.dz + (l->row - l->loop.dz_row) * s->steps * 4 * s->hidden;
}

/* Columns in blocks of 64, as many as a thread's vectors of sums hold. */
static void bias_part(const cpu_part *p)
{
    const lstm_args *l = p->arguments;
    const ls_lstm_shape *s = &l->loop.shape;
    const int64_t columns = 4 * s->hidden, first = p->first * 64;
    const int64_t last = p->last * 64 < columns ? p->last * 64 : columns;
    p->loops->column_sums(dz_of(l), l->count * s->steps, columns, first, last, l->bias_sums);
    p->loops->add(l->dbias + first, l->bias_sums + first, l->dbias + first, last - first);
}

static ls_status backward_weights(cpu_op *op)
{
    const lstm_args *l = args_of(op);
    const ls_lstm_shape *s = &l->loop.shape;
    const int64_t H = s->hidden, I = s->inputs, N = l->count * s->steps, at = l->row * s->steps;
    ls_gemm_args weights = {.transpose_a = true,
                            .m = 4 * H,
                            .n = I,
                            .k = N,
                            .a = dz_of(l),
                            .b = l->x + at * I,
                            .c = l->dweight_ih,
                            .accumulate = l->row + l->count < s->rows};
    LS_TRY(run_product(op, &weights));
    weights.n = H;
    weights.b = l->loop.previous + at * H;
    weights.c = l->dweight_hh;
    LS_TRY(run_product(op, &weights));
    return ls_cpu_op_share(op, (4 * H + 63) / 64, bias_part);
}

static ls_status backward_rows(cpu_op *op)
{
    lstm_args *l = args_of(op);
    const ls_lstm_shape *s = &l->loop.shape;
    const int64_t I = s->inputs, N = l->count * s->steps, at = l->row * s->steps;
    if (l->loop.dz != l->loop.gates)
        l->loop.dz_row = l->row;
    if (l->weight_ih)
        LS_TRY(share_recurrence(op));
    if (l->dweight_ih)
        LS_TRY(backward_weights(op));
    if (!l->dx)
        return LS_OK;
    const ls_gemm_args inputs = {
        .m = N, .n = I, .k = 4 * s->hidden, .a = dz_of(l), .b = l->weight_ih, .c = l->dx + at * I};
    return run_product(op, &inputs);
}

/* Whether it is both passes. */
static bool is_whole(const lstm_args *l)
{
    return l->weight_ih && l->dweight_ih;
}

static size_t packed_floats(int64_t hidden)
{
    return (size_t)(4 * hidden * ls_vector_pad(hidden));
}

static ls_status run_backward(cpu_op *op)
{
    lstm_args *l = args_of(op);
    const ls_lstm_shape *s = &l->loop.shape;
    l->loop.packed = op->memory;
    l->bias_sums = (float *)op->memory + packed_floats(s->hidden);
    l->loop.dz = is_whole(l) ? l->bias_sums + 4 * s->hidden : l->loop.gates;
    if (l->dweight_ih)
        op->loops->fill(l->dbias, 0, 4 * s->hidden);
    if (l->dweight_ih && !s->rows) {
        op->loops->fill(l->dweight_ih, 0, 4 * s->hidden * s->inputs);
        op->loops->fill(l->dweight_hh, 0, 4 * s->hidden * s->hidden);
    }
    if (l->weight_hh)
        op->loops->pack_recurrent(l->weight_hh, s->hidden, true, op->memory);
    for (int64_t rest = s->rows; rest > 0; rest = l->row) { /* reverse of forward's order */
        l->row = (rest - 1) / l->at_once * l->at_once;
        l->count = rest - l->row;
        LS_TRY(backward_rows(op));
    }
    return LS_OK;
}

/* Computes memory sizes and the number of samples at a time, and divides `kept`. */
static ls_status make(ls_kernels *kernels, cpu_op like, lstm_args *l, float *kept,
                      const ls_work *work, ls_op **out)
{
    const ls_lstm_shape *s = &l->loop.shape;
    const int64_t H = s->hidden, all = s->rows * s->steps;
    const size_t packed = packed_floats(H) * sizeof(float);
    like.threads = ls_cpu_threads_for((const cpu_kernels *)kernels, all * H);
    like.op.reorders = 1; /* recurrent weights */
    like.op.reordered_bytes = like.memory_bytes = packed;
    const int64_t step = (int64_t)LS_VECTOR_LSTM_ROWS * like.threads;
    l->at_once = (LEAST_ROWS / s->steps + step) / step * step;
    l->loop.gates = kept;
    l->loop.cells = kept + all * 4 * H;
    l->loop.previous = l->loop.cells + all * H;
    if (l->part == backward_part) {
        const int64_t most = !is_whole(l) ? 0 : l->at_once < s->rows ? l->at_once : s->rows;
        like.memory_bytes += (size_t)(4 * H + most * s->steps * 4 * H) * sizeof(float);
        like.own_bytes = (size_t)(2 * LS_VECTOR_LSTM_ROWS * ls_vector_pad(H)) * sizeof(float);
    }
    l->scratch = like.memory_bytes = (like.memory_bytes + 63) / 64 * 64;
    like.memory_bytes += ls_packed_scratch(like.threads);
    return ls_cpu_op_open(kernels, &like, l, sizeof *l, work, out);
}

ls_status ls_cpu_lstm_forward(ls_kernels *kernels, const ls_lstm_forward_args *a,
                              const ls_work *work, ls_op **out)
{
    lstm_args args = {.loop = {.shape = a->shape, .bias = a->bias, .y = a->y},
                      .part = forward_part,
                      .x = a->x,
                      .weight_ih = a->weight_ih,
                      .weight_hh = a->weight_hh};
    const cpu_op like = {.op.name = "lstm_forward.product_loop", .once = run_forward};
    return make(kernels, like, &args, a->kept, work, out);
}

ls_status ls_cpu_lstm_backward(ls_kernels *kernels, const ls_lstm_backward_args *a,
                               const ls_work *work, ls_op **out)
{
    lstm_args args = {.loop = {.shape = a->shape, .dy = a->dy},
                      .part = backward_part,
                      .x = a->x,
                      .weight_ih = a->weight_ih,
                      .weight_hh = a->weight_hh,
                      .dx = a->dx,
                      .dweight_ih = a->dweight_ih,
                      .dweight_hh = a->dweight_hh,
                      .dbias = a->dbias};
    const cpu_op like = {.op.name = "lstm_backward.product_loop", .once = run_backward};
    return make(kernels, like, &args, a->kept, work, out);
}
