/* SPDX-License-Identifier: MIT */
/*
 * The cuda table's own kernels, as functions that launch them on a stream: C on one side (the
 * table), CUDA on the other (the .cu files). test_kernels_emulated runs the same sources on a CPU,
 * one thread of a block after the other.
 *
 * Each returns 0, or the cudaError_t of a launch that was refused. They allocate nothing and wait
 * for nothing, so they can be captured. Grids depend on sizes only, never on the GPU, and all sums
 * have a fixed order, so results do not depend on the device, its share of a GPU, or the day.
 */
#pragma once

#include "common/base/random/philox.h"
#include "common/kernel/step_inline.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Whether four floats from here on can be accessed at once: this is a multiple of 16 bytes. */
LS_DEVICE_FN bool ls_gpu_takes_fours(const void *at)
{
    return (uintptr_t)at % (4 * sizeof(float)) == 0;
}

/* Have the driver load the kernels of a file onto the current device. */
int ls_gpu_load_elements(void);
int ls_gpu_load_combine(void);
int ls_gpu_load_dropout(void);
int ls_gpu_load_batch(void);
int ls_gpu_load_feed(void);
int ls_gpu_load_losses(void);
int ls_gpu_load_softmax_slices(void);
int ls_gpu_load_dense(void);
int ls_gpu_load_bf16(void);
int ls_gpu_load_pools(void);
int ls_gpu_load_layout(void);
int ls_gpu_load_lstm(void);
int ls_gpu_load_conv(void);
int ls_gpu_load_conv_max(void);
int ls_gpu_load_conv_direct(void);
int ls_gpu_load_conv_weights(void);
int ls_gpu_load_residual(void);
int ls_gpu_load_batch_norm(void);
int ls_gpu_load_transformer(void);
int ls_gpu_load_attention(void);
int ls_gpu_load_attention_cores(void);
int ls_gpu_load_attention_cores_back(void);

/** Entries of the table that are a launch with their arguments and nothing else. */
#define LS_GPU_PLAIN_ENTRIES(X)                                                                    \
    X(relu_forward, ls_relu_forward_args)                                                          \
    X(relu_backward, ls_relu_backward_args)                                                        \
    X(polynomial, ls_polynomial_args)                                                              \
    X(add, ls_add_args)                                                                            \
    X(fill, ls_fill_args)                                                                          \
    X(scale, ls_scale_args)                                                                        \
    X(combine, ls_combine_args)                                                                    \
    X(narrow, ls_narrow_args)                                                                      \
    X(widen, ls_widen_args)                                                                        \
    X(bf16_elements, ls_bf16_elements_args)                                                        \
    X(bf16_column_sums, ls_bf16_column_sums_args)                                                  \
    X(gather, ls_gather_args)                                                                      \
    X(count_correct, ls_count_correct_args)                                                        \
    X(count_parts, ls_count_parts_args)                                                            \
    X(add_loss, ls_add_loss_args)                                                                  \
    X(clip_factor, ls_clip_factor_args)                                                            \
    X(stamp, ls_stamp_args)                                                                        \
    X(set_first, ls_set_first_args)                                                                \
    X(flip_bit, ls_flip_bit_args)                                                                  \
    X(max_pool_forward, ls_max_pool_forward_args)                                                  \
    X(max_pool_backward, ls_max_pool_backward_args)                                                \
    X(transpose, ls_transpose_args)                                                                \
    X(copy_columns, ls_copy_columns_args)                                                          \
    X(conv_max_forward, ls_conv_max_forward_args)                                                  \
    X(conv_max_backward_weights, ls_conv_max_backward_weights_args)                                \
    X(bn_moments, ls_bn_moments_args)                                                              \
    X(bn_moving_moments, ls_bn_moving_moments_args)                                                \
    X(bn_forward, ls_bn_forward_args)                                                              \
    X(bn_backward, ls_bn_backward_args)                                                            \
    X(shortcut_forward, ls_shortcut_forward_args)                                                  \
    X(shortcut_backward, ls_shortcut_backward_args)                                                \
    X(mean_pool_forward, ls_mean_pool_forward_args)                                                \
    X(mean_pool_backward, ls_mean_pool_backward_args)                                              \
    X(moving_average, ls_moving_average_args)                                                      \
    X(add_sums, ls_add_sums_args)                                                                  \
    X(positions_forward, ls_positions_forward_args)                                                \
    X(positions_backward, ls_positions_backward_args)                                              \
    X(layer_norm_forward, ls_layer_norm_forward_args)                                              \
    X(gelu_forward, ls_gelu_forward_args)                                                          \
    X(gelu_backward, ls_gelu_backward_args)                                                        \
    X(dropout, ls_dropout_args)

/* ls_gpu_relu_forward, ... */
#define LS_GPU_PLAIN_ENTRY(entry, args) int ls_gpu_##entry(void *stream, const args *arguments);
LS_GPU_PLAIN_ENTRIES(LS_GPU_PLAIN_ENTRY)
#undef LS_GPU_PLAIN_ENTRY

/* ---- gpu_elements.cu: bits as in the cpu table ---------------------------------------- */

/** A range, and the first of the blocks that share it. */
typedef struct ls_gpu_range {
    ls_update_range range;
    int64_t block;
} ls_gpu_range;

/** All ranges of a launch of `blocks`. */
typedef struct ls_gpu_ranges {
    const ls_gpu_range *at; /**< [count], device memory; NULL if there is `one` */
    ls_update_range one;
    int64_t count, blocks;
} ls_gpu_ranges;

/** Blocks for a range of so many elements. */
unsigned ls_gpu_optimizer_blocks(int64_t count);
/** `scalars` do not change from step to step. */
int ls_gpu_optimizer(void *stream, const ls_optimizer_args *args, const ls_gpu_ranges *ranges,
                     const ls_update_scalars *scalars);

/** Blocks for a range of so many elements; squares of a block are summed together. */
unsigned ls_gpu_square_blocks(int64_t count);
int ls_gpu_square_sums(void *stream, const ls_square_sums_args *args, const ls_gpu_ranges *ranges);

/* ---- gpu_feed.cu ----------------------------------------------------------------------------- */

/** An order made ready on the host. */
typedef struct ls_gpu_order {
    ls_order_epoch epoch; /**< all but its number and keys */
    ls_random keys;       /**< random stream of an epoch's keys */
    double reciprocal;    /**< 1 / a */
} ls_gpu_order;

int ls_gpu_batch_indices(void *stream, const ls_batch_indices_args *args,
                         const ls_gpu_order *order);
int ls_gpu_gather_batch(void *stream, const ls_gather_batch_args *args, const ls_gpu_order *order);
int ls_gpu_set_targets(void *stream, const ls_set_targets_args *args, const ls_gpu_order *order);

/* ---- gpu_batch.cu ---------------------------------------------------------------------------- */

/* steps, in host memory: the low bits of the number of recorded steps; NULL if not needed. */
int ls_gpu_finish_step(void *stream, const ls_finish_step_args *args, unsigned *steps);

/* ---- gpu_losses.cu: gradients have the bits of the cpu table --------------------------------- */

/** Where the parts of a loss are summed; device memory that is zero at first. */
typedef struct ls_gpu_parts {
    double *values;    /**< as many as the functions below say */
    unsigned *arrived; /**< [1], bn: one a group: blocks that left a part */
} ls_gpu_parts;

/** A fault of a label or token: `word` (device-visible) becomes `value`. The row's results are NaN.
 */
typedef struct ls_gpu_fault {
    unsigned *word;
    unsigned value;
} ls_gpu_fault;

size_t ls_gpu_softmax_parts(int64_t rows);
size_t ls_gpu_squared_error_parts(int64_t count);
size_t ls_gpu_logistic_parts(int64_t rows);
/** Parts of a range's sum: as many as blocks that share the range. */
unsigned ls_gpu_decay_parts(int64_t count);

int ls_gpu_softmax_cross_entropy(void *stream, const ls_softmax_cross_entropy_args *args,
                                 const ls_gpu_parts *parts, ls_gpu_fault fault);
int ls_gpu_squared_error(void *stream, const ls_squared_error_args *args,
                         const ls_gpu_parts *parts);
int ls_gpu_logistic_loss(void *stream, const ls_logistic_loss_args *args, const ls_gpu_parts *parts,
                         ls_gpu_fault fault);
/* gpu_softmax_slices.cu */
int ls_gpu_softmax_part(void *stream, const ls_softmax_part_args *args, ls_gpu_fault fault);
int ls_gpu_softmax_whole(void *stream, const ls_softmax_whole_args *args,
                         const ls_gpu_parts *parts);
int ls_gpu_decay_loss(void *stream, const ls_weight_decay_args *args, const ls_gpu_ranges *ranges,
                      const ls_gpu_parts *parts);

/* ---- gpu_dense.cu ---------------------------------------------------------------------------- */

/** c = op(a) op(b) (+ c), then + bias, ReLU, and 0 where `mask` is not positive. Any size, k = 0
 *  too; sums in double. For what no library call is made for. */
typedef struct ls_gpu_product {
    ls_gemm_args gemm;
    const float *bias; /**< [n]; NULL if none */
    const float *mask; /**< [m,n]; NULL if none */
    bool relu;
} ls_gpu_product;

int ls_gpu_plain_product(void *stream, const ls_gpu_product *product);
/** What follows a product: c = (c +) the sum of its pieces in order, then + bias, ReLU, and 0 where
 * `mask` is not positive. */
typedef struct ls_gpu_rest {
    float *parts; /**< [pieces,rows,columns]; NULL means c is whole */
    int pieces;
    int64_t rows, columns;
    bool accumulate;   /**< c is added to: by the pieces, or by ls_gpu_tile_product */
    const float *bias; /**< [columns]; NULL if none */
    bool relu;
    const float *mask; /**< [rows,columns]; NULL if none */
    float *c;          /**< [rows,columns] */
} ls_gpu_rest;

int ls_gpu_finish_product(void *stream, const ls_gpu_rest *rest);

/** c = op(a) op(b), and the rest of it, or its pieces, on the tensor cores of compute capability
 *  9.0; nothing may be empty. tf32: the product of the factors rounded to tf32. */
int ls_gpu_tile_product(void *stream, const ls_gemm_args *gemm, const ls_gpu_rest *rest, bool tf32);
/** Fails where the current device cannot run it. */
int ls_gpu_load_tile_product(void);

/** What follows both products of a layer's backward pass, and the gradient of its bias, in one
 * launch. One without rows is skipped; `dbias` NULL if not needed. */
typedef struct ls_gpu_backward_rest {
    ls_gpu_rest weights, data;
    int64_t rows, outputs;
    const float *dy; /**< [rows,outputs] */
    float *dbias;    /**< [outputs] */
} ls_gpu_backward_rest;

int ls_gpu_finish_backward(void *stream, const ls_gpu_backward_rest *rest);
/** The backward pass of a layer of a few outputs, whole: one launch. `dweight`, `dx` NULL if not
 *  wanted. Any size, 0 too. */
int ls_gpu_narrow_backward(void *stream, const ls_dense_backward_args *args);
/** y[r] += bias (if not NULL), then ReLU if set. */
int ls_gpu_bias(void *stream, float *y, const float *bias, int64_t rows, int64_t columns,
                bool relu);
/** Pieces in which so many rows are summed; 1 if they are not divided. */
int64_t ls_gpu_column_pieces(int64_t rows);
/** sums[c] = sum of x[r,c] over the rows; `memory` [pieces, columns], or NULL means as a whole. */
int ls_gpu_column_sums(void *stream, const float *x, int64_t rows, int64_t columns, float *memory,
                       float *sums);

/* ---- gpu_bf16.cu: compute capability 8.0 ----------------------------------------------------- */

/** c; or its pieces, if a is transposed and `parts` [pieces,m,n] not NULL. k may be 0. */
int ls_gpu_bf16_product(void *stream, const ls_bf16_product_args *args, float *parts, int pieces);

/** What follows the library's product, or a copy: to = from, then ReLU, and 0 where `mask` is not
 *  positive; `from` may be `to`. */
typedef struct ls_gpu_bf16_rest {
    int64_t count;
    const uint16_t *from;
    bool relu;
    const uint16_t *mask; /**< [count]; NULL if none */
    uint16_t *to;
} ls_gpu_bf16_rest;

int ls_gpu_finish_bf16(void *stream, const ls_gpu_bf16_rest *rest);

/* ---- gpu_pools.cu: bits as in the cpu table -------------------------------------------- */

/** The widest that a block's shared memory is made for; there is no radius beyond channels - 1. */
enum { LS_GPU_LRN_RADIUS_MOST = 64 };
int ls_gpu_lrn_forward(void *stream, const ls_lrn_forward_args *args, int radius);
int ls_gpu_lrn_backward(void *stream, const ls_lrn_backward_args *args, int radius);

/* ---- gpu_layout.cu: bits as in the cpu table ------------------------------------------- */

/** `random` is ls_random_stream(seed, "augment"). */
int ls_gpu_gather_crops(void *stream, const ls_gather_crops_args *args, ls_random random);

/* ---- gpu_lstm.cu ----------------------------------------------------------------------------- */

/** The most states H whose weights stay in registers (resident). */
enum { LS_GPU_LSTM_RESIDENT = 64 };

/** The recurrence of an LSTM, either way: one launch. */
typedef struct ls_gpu_lstm {
    ls_lstm_shape shape;
    const float *weight; /**< [4H,H]: W_hh */
    float *packed;       /**< [H,4H], forward: its columns as rows; NULL if resident */
    float *partial;      /**< [B,4,H], backward: memory; NULL if resident */
    const float *bias;   /**< [4H], forward */
    float *gates;    /**< [B,T,4H]: W_ih x; gates after forward, their gradients after backward */
    float *cells;    /**< [B,T,H]: by forward, may be used up by backward */
    float *previous; /**< [B,T,H]: by forward, the state before each step */
    float *y;        /**< [B,T,H] or [B,H], forward */
    const float *dy; /**< [B,T,H] or [B,H], backward */
} ls_gpu_lstm;

int ls_gpu_lstm_forward(void *stream, const ls_gpu_lstm *lstm);
int ls_gpu_lstm_backward(void *stream, const ls_gpu_lstm *lstm);

/* ---- gpu_conv.cu, gpu_conv_max.cu ------------------------------------------------------------ */

/** Images [B, in_height, in_width, C] to windows [B, out_height, out_width, height, width, C]. */
int ls_gpu_windows(void *stream, const ls_conv_shape *shape, const float *x, float *windows);
/** dx = at each pixel the sum of the windows' values for that pixel. */
int ls_gpu_windows_back(void *stream, const ls_conv_shape *shape, const float *windows, float *dx);

/* ---- gpu_conv_direct.cu ---------------------------------------------------------------------- */

enum {
    LS_GPU_DIRECT_TAPS = 32,   /**< of a window, at most */
    LS_GPU_DIRECT_TERMS = 512, /**< of a sum, at most: fours of terms, if channels are fours */
    LS_GPU_DIRECT_CLASSES = 4  /**< of positions, at most */
};

/** Positions of a class on an axis, and their taps. Position p is `first + p * step` of `to`; its
 * tap j, number `tap + j * step` of the window, lies at p * spacing + at + j of `from`; of a
 * gradient, at p + at - j. */
typedef struct ls_gpu_direct_axis {
    int positions, first, step, taps, tap, spacing, at;
} ls_gpu_direct_axis;

/** A class of positions, which have the same taps: all of them, or, for a gradient with strides,
 * positions that are whole strides apart. */
typedef struct ls_gpu_direct_class {
    ls_gpu_direct_axis y, x;
    int positions, terms; /**< in all rows; of a sum */
} ls_gpu_direct_class;

/** A convolution, or with `back` the gradient of its image: `to` is made of `from`. Every tensor
 * has fewer than 2^31 elements; `to` begins on 16 bytes, and so do `from` and `weight` where
 * from_channels is a multiple of 4, as with `back`. to_channels always is a multiple of 4. */
typedef struct ls_gpu_direct {
    ls_gpu_direct_class classes[LS_GPU_DIRECT_CLASSES];
    int count; /**< of classes */
    bool back, relu;
    int taps, width; /**< pixels of the window, and of one of its lines */
    int from_height, from_width, from_channels, to_height, to_width, to_channels;
    int blocks;          /**< of a class: set by the launch */
    const float *from;   /**< x; dy */
    const float *weight; /**< [O, height, width, C] */
    const float *bias;   /**< [to_channels]; NULL if none */
    float *to;           /**< y; dx */
} ls_gpu_direct;

int ls_gpu_conv_direct(void *stream, const ls_gpu_direct *direct);

/* ---- gpu_conv_weights.cu --------------------------------------------------------------------- */

/** The gradient of a convolution's weights, straight from the images: sums over chunks of the
 * positions, which a second launch adds. */
typedef struct ls_gpu_conv_weights {
    ls_conv_shape shape;
    const float *x, *dy;
    float *dweight, *dbias; /**< [O,C,height,width]; [O], or NULL if none */
    float *parts;           /**< memory: [tiles,chunks,part_floats] */
    int64_t part_floats;
    /* The rest follows from the shape (ls_gpu_conv_weights_plan). */
    int kernel;                     /**< number of its kernel */
    int lines, strips;              /**< of a strip (the last may have fewer); of an image */
    int columns;                    /**< pixels of a line in shared memory */
    int down, dy_down;              /**< lines that are copied there at once, of x and dy */
    int together;                   /**< strips in shared memory at a time */
    int64_t chunk_strips, chunks;   /**< strips of a chunk; chunks */
    int column_tiles, output_tiles; /**< blocks of a chunk */
} ls_gpu_conv_weights;

/** Sets all but the pointers; false if the kernels do not support this shape. */
bool ls_gpu_conv_weights_plan(const ls_conv_shape *shape, ls_gpu_conv_weights *out);
int ls_gpu_conv_weights_run(void *stream, const ls_gpu_conv_weights *args);

/* ---- gpu_batch_norm.cu: elements have the bits of the cpu table ------------------------------ */

/** Parts that the sums below need, and words of `arrived`. */
size_t ls_gpu_bn_parts(int64_t pixels, int64_t channels);
size_t ls_gpu_bn_arrivals(int64_t channels);
int ls_gpu_bn_sums(void *stream, const ls_bn_sums_args *args, const ls_gpu_parts *parts);
int ls_gpu_bn_backward_sums(void *stream, const ls_bn_backward_sums_args *args,
                            const ls_gpu_parts *parts);

/* ---- gpu_transformer.cu: bits as in the cpu table; gpu_attention.cu -------------------- */

int ls_gpu_embedding_forward(void *stream, const ls_embedding_forward_args *args,
                             ls_gpu_fault fault);
/** `sorted`: memory of as many as there are rows. */
int ls_gpu_embedding_backward(void *stream, const ls_embedding_backward_args *args,
                              int64_t *sorted);
/** Parts that layer_norm's backward pass needs, and words of `arrived`. */
size_t ls_gpu_layer_norm_parts(int64_t width);
size_t ls_gpu_layer_norm_arrivals(int64_t width);
int ls_gpu_layer_norm_backward(void *stream, const ls_layer_norm_backward_args *args,
                               const ls_gpu_parts *parts);
int ls_gpu_attention_forward(void *stream, const ls_attention_forward_args *args);
/** of_rows[B,H,T] = dy y, the term of each row. */
int ls_gpu_attention_rows(void *stream, const ls_attention_backward_args *args, float *of_rows);
/** `of_rows`: memory, [B,H,T]. */
int ls_gpu_attention_backward(void *stream, const ls_attention_backward_args *args, float *of_rows);

/* ---- gpu_attention_cores.cu, gpu_attention_cores_back.cu: compute capability 8.0 ------------- */

/** The widest heads: `stored`, and in floats. */
enum { LS_GPU_ATTENTION_STORED = 128, LS_GPU_ATTENTION_FLOATS = 64 };

int ls_gpu_attention_cores_forward(void *stream, const ls_attention_forward_args *args, bool tf32);
/** Parts in which the gradient of queries is summed, by the number of positions. */
int64_t ls_gpu_attention_cores_parts(const ls_attention_shape *shape);
/** `of_rows`, `parts`: memory, [B,H,T] and [parts,B,T,C]. */
int ls_gpu_attention_cores_backward(void *stream, const ls_attention_backward_args *args,
                                    float *of_rows, float *parts, bool tf32);

#ifdef __cplusplus
}
#endif
