/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of the cuda table as products (cuda_product.h): the images' windows are the rows of
 * a matrix, multiplied with the weights. Forward: y = windows weight^T, with bias and ReLU in the
 * product. Backward: dweight = dy^T windows; dwindows = dy weight, added back into the images.
 * Windows are channels-last like images; the weights, stored as [O,C,height,width], are reordered
 * once per run. A batch is split into parts whose windows fit `window_bytes`; the parts of a
 * gradient are added in order. A 1 x 1 convolution of stride 1 multiplies the image itself. Cost:
 * windows are written and read once, 118 MB each for 3.8 GFLOP in the second layer of cifar10 at
 * batch 128. cuDNN (cuda_conv_dnn.c) needs no windows, but is not always installed and does not
 * support every shape.
 */
#include "common/device/cuda/cuda.h"
#include "common/kernel/cuda/conv/cuda_conv.h"
#include "common/kernel/cuda/product/cuda_product.h"

#include <stdlib.h>

enum { PARTS = 2, ROWS_UNIT = 4 /* parts begin on 16 bytes */ };

typedef struct conv_op {
    ls_op op;
    ls_device *device;
    ls_conv_task t;
    int64_t part_rows;               /* of all parts except the last */
    ls_cuda_product *product[PARTS]; /* of a part; of the last one, if smaller */
    bool direct;                     /* the windows are the images */
    void *memory;
    float *windows;    /* [part_rows, out_height, out_width, height, width, C] */
    float *packed;     /* NULL if the weights are in this order, or `lent` */
    const float *lent; /* the forward operation's `packed`; NULL if none */
    float *sums;       /* of columns, in pieces */
} conv_op;

static bool is_direct(const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    return ls_conv_taps(s) == 1 && w->stride_y == 1 && w->stride_x == 1 &&
           w->in_height == w->out_height && w->in_width == w->out_width;
}

/* ---- A run ----------------------------------------------------------------------------------- */

/* The part that begins with image `first`. */
static ls_conv_shape part_at(const conv_op *c, int64_t first)
{
    ls_conv_shape part = c->t.shape;
    part.rows = c->t.shape.rows - first < c->part_rows ? c->t.shape.rows - first : c->part_rows;
    return part;
}

/* The weights, channels-last. */
static const float *weight_of(const conv_op *c)
{
    return c->lent ? c->lent : c->packed ? c->packed : c->t.weight;
}

static const ls_cuda_product *product_of(const conv_op *c, int64_t rows)
{
    return c->product[rows == c->part_rows ? 0 : 1];
}

int ls_conv_swap_taps(void *stream, const ls_conv_shape *s, bool back, const float *from, float *to)
{
    const ls_transpose_args args = {.batch = s->outputs,
                                    .rows = back ? ls_conv_taps(s) : s->channels,
                                    .columns = back ? s->channels : ls_conv_taps(s),
                                    .x = from,
                                    .y = to};
    return ls_gpu_transpose(stream, &args);
}

/* Reorders the weights to channels-last or back; nothing if the orders are the same. */
static ls_status swap_taps(const conv_op *c, ls_queue *queue, bool back)
{
    if (!c->packed)
        return LS_OK;
    return ls_cuda_launched(&c->op, queue,
                            ls_conv_swap_taps(ls_queue_native(queue), &c->t.shape, back,
                                              back ? c->packed : c->t.weight,
                                              back ? c->t.dweight : c->packed));
}

/* Fills the windows of a part, unless they are the images. */
static ls_status make_windows(const conv_op *c, ls_queue *queue, const ls_conv_shape *part,
                              int64_t first, const float **out)
{
    const float *x = c->t.x + first * ls_conv_pixels(part) * part->channels;
    *out = c->direct ? x : c->windows;
    if (c->direct)
        return LS_OK;
    return ls_cuda_launched(&c->op, queue,
                            ls_gpu_windows(ls_queue_native(queue), part, x, c->windows));
}

static ls_status run_forward(ls_op *op, ls_queue *queue)
{
    const conv_op *c = (const conv_op *)op;
    const int64_t outputs = c->t.shape.outputs;
    if (!c->product[0])
        return LS_OK;
    LS_TRY(swap_taps(c, queue, false));
    for (int64_t first = 0; first < c->t.shape.rows; first += c->part_rows) {
        const ls_conv_shape part = part_at(c, first);
        ls_cuda_operands on = {.b = weight_of(c),
                               .c = c->t.y + first * ls_conv_positions(&part) * outputs};
        const float *windows;
        LS_TRY(make_windows(c, queue, &part, first, &windows));
        on.a = windows;
        LS_TRY(ls_cuda_product_run_on(product_of(c, part.rows), queue, &on));
    }
    return LS_OK;
}

const float *ls_product_reordered(const ls_conv_task *task)
{
    const conv_op *c = (const conv_op *)task->forward;
    return c->op.run == run_forward && c->t.weight == task->weight ? c->packed : NULL;
}

/* Clears the result if there is nothing to sum. */
static ls_status run_zero(const conv_op *c, ls_queue *queue)
{
    const ls_conv_shape *s = &c->t.shape;
    const ls_fill_args zeros[] = {
        {.count = c->t.dweight ? s->outputs * s->channels * ls_conv_taps(s) : 0, .y = c->t.dweight},
        {.count = c->t.dbias ? s->outputs : 0, .y = c->t.dbias},
        {.count = c->t.dx ? s->rows * ls_conv_pixels(s) * s->channels : 0, .y = c->t.dx}};
    for (size_t i = 0; i < sizeof zeros / sizeof *zeros; i++)
        LS_TRY(ls_cuda_launched(&c->op, queue, ls_gpu_fill(ls_queue_native(queue), &zeros[i])));
    return LS_OK;
}

static ls_status run_backward_weights(ls_op *op, ls_queue *queue)
{
    const conv_op *c = (const conv_op *)op;
    const int64_t outputs = c->t.shape.outputs, positions = ls_conv_positions(&c->t.shape);
    if (!c->product[0])
        return run_zero(c, queue);
    for (int64_t first = 0; first < c->t.shape.rows; first += c->part_rows) {
        const ls_conv_shape part = part_at(c, first);
        ls_cuda_operands on = {.a = c->t.dy + first * positions * outputs,
                               .c = c->packed ? c->packed : c->t.dweight,
                               .accumulate = first > 0};
        const float *windows;
        LS_TRY(make_windows(c, queue, &part, first, &windows));
        on.b = windows;
        LS_TRY(ls_cuda_product_run_on(product_of(c, part.rows), queue, &on));
    }
    LS_TRY(swap_taps(c, queue, true));
    if (!c->t.dbias)
        return LS_OK;
    return ls_cuda_launched(op, queue,
                            ls_gpu_column_sums(ls_queue_native(queue), c->t.dy,
                                               c->t.shape.rows * positions, outputs, c->sums,
                                               c->t.dbias));
}

static ls_status run_backward_data(ls_op *op, ls_queue *queue)
{
    const conv_op *c = (const conv_op *)op;
    if (!c->product[0])
        return run_zero(c, queue);
    LS_TRY(swap_taps(c, queue, false));
    for (int64_t first = 0; first < c->t.shape.rows; first += c->part_rows) {
        const ls_conv_shape part = part_at(c, first);
        float *dx = c->t.dx + first * ls_conv_pixels(&part) * part.channels;
        const ls_cuda_operands on = {.a = c->t.dy + first * ls_conv_positions(&part) * part.outputs,
                                     .b = weight_of(c),
                                     .c = c->direct ? dx : c->windows};
        LS_TRY(ls_cuda_product_run_on(product_of(c, part.rows), queue, &on));
        if (!c->direct)
            LS_TRY(ls_cuda_launched(
                op, queue, ls_gpu_windows_back(ls_queue_native(queue), &part, c->windows, dx)));
    }
    return LS_OK;
}

/* ---- Making one ------------------------------------------------------------------------------ */

static void destroy(ls_op *op)
{
    conv_op *c = (conv_op *)op;
    for (int i = 0; i < PARTS; i++)
        ls_cuda_product_close(c->product[i]);
    ls_device_release(c->device, c->memory);
    free(c);
}

/* The product for a part of `rows` images. */
static ls_gemm_args gemm_of(const conv_op *c, int64_t rows)
{
    const ls_conv_shape *s = &c->t.shape;
    const int64_t windows = rows * ls_conv_positions(s), taps = ls_conv_taps(s) * s->channels;
    const float *weight = weight_of(c);
    if (c->t.y)
        return (ls_gemm_args){.transpose_b = true,
                              .m = windows,
                              .n = s->outputs,
                              .k = taps,
                              .a = c->direct ? c->t.x : c->windows,
                              .b = weight,
                              .c = c->t.y};
    if (c->t.dweight)
        return (ls_gemm_args){.transpose_a = true,
                              .m = s->outputs,
                              .n = taps,
                              .k = windows,
                              .a = c->t.dy,
                              .b = c->direct ? c->t.x : c->windows,
                              .c = c->packed ? c->packed : c->t.dweight};
    return (ls_gemm_args){.m = windows,
                          .n = taps,
                          .k = s->outputs,
                          .a = c->t.dy,
                          .b = weight,
                          .c = c->direct ? c->t.dx : c->windows};
}

/* Number of elements, rounded up so that the next array is aligned. */
static size_t padded(int64_t elements)
{
    return ((size_t)elements + 63) / 64 * 64;
}

/* Allocates a part's windows, the reordered weights, and sums in pieces. */
static ls_status take_memory(conv_op *c, size_t window_bytes)
{
    const ls_conv_shape *s = &c->t.shape;
    const int64_t image = ls_conv_positions(s) * ls_conv_taps(s) * s->channels;
    const int64_t most = (int64_t)(window_bytes / sizeof(float)) / image;
    const int64_t whole = most / ROWS_UNIT * ROWS_UNIT;
    c->direct = is_direct(s);
    c->part_rows = whole < ROWS_UNIT ? ROWS_UNIT : whole;
    if (c->direct || c->part_rows > s->rows)
        c->part_rows = s->rows;
    c->lent = ls_conv_reordered(&c->t);
    const bool pack = ls_conv_taps(s) > 1 && s->channels > 1 && !c->lent;
    const size_t windows = c->direct ? 0 : padded(c->part_rows * image);
    const size_t weights = pack ? padded(s->outputs * ls_conv_taps(s) * s->channels) : 0;
    const size_t sums =
        c->t.dbias ? padded(ls_gpu_column_pieces(s->rows * ls_conv_positions(s)) * s->outputs) : 0;
    c->op.workspace = (windows + weights + sums) * sizeof(float);
    if (!c->op.workspace)
        return LS_OK;
    LS_TRY(ls_device_allocate(c->device, LS_MEMORY_WORKSPACE, c->op.workspace, &c->memory));
    c->windows = c->memory;
    c->packed = pack ? c->windows + windows : NULL;
    c->sums = c->windows + windows + weights;
    return LS_OK;
}

static ls_status prepare(conv_op *c, cuda_kernels *cuda)
{
    const ls_conv_shape *s = &c->t.shape;
    if (!s->rows || !ls_conv_positions(s))
        return LS_OK;
    LS_TRY(take_memory(c, cuda->window_bytes));
    const int64_t rows[PARTS] = {c->part_rows, s->rows % c->part_rows};
    for (int i = 0; i < PARTS; i++) {
        if (!rows[i])
            continue;
        const ls_cuda_product_spec spec = {.gemm = gemm_of(c, rows[i]),
                                           .bias = c->t.y ? c->t.bias : NULL,
                                           .relu = c->t.y && c->t.relu,
                                           .cut = c->t.dweight != NULL};
        LS_TRY(ls_cuda_product_open(cuda, &spec, &c->product[i]));
        c->op.workspace += ls_cuda_product_workspace(c->product[i]);
    }
    return LS_OK;
}

ls_status ls_product_conv(ls_kernels *kernels, const ls_conv_task *task, ls_op **out)
{
    static const struct {
        const char *names[LS_PRODUCT_WAYS];
        ls_status (*run)(ls_op *op, ls_queue *queue);
    } directions[] = {{{LS_PRODUCT_NAMES("conv_forward", "")}, run_forward},
                      {{LS_PRODUCT_NAMES("conv_backward_weights", "")}, run_backward_weights},
                      {{LS_PRODUCT_NAMES("conv_backward_data", "")}, run_backward_data}};
    const int direction = task->y ? 0 : task->dweight ? 1 : 2;
    conv_op *c;
    LS_TRY(ls_allocate("convolution", &c, 1, sizeof *c));
    c->op = (ls_op){.run = directions[direction].run, .destroy = destroy};
    c->device = kernels->device;
    c->t = *task;
    ls_status status = prepare(c, (cuda_kernels *)kernels);
    if (status) {
        destroy(&c->op);
        return status;
    }
    c->op.name =
        directions[direction]
            .names[ls_cuda_product_way(c->product[0]) | ls_cuda_product_way(c->product[1])];
    *out = &c->op;
    return LS_OK;
}
