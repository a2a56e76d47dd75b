/* SPDX-License-Identifier: MIT */
/*
 * Convolutions of the cpu table by oneDNN, except what cpu_winograd.c and cpu_conv_few.c compute.
 * Images are channels-last: oneDNN 2.6 reads and writes this layout as fast as its blocked layouts
 * (64 to 64 channels, 5x5 on 12x12: 321, 318 and 302 GFLOP/s forward, to weights and to data,
 * against 294, 278 and 299), so no image is reordered. Weights are, since files and the flat buffer
 * store them as [O,C,height,width]: into oneDNN's layout before a forward or data pass, and their
 * gradient back from it.
 */
#include "common/kernel/cpu/cpu_dnnl.h"
#include "common/kernel/cpu/cpu_kernels.h"

#include <stdlib.h>
#include <string.h>

enum { DATA, WEIGHTS, BIAS, OUTPUT, TENSORS };

typedef enum direction { FORWARD, TO_WEIGHTS, TO_DATA } direction;

typedef struct conv_op {
    ls_op op;
    ls_device *device;
    const ls_vector_loops *loops;
    direction direction;
    ls_conv_shape shape;
    bool relu;
    void *tensors[TENSORS];     /* x, dx; weight, dweight; bias, dbias or NULL; y, dy */
    ls_dnnl_call conv, reorder; /* reorder without a primitive: equal layouts */
    size_t packed_bytes;
    void *packed; /* weights in oneDNN's layout */
} conv_op;

/* ---- Describing ----------------------------------------------------------------------------- */

/* Strides and padding of both axes, as oneDNN expects them. */
typedef struct geometry {
    dnnl_dims_t strides, dilates, before, after;
} geometry;

static int64_t padding_after(int64_t in, int64_t out, int64_t window, int64_t stride,
                             int64_t before)
{
    int64_t after = (out - 1) * stride + window - in - before;
    return after > 0 ? after : 0;
}

static geometry geometry_of(const ls_window *w)
{
    return (geometry){
        .strides = {w->stride_y, w->stride_x},
        .before = {w->top, w->left},
        .after = {padding_after(w->in_height, w->out_height, w->height, w->stride_y, w->top),
                  padding_after(w->in_width, w->out_width, w->width, w->stride_x, w->left)}};
}

#if DNNL_VERSION_MAJOR >= 3
static dnnl_status_t describe(const conv_op *c, direction to, const ls_dnnl_shape s[TENSORS],
                              const_dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr,
                              dnnl_primitive_desc_t *out)
{
    const geometry g = geometry_of(&c->shape.window);
    const dnnl_engine_t engine = c->conv.engine;
    const const_dnnl_memory_desc_t bias = c->tensors[BIAS] ? s[BIAS] : NULL;
    if (to == TO_WEIGHTS)
        return dnnl_convolution_backward_weights_primitive_desc_create(
            out, engine, dnnl_convolution_direct, s[DATA], s[WEIGHTS], bias, s[OUTPUT], g.strides,
            g.dilates, g.before, g.after, hint, attr);
    if (to == TO_DATA)
        return dnnl_convolution_backward_data_primitive_desc_create(
            out, engine, dnnl_convolution_direct, s[DATA], s[WEIGHTS], s[OUTPUT], g.strides,
            g.dilates, g.before, g.after, hint, attr);
    return dnnl_convolution_forward_primitive_desc_create(
        out, engine, dnnl_forward_training, dnnl_convolution_direct, s[DATA], s[WEIGHTS], bias,
        s[OUTPUT], g.strides, g.dilates, g.before, g.after, attr);
}
#else
static dnnl_status_t describe(const conv_op *c, direction to, const ls_dnnl_shape s[TENSORS],
                              const_dnnl_primitive_desc_t hint, dnnl_primitive_attr_t attr,
                              dnnl_primitive_desc_t *out)
{
    const geometry g = geometry_of(&c->shape.window);
    const dnnl_memory_desc_t *bias = c->tensors[BIAS] ? &s[BIAS] : NULL;
    dnnl_convolution_desc_t conv;
    dnnl_status_t status;
    if (to == TO_WEIGHTS)
        status = dnnl_convolution_backward_weights_desc_init(
            &conv, dnnl_convolution_direct, &s[DATA], &s[WEIGHTS], bias, &s[OUTPUT], g.strides,
            g.before, g.after);
    else if (to == TO_DATA)
        status = dnnl_convolution_backward_data_desc_init(&conv, dnnl_convolution_direct, &s[DATA],
                                                          &s[WEIGHTS], &s[OUTPUT], g.strides,
                                                          g.before, g.after);
    else
        status = dnnl_convolution_forward_desc_init(&conv, dnnl_forward_training,
                                                    dnnl_convolution_direct, &s[DATA], &s[WEIGHTS],
                                                    bias, &s[OUTPUT], g.strides, g.before, g.after);
    if (status != dnnl_success)
        return status;
    return dnnl_primitive_desc_create(out, &conv, attr, c->conv.engine, hint);
}
#endif

/* Shapes: images channels-last; weights in a layout that the library chooses, or as in files. */
static dnnl_status_t shapes_open(const ls_conv_shape *s, bool plain_weights,
                                 ls_dnnl_shape shapes[TENSORS])
{
    const ls_window *w = &s->window;
    const int64_t C = s->channels, O = s->outputs, H = w->out_height, W = w->out_width;
    const dnnl_dims_t dims[TENSORS] = {{s->rows, C, w->in_height, w->in_width},
                                       {O, C, w->height, w->width},
                                       {O},
                                       {s->rows, O, H, W}};
    const dnnl_dims_t strides[TENSORS] = {
        {w->in_height * w->in_width * C, 1, w->in_width * C, C},
        {C * w->height * w->width, w->height * w->width, w->width, 1},
        {1},
        {H * W * O, 1, W * O, O}};
    for (int i = 0; i < TENSORS; i++) {
        bool liked = i == WEIGHTS && !plain_weights;
        dnnl_status_t status = ls_dnnl_shape_open(&shapes[i], dnnl_f32, i == BIAS ? 1 : 4, dims[i],
                                                  liked ? NULL : strides[i]);
        if (status != dnnl_success) {
            while (i--)
                ls_dnnl_shape_close(&shapes[i]);
            return status;
        }
    }
    return dnnl_success;
}

static void shapes_close(ls_dnnl_shape shapes[TENSORS])
{
    for (int i = 0; i < TENSORS; i++)
        ls_dnnl_shape_close(&shapes[i]);
}

/* The convolution's primitive; backward ones need the forward one's descriptor as a hint. */
static dnnl_status_t make_conv(conv_op *c, dnnl_primitive_attr_t attr,
                               const ls_dnnl_shape shapes[TENSORS], dnnl_primitive_desc_t *desc)
{
    dnnl_primitive_desc_t hint = NULL;
    dnnl_status_t status = dnnl_success;
    if (c->direction != FORWARD)
        status = describe(c, FORWARD, shapes, NULL, attr, &hint);
    if (status == dnnl_success)
        status = describe(c, c->direction, shapes, hint, attr, desc);
    if (hint)
        dnnl_primitive_desc_destroy(hint);
    return status == dnnl_success ? ls_dnnl_call_make(&c->conv, *desc) : status;
}

/* Between the layout of weights that the convolution chose, and that of files. */
static dnnl_status_t make_reorder(conv_op *c, dnnl_primitive_attr_t attr,
                                  const_dnnl_primitive_desc_t conv, ls_dnnl_shape_view plain)
{
    const bool back = c->direction == TO_WEIGHTS;
    dnnl_primitive_desc_t desc;
    ls_dnnl_shape_view liked = dnnl_primitive_desc_query_md(
        conv, back ? dnnl_query_diff_weights_md : dnnl_query_weights_md, 0);
    c->packed_bytes = dnnl_memory_desc_get_size(liked);
    if (dnnl_memory_desc_equal(liked, plain))
        return dnnl_success;
    dnnl_status_t status = dnnl_reorder_primitive_desc_create(
        &desc, back ? liked : plain, c->conv.engine, back ? plain : liked, c->conv.engine, attr);
    if (status != dnnl_success)
        return status;
    status = ls_dnnl_call_make(&c->reorder, desc);
    dnnl_primitive_desc_destroy(desc);
    return status;
}

/* Runs on the device's thread. */
static ls_status create(void *context)
{
    conv_op *c = context;
    dnnl_primitive_attr_t attr[2] = {NULL, NULL};
    dnnl_primitive_desc_t desc = NULL;
    ls_dnnl_shape liked[TENSORS], plain[TENSORS];
    LS_TRY(ls_dnnl_check(shapes_open(&c->shape, false, liked), "shapes"));
    dnnl_status_t status = shapes_open(&c->shape, true, plain);
    if (status == dnnl_success) {
        status = ls_dnnl_attributes_open(false, c->relu, &attr[0]);
        if (status == dnnl_success)
            status = ls_dnnl_attributes_open(false, false, &attr[1]);
        if (status == dnnl_success)
            status = make_conv(c, attr[0], liked, &desc);
        if (status == dnnl_success)
            status = make_reorder(c, attr[1], desc, ls_dnnl_shape_see(&plain[WEIGHTS]));
        if (desc)
            dnnl_primitive_desc_destroy(desc);
        shapes_close(plain);
    }
    shapes_close(liked);
    for (int i = 0; i < 2; i++)
        if (attr[i])
            dnnl_primitive_attr_destroy(attr[i]);
    return ls_dnnl_check(status, "convolution");
}

/* ---- Memory and running --------------------------------------------------------------------- */

/* Argument indices of the primitive for each tensor. */
static const int *argument_names(direction to)
{
    static const int names[][TENSORS] = {
        [FORWARD] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DST},
        [TO_WEIGHTS] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_BIAS, DNNL_ARG_DIFF_DST},
        [TO_DATA] = {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_BIAS, DNNL_ARG_DIFF_DST}};
    return names[to];
}

static ls_status add_memories(conv_op *c, ls_kernels *kernels)
{
    const int *names = argument_names(c->direction);
    const bool back = c->direction == TO_WEIGHTS;
    if (c->reorder.primitive) {
        c->op.reorders = 1;
        c->op.reordered_bytes = c->packed_bytes;
        LS_TRY(ls_scratch_take(&kernels->scratch, c->packed_bytes, &c->packed));
        ls_dnnl_call_add(&c->reorder, back ? DNNL_ARG_TO : DNNL_ARG_FROM, c->tensors[WEIGHTS]);
        ls_dnnl_call_add(&c->reorder, back ? DNNL_ARG_FROM : DNNL_ARG_TO, c->packed);
        LS_TRY(ls_dnnl_call_finish(&c->reorder, kernels));
    }
    for (int i = 0; i < TENSORS; i++) {
        bool reordered = i == WEIGHTS && c->reorder.primitive;
        if (c->tensors[i])
            ls_dnnl_call_add(&c->conv, names[i], reordered ? c->packed : c->tensors[i]);
    }
    return ls_dnnl_call_finish(&c->conv, kernels);
}

static ls_status run_conv(ls_op *op, ls_queue *queue)
{
    (void)queue;
    conv_op *c = (conv_op *)op;
    const bool back = c->direction == TO_WEIGHTS;
    if (c->reorder.primitive && !back)
        LS_TRY(ls_dnnl_call_run(&c->reorder, "reorder"));
    LS_TRY(ls_dnnl_call_run(&c->conv, "convolution"));
    return c->reorder.primitive && back ? ls_dnnl_call_run(&c->reorder, "reorder") : LS_OK;
}

/* Without rows or positions there is no gradient. */
static bool is_empty(const ls_conv_shape *s)
{
    return !s->rows || !s->window.out_height || !s->window.out_width;
}

static ls_status run_empty(ls_op *op, ls_queue *queue)
{
    (void)queue;
    const conv_op *c = (const conv_op *)op;
    const ls_conv_shape *s = &c->shape;
    if (c->direction == TO_DATA)
        c->loops->fill(c->tensors[DATA], 0,
                       s->rows * s->window.in_height * s->window.in_width * s->channels);
    if (c->direction != TO_WEIGHTS)
        return LS_OK;
    c->loops->fill(c->tensors[WEIGHTS], 0,
                   s->outputs * s->channels * s->window.height * s->window.width);
    if (c->tensors[BIAS])
        c->loops->fill(c->tensors[BIAS], 0, s->outputs);
    return LS_OK;
}

static void destroy(ls_op *op)
{
    conv_op *c = (conv_op *)op;
    ls_dnnl_call_close(&c->conv);
    ls_dnnl_call_close(&c->reorder);
    free(c);
}

static ls_status open_parts(conv_op *c, ls_kernels *kernels)
{
    LS_TRY(ls_device_call(c->device, create, c));
    return add_memories(c, kernels);
}

/* `like` has the fields that differ between the directions. */
static ls_status make(ls_kernels *kernels, const conv_op *like, ls_op **out)
{
    const cpu_kernels *cpu = (const cpu_kernels *)kernels;
    conv_op *c;
    LS_TRY(ls_allocate(like->op.name, &c, 1, sizeof *c));
    *c = *like;
    c->device = kernels->device;
    c->loops = cpu->loops;
    c->op.run = is_empty(&c->shape) ? run_empty : run_conv;
    c->op.destroy = destroy;
    c->conv = (ls_dnnl_call){.device = c->device, .engine = cpu->engine};
    c->reorder = c->conv;
    ls_status status = is_empty(&c->shape) ? LS_OK : open_parts(c, kernels);
    if (status) {
        destroy(&c->op);
        return status;
    }
    *out = &c->op;
    return LS_OK;
}

/* ---- Entries -------------------------------------------------------------------------------- */

static void *writable(const void *data)
{
    return (void *)(uintptr_t)data; /* oneDNN's memory objects cannot be const */
}

ls_status ls_cpu_conv_forward(ls_kernels *kernels, const ls_conv_forward_args *a,
                              const ls_work *work, ls_op **out)
{
    if (ls_cpu_winograd((const cpu_kernels *)kernels, &a->shape))
        return ls_cpu_winograd_forward(kernels, a, work, out);
    const conv_op like = {
        .op.name = "conv_forward.primitive",
        .direction = FORWARD,
        .shape = a->shape,
        .relu = a->activation == LS_ACTIVATION_RELU,
        .tensors = {writable(a->x), writable(a->weight), writable(a->bias), a->y}};
    return make(kernels, &like, out);
}

ls_status ls_cpu_conv_backward_weights(ls_kernels *kernels, const ls_conv_backward_weights_args *a,
                                       const ls_work *work, ls_op **out)
{
    if (ls_cpu_conv_few((const cpu_kernels *)kernels, &a->shape))
        return ls_cpu_conv_few_weights(kernels, a, work, out);
    if (ls_cpu_winograd_shared((const cpu_kernels *)kernels, &a->shape))
        return ls_cpu_winograd_weights(kernels, a, work, out);
    const conv_op like = {.op.name = "conv_backward_weights.primitive",
                          .direction = TO_WEIGHTS,
                          .shape = a->shape,
                          .tensors = {writable(a->x), a->dweight, a->dbias, writable(a->dy)}};
    return make(kernels, &like, out);
}

ls_status ls_cpu_conv_backward_data(ls_kernels *kernels, const ls_conv_backward_data_args *a,
                                    const ls_work *work, ls_op **out)
{
    if (ls_cpu_winograd((const cpu_kernels *)kernels, &a->shape))
        return ls_cpu_winograd_data(kernels, a, work, out);
    const conv_op like = {.op.name = "conv_backward_data.primitive",
                          .direction = TO_DATA,
                          .shape = a->shape,
                          .tensors = {a->dx, writable(a->weight), NULL, writable(a->dy)}};
    return make(kernels, &like, out);
}
