/* SPDX-License-Identifier: MIT */
/*
 * LSTM of the cpu table. Forward: one product of the inputs of all steps, then the recurrence by a
 * vector loop. Backward: the recurrence, then one product each for both weights' gradients and the
 * inputs'. (oneDNN 2.6's LSTM is its plain reference on some processors: one direction of 64
 * samples, 140 steps, 256 inputs and 64 states took 8.2 ms forward and 17.1 ms backward there, 6.6
 * and 9.4 ms here.) Rows of the recurrence are split over the device's threads: no bit changes.
 *
 * Kept: [B,T,4H] gates, [B,T,H] cells, [B,T,H] the state before each step.
 */
#include "common/device/cpu/team.h"
#include "common/kernel/cpu/cpu_kernels.h"
#include "common/kernel/cpu/cpu_product.h"

#include <stdlib.h>
#include <string.h>

enum { PRODUCTS = 3 };

typedef struct lstm_op {
    ls_op op;
    const ls_vector_loops *loops;
    ls_device *device;
    int threads;
    bool backward;
    ls_vector_lstm loop;
    const float *recurrent;        /* [4H,H] */
    float *scratch;                /* packed recurrent weights, then the threads' own */
    ls_product *product[PRODUCTS]; /* forward: the inputs'; backward: both weights', the inputs' */
    float *sums[PRODUCTS]; /* what is zero where there are no rows: gradients, their sizes */
    int64_t sum_count[PRODUCTS];
} lstm_op;

static size_t thread_scratch(const lstm_op *l)
{
    return l->backward ? (size_t)(2 * LS_VECTOR_LSTM_ROWS * ls_vector_pad(l->loop.shape.hidden))
                       : 0;
}

static void recurrence_part(void *context, int part, int parts)
{
    const lstm_op *l = context;
    const int64_t rows = l->loop.shape.rows;
    const int64_t blocks = (rows + LS_VECTOR_LSTM_ROWS - 1) / LS_VECTOR_LSTM_ROWS;
    int64_t first, last;
    ls_vector_lstm loop = l->loop;
    loop.scratch += (size_t)part * thread_scratch(l);
    ls_cpu_share(blocks, part, parts, &first, &last);
    first *= LS_VECTOR_LSTM_ROWS;
    last = last * LS_VECTOR_LSTM_ROWS < rows ? last * LS_VECTOR_LSTM_ROWS : rows;
    (l->backward ? l->loops->lstm_backward : l->loops->lstm_forward)(&loop, first, last);
}

static void run_recurrence(lstm_op *l)
{
    l->loops->pack_recurrent(l->recurrent, l->loop.shape.hidden, l->backward, l->scratch);
    ls_team_run(l->threads, recurrence_part, l);
}

static ls_status run_forward(ls_op *op, ls_queue *queue)
{
    (void)queue;
    lstm_op *l = (lstm_op *)op;
    if (!l->loop.shape.rows)
        return LS_OK;
    LS_TRY(ls_product_run(l->product[0]));
    run_recurrence(l);
    return LS_OK;
}

static void bias_part(void *context, int part, int parts)
{
    const lstm_op *l = context;
    const ls_lstm_shape *s = &l->loop.shape;
    int64_t first, last;
    ls_cpu_split(4 * s->hidden, part, parts, &first, &last);
    l->loops->column_sums(l->loop.gates, s->rows * s->steps, 4 * s->hidden, first, last,
                          l->sums[2]);
}

static ls_status run_backward(ls_op *op, ls_queue *queue)
{
    (void)queue;
    lstm_op *l = (lstm_op *)op;
    if (!l->loop.shape.rows) {
        for (int i = 0; i < PRODUCTS; i++)
            l->loops->fill(l->sums[i], 0, l->sum_count[i]);
        return LS_OK;
    }
    run_recurrence(l);
    for (int i = 0; i < PRODUCTS; i++)
        if (l->product[i])
            LS_TRY(ls_product_run(l->product[i]));
    ls_team_run(l->threads, bias_part, l);
    return LS_OK;
}

static void destroy(ls_op *op)
{
    lstm_op *l = (lstm_op *)op;
    for (int i = 0; i < PRODUCTS; i++)
        ls_product_close(l->product[i]);
    ls_device_release(l->device, l->scratch);
    free(l);
}

/* Scratch and products; `specs` without an output are left out. */
static ls_status prepare(lstm_op *l, const cpu_kernels *cpu, const ls_gemm_args specs[PRODUCTS])
{
    const int64_t hidden = l->loop.shape.hidden;
    size_t packed = (size_t)(4 * hidden * ls_vector_pad(hidden));
    size_t elements = packed + (size_t)l->threads * thread_scratch(l);
    void *scratch;
    LS_TRY(ls_device_allocate(l->device, LS_MEMORY_WORKSPACE, elements * sizeof(float), &scratch));
    l->scratch = scratch;
    l->loop.packed = l->scratch;
    l->loop.scratch = l->scratch + packed;
    l->op.workspace = elements * sizeof(float);
    for (int i = 0; i < PRODUCTS && l->loop.shape.rows; i++) {
        const ls_product_spec spec = {.gemm = specs[i]};
        if (!specs[i].c)
            continue;
        LS_TRY(ls_product_open(l->device, cpu->engine, &spec, &l->product[i]));
        l->op.workspace += ls_product_workspace(l->product[i]);
    }
    return LS_OK;
}

/* `like` has what differs; kept is divided here. */
static ls_status make(const cpu_kernels *cpu, const lstm_op *like, float *kept,
                      const ls_gemm_args specs[PRODUCTS], ls_op **out)
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
    ls_status status = prepare(l, cpu, specs);
    if (status) {
        destroy(&l->op);
        return status;
    }
    *out = &l->op;
    return LS_OK;
}

ls_status ls_cpu_lstm_forward(ls_kernels *kernels, const ls_lstm_forward_args *a, ls_op **out)
{
    const ls_lstm_shape *s = &a->shape;
    ls_work work;
    LS_TRY(ls_check_lstm_forward(a, kernels->table->real_bytes, &work));
    const ls_gemm_args specs[PRODUCTS] = {{.transpose_b = true,
                                           .m = s->rows * s->steps,
                                           .n = 4 * s->hidden,
                                           .k = s->inputs,
                                           .a = a->x,
                                           .b = a->weight_ih,
                                           .c = a->kept}};
    const lstm_op like = {.op = {.name = "lstm_forward.product_loop",
                                 .run = run_forward,
                                 .flops = work.flops,
                                 .bytes = work.bytes},
                          .loop = {.shape = *s, .bias = a->bias, .y = a->y},
                          .recurrent = a->weight_hh};
    return make((const cpu_kernels *)kernels, &like, a->kept, specs, out);
}

ls_status ls_cpu_lstm_backward(ls_kernels *kernels, const ls_lstm_backward_args *a, ls_op **out)
{
    const ls_lstm_shape *s = &a->shape;
    const int64_t H = s->hidden, I = s->inputs, N = s->rows * s->steps;
    const float *gates = a->kept, *previous = gates + N * 5 * H;
    ls_work work;
    LS_TRY(ls_check_lstm_backward(a, kernels->table->real_bytes, &work));
    const ls_gemm_args specs[PRODUCTS] = {
        {.transpose_a = true,
         .m = 4 * H,
         .n = I,
         .k = N,
         .a = gates,
         .b = a->x,
         .c = a->dweight_ih},
        {.transpose_a = true,
         .m = 4 * H,
         .n = H,
         .k = N,
         .a = gates,
         .b = previous,
         .c = a->dweight_hh},
        {.m = N, .n = I, .k = 4 * H, .a = gates, .b = a->weight_ih, .c = a->dx}};
    const lstm_op like = {.op = {.name = "lstm_backward.product_loop",
                                 .run = run_backward,
                                 .flops = work.flops,
                                 .bytes = work.bytes},
                          .backward = true,
                          .loop = {.shape = *s, .dy = a->dy},
                          .recurrent = a->weight_hh,
                          .sums = {a->dweight_ih, a->dweight_hh, a->dbias},
                          .sum_count = {4 * H * I, 4 * H * H, 4 * H}};
    return make((const cpu_kernels *)kernels, &like, a->kept, specs, out);
}
