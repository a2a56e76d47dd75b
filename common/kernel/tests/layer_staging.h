/* SPDX-License-Identifier: MIT */
/* Part of kernel_staging.h: the memory of the operations of kernel_layers.h. */
#ifndef LS_COMMON_KERNEL_TESTS_LAYER_STAGING_H
#define LS_COMMON_KERNEL_TESTS_LAYER_STAGING_H

/* Elements of a convolution's tensors. */
typedef struct staged_sizes {
    int64_t x, y, weight, most;
} staged_sizes;

static inline staged_sizes staged_conv(const ls_conv_shape *s)
{
    const ls_window *w = &s->window;
    return (staged_sizes){s->rows * w->in_height * w->in_width * s->channels,
                          s->rows * w->out_height * w->out_width * s->outputs,
                          s->outputs * s->channels * w->height * w->width, s->rows * s->outputs};
}

/* As many samples as the indices name. */
static inline ls_status staged_gather_crops(ls_kernels *k, const ls_gather_crops_args *args,
                                            ls_op **out)
{
    ls_gather_crops_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    size_t samples = 0;
    for (int64_t i = 0; i < a.rows; i++)
        samples = a.indices[i] >= samples ? (size_t)a.indices[i] + 1 : samples;
    stage_in(s, &a.source, samples * (size_t)(a.channels * a.in_side * a.in_side));
    stage_in(s, &a.indices, (size_t)a.rows * sizeof *a.indices);
    stage_in(s, &a.state, sizeof *a.state);
    stage_out(s, &a.out, reals(a.rows * a.channels * a.out_side * a.out_side));
    return staged_close(s, inner->table->gather_crops(inner, &a, &s->inner), out);
}

static inline ls_status staged_conv_forward(ls_kernels *k, const ls_conv_forward_args *args,
                                            ls_op **out)
{
    ls_conv_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const staged_sizes size = staged_conv(&a.shape);
    stage_in(s, &a.x, reals(size.x));
    stage_in(s, &a.weight, reals(size.weight));
    stage_in(s, &a.bias, reals(a.shape.outputs));
    stage_in(s, &a.packed, reals(size.weight));
    stage_out(s, &a.y, reals(size.y));
    return staged_close(s, inner->table->conv_forward(inner, &a, &s->inner), out);
}

static inline ls_status
staged_conv_backward_weights(ls_kernels *k, const ls_conv_backward_weights_args *args, ls_op **out)
{
    ls_conv_backward_weights_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const staged_sizes size = staged_conv(&a.shape);
    stage_in(s, &a.x, reals(size.x));
    stage_in(s, &a.dy, reals(size.y));
    stage_out(s, &a.dweight, reals(size.weight));
    stage_out(s, &a.dbias, reals(a.shape.outputs));
    return staged_close(s, inner->table->conv_backward_weights(inner, &a, &s->inner), out);
}

static inline ls_status
staged_conv_backward_data(ls_kernels *k, const ls_conv_backward_data_args *args, ls_op **out)
{
    ls_conv_backward_data_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const staged_sizes size = staged_conv(&a.shape);
    stage_in(s, &a.dy, reals(size.y));
    stage_in(s, &a.weight, reals(size.weight));
    stage_in(s, &a.packed, reals(size.weight));
    stage_out(s, &a.dx, reals(size.x));
    return staged_close(s, inner->table->conv_backward_data(inner, &a, &s->inner), out);
}

static inline ls_status staged_pack_weights(ls_kernels *k, const ls_pack_weights_args *args,
                                            ls_op **out)
{
    ls_packed_weights items[STAGED_FIELDS / 2];
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    for (int64_t i = 0; i < args->count; i++) {
        const size_t bytes =
            reals(args->items[i].outputs * args->items[i].channels * args->items[i].taps);
        items[i] = args->items[i];
        stage_in(s, &items[i].weight, bytes);
        stage_out(s, &items[i].packed, bytes);
    }
    const ls_pack_weights_args a = {items, args->count};
    return staged_close(s, inner->table->pack_weights(inner, &a, &s->inner), out);
}

static inline ls_status staged_max_pool_forward(ls_kernels *k, const ls_max_pool_forward_args *args,
                                                ls_op **out)
{
    ls_max_pool_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const ls_window *w = &a.window;
    const int64_t in = a.rows * w->in_height * w->in_width * a.channels;
    const int64_t positions = a.rows * w->out_height * w->out_width * a.channels;
    stage_in(s, &a.x, reals(in));
    stage_out(s, &a.y, reals(positions));
    stage_out(s, &a.place, (size_t)positions * sizeof *a.place);
    return staged_close(s, inner->table->max_pool_forward(inner, &a, &s->inner), out);
}

static inline ls_status staged_max_pool_backward(ls_kernels *k,
                                                 const ls_max_pool_backward_args *args, ls_op **out)
{
    ls_max_pool_backward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const ls_window *w = &a.window;
    const int64_t in = a.rows * w->in_height * w->in_width * a.channels;
    const int64_t positions = a.rows * w->out_height * w->out_width * a.channels;
    stage_in(s, &a.dy, reals(positions));
    stage_in(s, &a.place, (size_t)positions * sizeof *a.place);
    stage_in(s, &a.relu_output, reals(positions));
    stage_out(s, &a.dx, reals(in));
    return staged_close(s, inner->table->max_pool_backward(inner, &a, &s->inner), out);
}

static inline ls_status staged_lrn_forward(ls_kernels *k, const ls_lrn_forward_args *args,
                                           ls_op **out)
{
    ls_lrn_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.pixels * a.channels));
    stage_out(s, &a.y, reals(a.pixels * a.channels));
    return staged_close(s, inner->table->lrn_forward(inner, &a, &s->inner), out);
}

static inline ls_status staged_lrn_backward(ls_kernels *k, const ls_lrn_backward_args *args,
                                            ls_op **out)
{
    ls_lrn_backward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.pixels * a.channels));
    stage_in(s, &a.dy, reals(a.pixels * a.channels));
    stage_out(s, &a.dx, reals(a.pixels * a.channels));
    return staged_close(s, inner->table->lrn_backward(inner, &a, &s->inner), out);
}

static inline ls_status staged_transpose(ls_kernels *k, const ls_transpose_args *args, ls_op **out)
{
    ls_transpose_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.batch * a.rows * a.columns));
    stage_out(s, &a.y, reals(a.batch * a.rows * a.columns));
    return staged_close(s, inner->table->transpose(inner, &a, &s->inner), out);
}

static inline ls_status staged_weight_decay(ls_kernels *k, const ls_weight_decay_args *args,
                                            ls_op **out)
{
    ls_weight_decay_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.weight, reals(a.count));
    stage_out(s, &a.loss, sizeof *a.loss);
    return staged_close(s, inner->table->weight_decay(inner, &a, &s->inner), out);
}

static inline ls_status staged_conv_max_forward(ls_kernels *k, const ls_conv_max_forward_args *args,
                                                ls_op **out)
{
    ls_conv_max_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const staged_sizes size = staged_conv(&a.shape);
    stage_in(s, &a.x, reals(size.x));
    stage_in(s, &a.weight, reals(size.weight));
    stage_in(s, &a.bias, reals(a.shape.outputs));
    stage_out(s, &a.y, reals(size.most));
    stage_out(s, &a.place, (size_t)size.most * sizeof *a.place);
    return staged_close(s, inner->table->conv_max_forward(inner, &a, &s->inner), out);
}

static inline ls_status
staged_conv_max_backward_weights(ls_kernels *k, const ls_conv_max_backward_weights_args *args,
                                 ls_op **out)
{
    ls_conv_max_backward_weights_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    const staged_sizes size = staged_conv(&a.shape);
    stage_in(s, &a.x, reals(size.x));
    stage_in(s, &a.dy, reals(size.most));
    stage_in(s, &a.place, (size_t)size.most * sizeof *a.place);
    stage_out(s, &a.dweight, reals(size.weight));
    stage_out(s, &a.dbias, reals(a.shape.outputs));
    return staged_close(s, inner->table->conv_max_backward_weights(inner, &a, &s->inner), out);
}

static inline void stage_lstm_forward(staged_op *s, ls_lstm_forward_args *a)
{
    const ls_lstm_shape *l = &a->shape;
    const int64_t n = l->rows * l->steps, H = l->hidden;
    stage_in(s, &a->x, reals(n * l->inputs));
    stage_in(s, &a->weight_ih, reals(4 * H * l->inputs));
    stage_in(s, &a->weight_hh, reals(4 * H * H));
    stage_in(s, &a->bias, reals(4 * H));
    stage_out(s, &a->kept, reals(n * LS_LSTM_KEPT * H));
    stage_out(s, &a->y, reals((l->last ? l->rows : n) * H));
}

static inline ls_status staged_lstm_forward(ls_kernels *k, const ls_lstm_forward_args *args,
                                            ls_op **out)
{
    ls_lstm_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_lstm_forward(s, &a);
    return staged_close(s, inner->table->lstm_forward(inner, &a, &s->inner), out);
}

static inline ls_status staged_lstm_pair_forward(ls_kernels *k,
                                                 const ls_lstm_pair_forward_args *args, ls_op **out)
{
    ls_lstm_pair_forward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_lstm_forward(s, &a.of[0]);
    stage_lstm_forward(s, &a.of[1]);
    return staged_close(s, inner->table->lstm_pair_forward(inner, &a, &s->inner), out);
}

static inline void stage_lstm_backward(staged_op *s, ls_lstm_backward_args *a)
{
    const ls_lstm_shape *l = &a->shape;
    const int64_t n = l->rows * l->steps, H = l->hidden;
    stage_in(s, &a->x, reals(n * l->inputs));
    stage_in(s, &a->weight_ih, reals(4 * H * l->inputs));
    stage_in(s, &a->weight_hh, reals(4 * H * H));
    stage_out(s, &a->kept, reals(n * LS_LSTM_KEPT * H));
    stage_in(s, &a->dy, reals((l->last ? l->rows : n) * H));
    stage_out(s, &a->dx, reals(n * l->inputs));
    stage_out(s, &a->dweight_ih, reals(4 * H * l->inputs));
    stage_out(s, &a->dweight_hh, reals(4 * H * H));
    stage_out(s, &a->dbias, reals(4 * H));
}

static inline ls_status staged_lstm_backward(ls_kernels *k, const ls_lstm_backward_args *args,
                                             ls_op **out)
{
    ls_lstm_backward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_lstm_backward(s, &a);
    return staged_close(s, inner->table->lstm_backward(inner, &a, &s->inner), out);
}

static inline ls_status
staged_lstm_pair_backward(ls_kernels *k, const ls_lstm_pair_backward_args *args, ls_op **out)
{
    ls_lstm_pair_backward_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_lstm_backward(s, &a.of[0]);
    stage_lstm_backward(s, &a.of[1]);
    return staged_close(s, inner->table->lstm_pair_backward(inner, &a, &s->inner), out);
}

static inline ls_status staged_logistic_loss(ls_kernels *k, const ls_logistic_loss_args *args,
                                             ls_op **out)
{
    ls_logistic_loss_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.logits, reals(a.rows));
    stage_in(s, &a.labels, (size_t)a.rows * sizeof *a.labels);
    stage_out(s, &a.dlogits, reals(a.rows));
    stage_out(s, &a.loss, sizeof *a.loss);
    return staged_close(s, inner->table->logistic_loss(inner, &a, &s->inner), out);
}

static inline ls_status staged_copy_columns(ls_kernels *k, const ls_copy_columns_args *args,
                                            ls_op **out)
{
    ls_copy_columns_args a = *args;
    staged_op *s = staged_open(k);
    ls_kernels *inner = staging_of(k)->inner;
    stage_in(s, &a.x, reals(a.rows * a.x_pitch));
    stage_out(s, &a.y, reals(a.rows * a.y_pitch));
    return staged_close(s, inner->table->copy_columns(inner, &a, &s->inner), out);
}

#endif
