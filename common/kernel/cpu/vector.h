/* SPDX-License-Identifier: MIT */
/*
 * Vector loops: the hand-written loops of the cpu table, compiled once per instruction set from
 * vector_loops.c; ls_vector_loops_pick selects the one for this processor. All give the same bits:
 * the source decides whether a product and a sum are rounded once (vec_fma) or twice, without
 * reassociation; a sum has 16 lanes (element i in lane i % 16), folded by halves, whatever the
 * width of the processor's vectors; exponential and logarithm are our own polynomials. Elements do
 * not depend on where a range starts or ends.
 */
#pragma once

#include "common/base/random/philox_inline.h"
#include "common/kernel/crop_draw.h"
#include "common/kernel/step_inline.h"

/** An optimizer's pass: the scalars of the step, and the range's buffers. */
typedef struct ls_vector_update {
    ls_optimizer_kind kind;
    float *weight;
    const float *gradient;
    float *first, *second; /**< slots */
    ls_update_scalars scalars;
} ls_vector_update;

/** softmax cross-entropy of [rows, classes]; labels have been checked. */
typedef struct ls_vector_softmax {
    int64_t rows, classes;
    const float *logits;
    const int32_t *labels;
    float scale;
    float *dlogits; /**< NULL means forward only */
    float *tile;    /**< [ls_vector_tile_rows(classes) * classes]; used if dlogits is NULL */
} ls_vector_softmax;

/** What a causal product leaves out, with row i of op(a) at position `diagonal` + i: columns of c
 * behind it, which stay undefined; or elements of op(a) that are 0, the elements behind it or
 * before it. */
typedef enum ls_vector_causal {
    LS_CAUSAL_NONE,
    LS_CAUSAL_COLUMNS,
    LS_CAUSAL_BEHIND,
    LS_CAUSAL_BEFORE,
} ls_vector_causal;

/** c = op(a) op(b) (+ c), then + bias, ReLU, and 0 where `mask` is not above 0; sizes above 0. */
typedef struct ls_vector_product {
    ls_gemm_args gemm;
    int64_t a_row, b_row, c_row; /**< elements between rows of a, b, c in memory; 0 if dense */
    const float *bias;           /**< [n]; NULL if none */
    const float *mask;           /**< [m,n]; NULL if none */
    bool relu;
    const float *panels; /**< NULL, or b as product_panels copies it, of k up to
                              LS_VECTOR_PRODUCT_DEPTH */
    bool in_place;       /**< b, not transposed, is never copied, however many rows a has */
    bool a_in_place;     /**< so is a; not transposed, its rows are LS_VECTOR_PRODUCT_ROW apart */
    ls_vector_causal causal;
    int64_t diagonal; /**< if LS_CAUSAL_BEFORE, diagonal + m is at most k */
} ls_vector_product;

/** The part of c that a thread computes. */
typedef struct ls_vector_share {
    int64_t first_row, last_row, first_column, last_column;
} ls_vector_share;

/** The block of b that a product copies at a time, and the floats of its scratch memory: such a
 *  block, and a tile's rows of a. */
enum {
    LS_VECTOR_PRODUCT_DEPTH = 264,
    LS_VECTOR_PRODUCT_ROW = LS_VECTOR_PRODUCT_DEPTH + 16, /* rows of a are not all in one set of
                                                             the cache */
    LS_VECTOR_PRODUCT_WIDTH = 288,                        /* whole panels */
    LS_VECTOR_PRODUCT_SCRATCH =
        LS_VECTOR_PRODUCT_DEPTH * LS_VECTOR_PRODUCT_WIDTH + LS_VECTOR_PRODUCT_ROW * 16
};

/** A number of floats rounded up to whole lanes. */
static inline int64_t ls_vector_pad(int64_t count)
{
    return (count + 15) / 16 * 16;
}

/** conv_max_forward, with what was prepared for it. */
typedef struct ls_vector_conv_max {
    ls_conv_max_forward_args arguments;
    int64_t outputs;       /**< ls_vector_pad of the shape's */
    const float *packed;   /**< [height, width, channels, outputs] by pack_filters */
    const float *bias;     /**< [outputs] */
    float *image;          /**< [height, width, channels] for one sample; NULL means no padding */
    int64_t height, width; /**< of a sample with its padding */
} ls_vector_conv_max;

/** conv_backward_weights of few channels: window rows of LS_VECTOR_FEW or LS_VECTOR_LEAST elements,
 *  a multiple of 16 outputs. */
typedef struct ls_vector_conv_few {
    ls_conv_backward_weights_args arguments;
    int64_t height, width; /**< of a sample as its windows see it, with padding */
    float *image;          /**< [height, width, channels] */
    float *sums;           /**< [units, run + 1, 16] */
} ls_vector_conv_few;

enum { LS_VECTOR_FEW = 15, LS_VECTOR_LEAST = 9 };

/**
 * A convolution by Winograd's minimal filtering: stride 1, a square window of 3 or 5, channels and
 * outputs in multiples of 16 (vector_winograd.h). The gradient of the data is itself a convolution
 * of dy: `shape` describes that one, and the weights are `turned`.
 */
typedef struct ls_vector_winograd {
    ls_conv_shape shape;
    bool turned, relu;   /**< relu: on the outputs */
    const float *x, *dy; /**< dy: of the weights' gradient, which overwrites dweight and dbias */
    const float *weight, *bias; /**< bias, dbias: NULL if none */
    float *y, *dweight, *dbias;
    float *packed;   /**< [6, 6, C, O]: weights, or sums for their gradient */
    float *in, *out; /**< [C / 16 or O / 16, LS_WINOGRAD_TILES, 6, 6, 16]: tiles at work */
} ls_vector_winograd;

enum { LS_WINOGRAD_AXIS = 6, LS_WINOGRAD_TILES = 24 };

/** Tiles of 4x4 outputs, 2x2 of a 5x5 window, of all rows. */
static inline int64_t ls_vector_winograd_tiles(const ls_conv_shape *s)
{
    const int64_t side = LS_WINOGRAD_AXIS + 1 - s->window.height;
    return s->rows * ((s->window.out_height + side - 1) / side) *
           ((s->window.out_width + side - 1) / side);
}

/** An LSTM's recurrence, the part after the inputs' product. */
typedef struct ls_vector_lstm {
    ls_lstm_shape shape;
    const float *packed; /**< the recurrent weights, by pack_recurrent */
    const float *bias;   /**< [4H]; forward */
    float *gates;        /**< [B,T,4H] forward: W_ih x, becomes the gates; backward: the gates */
    float *dz;           /**< [.,T,4H] backward: gradient of z, from row dz_row; may be the gates */
    int64_t dz_row;
    float *cells;    /**< [B,T,H] c_t */
    float *previous; /**< [B,T,H] h_(t-1) */
    float *y;        /**< forward: the output */
    const float *dy; /**< backward: its gradient */
    float *scratch;  /**< backward: LS_VECTOR_LSTM_ROWS * 2 * ls_vector_pad(H) */
} ls_vector_lstm;

/** Parts of the rows whose sums layer_norm_back computes apart. */
enum { LS_VECTOR_NORM_GROUPS = 32 };

/** Queries whose scores are in memory at a time, and floats of a row of scores: if it is short
 *  enough a product's, which then reads it where it is; of few steps that takes more memory. */
enum { LS_VECTOR_ATTENTION_BLOCK = 32 };
static inline int64_t ls_vector_attention_row(int64_t steps)
{
    return steps <= LS_VECTOR_PRODUCT_DEPTH ? LS_VECTOR_PRODUCT_ROW : ls_vector_pad(steps) + 16;
}

/** Keys as whole panels of a product, of up to 32 columns. */
static inline int64_t ls_vector_attention_pad(int64_t steps)
{
    return (steps + 31) / 32 * 32;
}

/** Floats that attention and attention_back work in: scores of a block, twice, a product's memory,
 *  and a head's keys and values, copied. */
static inline int64_t ls_vector_attention_memory(const ls_attention_shape *s)
{
    return 2 * LS_VECTOR_ATTENTION_BLOCK * ls_vector_attention_row(s->steps) +
           LS_VECTOR_PRODUCT_SCRATCH +
           (s->steps + 2 * ls_vector_attention_pad(s->steps)) * (s->width / s->heads);
}

/** Floats that lrn and lrn_back work in. */
static inline size_t ls_vector_lrn_tile(int64_t channels, int64_t radius)
{
    return (size_t)(4 * (ls_vector_pad(channels) + 2 * radius));
}

enum { LS_VECTOR_LSTM_ROWS = 4 }; /* samples that go through the steps together */

enum { LS_VECTOR_TILE = 4096, LS_VECTOR_TILE_ROWS = 64 };

/** Rows of logits that are worked on at a time: what stays in the first-level cache. */
static inline int64_t ls_vector_tile_rows(int64_t classes)
{
    int64_t rows = classes > 0 ? LS_VECTOR_TILE / classes : LS_VECTOR_TILE_ROWS;
    return rows < 1 ? 1 : rows > LS_VECTOR_TILE_ROWS ? LS_VECTOR_TILE_ROWS : rows;
}

/** Ranges are [first, last). Arrays do not overlap unless stated. */
typedef struct ls_vector_loops {
    const char *isa;
    bool fused; /**< multiplication and addition, rounded once, are one instruction */
    /** y = max(x, 0); x may be y. */
    void (*relu)(const float *x, float *y, int64_t count);
    /** dx = y > 0 ? dy : 0; dy may be dx. */
    void (*mask)(const float *y, const float *dy, float *dx, int64_t count);
    /** y = a + b; y may be a or b. */
    void (*add)(const float *a, const float *b, float *y, int64_t count);
    /** y = x, of bfloat16; and y = x, rounded to it. */
    void (*widen)(const uint16_t *x, float *y, int64_t count);
    void (*narrow)(const float *x, uint16_t *y, int64_t count);
    void (*fill)(float *y, float value, int64_t count);
    void (*scale)(float *y, float factor, int64_t count);
    /** Elements [first, last). */
    void (*combine)(const ls_combine_args *a, int64_t first, int64_t last);
    /** y[r] += bias, then ReLU if set; bias may be NULL. */
    void (*bias)(float *y, const float *bias, int64_t rows, int64_t columns, bool relu);
    /** sums[c] = sum of x[r,c] over the rows, for the columns [first, last). */
    void (*column_sums)(const float *x, int64_t rows, int64_t columns, int64_t first, int64_t last,
                        float *sums);
    void (*polynomial)(const float *x, float *y, int64_t rows);
    /* Dense layers of a few inputs and outputs. */
    void (*dense_forward)(const ls_dense_forward_args *dense);
    void (*dense_backward_weights)(const ls_dense_backward_weights_args *dense);
    void (*dense_backward_data)(const ls_dense_backward_data_args *dense);
    /** c = op(a) op(b) (+ c) for the shapes that no library call is made for. */
    void (*gemm)(const ls_gemm_args *gemm);
    /** Rows and columns of a product; scratch of LS_VECTOR_PRODUCT_SCRATCH. */
    void (*product)(const ls_vector_product *product, const ls_vector_share *share, float *scratch);
    /** The first row whose label is outside [0, classes); -1 if there is none. */
    int64_t (*bad_label)(const int32_t *labels, int64_t rows, int64_t classes, bool ragged);
    /** Fills dlogits; the loss, without scale. */
    double (*softmax)(const ls_vector_softmax *softmax);
    /** Rows of softmax_part; memory of a row. Then the loss of softmax_whole, without scale, and
     * rows of its gradient; and count_parts counts the right labels among the first rows. */
    void (*softmax_part)(const ls_softmax_part_args *part, int64_t first, int64_t last, float *own);
    double (*softmax_whole_loss)(const ls_softmax_whole_args *whole);
    void (*softmax_whole)(const ls_softmax_whole_args *whole, int64_t first, int64_t last);
    uint64_t (*count_parts)(const ls_count_parts_args *parts, int64_t rows);
    /** dy = factor (y - target) if dy is not NULL; returns the sum of the squares. */
    double (*squared_error)(const float *y, const float *target, float factor, float *dy,
                            int64_t count);
    /** The number of rows in [first, last) whose largest logit is the label. */
    uint64_t (*count_correct)(const float *logits, const int32_t *labels, int64_t rows,
                              int64_t classes);
    /** order.h's ls_order_epoch_samples. */
    void (*indices)(const ls_order_epoch *epoch, uint64_t first, uint64_t count, uint32_t *out);
    void (*gather)(const ls_gather_args *gather, int64_t first, int64_t last);
    void (*optimizer)(const ls_vector_update *update, int64_t first, int64_t last);
    /** packed[height, width, channels, ls_vector_pad(outputs)] = weight, 0 in what is padded. */
    void (*pack_filters)(const ls_conv_shape *shape, const float *weight, float *packed);
    /** Rows of conv_max_forward. */
    void (*conv_max)(const ls_vector_conv_max *conv, int64_t first, int64_t last);
    /** Outputs of conv_max_backward_weights. */
    void (*conv_max_backward)(const ls_conv_max_backward_weights_args *arguments, int64_t first,
                              int64_t last);
    /** Units of conv_backward_weights: window rows by outputs / 16. */
    void (*conv_few_weights)(const ls_vector_conv_few *conv, int64_t first, int64_t last);
    /** Blocks of 16 channels: packs the weights into `packed`; and unpacks their gradient. */
    void (*winograd_pack)(const ls_vector_winograd *winograd, int64_t first, int64_t last);
    void (*winograd_weights)(const ls_vector_winograd *winograd, int64_t first, int64_t last);
    /** Tiles. */
    void (*winograd_forward)(const ls_vector_winograd *winograd, int64_t first, int64_t last);
    /** Recurrent weights [4H,H] for lstm_forward [H,4,ls_vector_pad(H)], for lstm_backward
     *  [4H,ls_vector_pad(H)]. */
    void (*pack_recurrent)(const float *weight, int64_t hidden, bool backward, float *packed);
    /** Rows [first, last), through all steps. */
    void (*lstm_forward)(const ls_vector_lstm *lstm, int64_t first, int64_t last);
    void (*lstm_backward)(const ls_vector_lstm *lstm, int64_t first, int64_t last);
    /** Labels have been checked; the loss, without scale. */
    double (*logistic)(const ls_logistic_loss_args *logistic);
    /** One row of gather_crops. */
    void (*crop)(const ls_gather_crops_args *crops, const ls_crop *crop, int64_t row);
    /** Rows of max_pool_forward and max_pool_backward. */
    void (*max_pool)(const ls_max_pool_forward_args *pool, int64_t first, int64_t last);
    void (*max_pool_back)(const ls_max_pool_backward_args *pool, int64_t first, int64_t last);
    /** Pixels of lrn_forward and lrn_backward; tile of ls_vector_lrn_tile. */
    void (*lrn)(const ls_lrn_forward_args *lrn, int64_t first, int64_t last, float *tile);
    void (*lrn_back)(const ls_lrn_backward_args *lrn, int64_t first, int64_t last, float *tile);
    /** Matrices of transpose. */
    void (*transpose)(const ls_transpose_args *transpose, int64_t first, int64_t last);
    /** gradient += factor * weight. */
    void (*decay)(const float *weight, float factor, float *gradient, int64_t count);
    /** The sum over elements of ls_decay_part. */
    double (*decay_loss)(const float *weight, double decay, int64_t count);
    double (*sum_squares)(const float *x, int64_t count);
    /** Pixels of bn_sums and bn_backward_sums, added to `sums`, [2,C]; and pixels of the other
     * operations. */
    void (*bn_sums)(const ls_bn_sums_args *bn, int64_t first, int64_t last, double *sums);
    void (*bn_forward)(const ls_bn_forward_args *bn, int64_t first, int64_t last);
    void (*bn_backward_sums)(const ls_bn_backward_sums_args *bn, int64_t first, int64_t last,
                             double *sums);
    void (*bn_backward)(const ls_bn_backward_args *bn, int64_t first, int64_t last);
    /** Rows of mean_pool_forward and mean_pool_backward. */
    void (*mean_pool)(const ls_mean_pool_forward_args *pool, int64_t first, int64_t last);
    void (*mean_pool_back)(const ls_mean_pool_backward_args *pool, int64_t first, int64_t last);
    /** The first row of x that is not a valid token; -1 if there is none. */
    int64_t (*bad_token)(const float *x, int64_t rows, int64_t tokens);
    /** Rows of embedding_forward, and tokens of embedding_backward. */
    void (*embedding)(const ls_embedding_forward_args *embedding, int64_t first, int64_t last);
    void (*embedding_back)(const ls_embedding_backward_args *embedding, int64_t first,
                           int64_t last);
    /** Rows of layer_norm_forward; groups of layer_norm_backward: dx, and each group's sums of
     *  dweight and dbias, [LS_VECTOR_NORM_GROUPS, 2, ls_vector_pad(C)]. */
    void (*layer_norm)(const ls_layer_norm_forward_args *norm, int64_t first, int64_t last);
    void (*layer_norm_back)(const ls_layer_norm_backward_args *norm, int64_t first, int64_t last,
                            float *sums);
    void (*gelu)(const float *x, float *y, int64_t count);
    /** dx = dy times the slope at x; dx may be dy. */
    void (*gelu_back)(const float *x, const float *dy, float *dx, int64_t count);
    /** Elements first to last - 1 of all rows. */
    void (*dropout)(const ls_dropout_args *dropout, int64_t first, int64_t last);
    /** Heads of all samples; memory of ls_vector_attention_memory. */
    void (*attention)(const ls_attention_forward_args *attention, int64_t first, int64_t last,
                      float *memory);
    void (*attention_back)(const ls_attention_backward_args *attention, int64_t first, int64_t last,
                           float *memory);
    /** average += rate * (value - average). */
    void (*moving_average)(const float *value, float rate, float *average, int64_t count);
    /** y = e^x for x of at most 0: within 1 ulp; 0 below -87; NaN stays NaN. For tests. */
    void (*exponential)(const float *x, float *y, int64_t count);
    /** y = ln x in double for normal x above 0: within 4e-16 (1 + |ln x|). For tests. */
    void (*logarithm)(const float *x, double *y, int64_t count);
} ls_vector_loops;

/** The widest that this processor runs and that oneDNN may use: ONEDNN_MAX_CPU_ISA limits both. */
const ls_vector_loops *ls_vector_loops_pick(void);

/** Lists the loops that this processor runs, the portable ones first; NULL-terminated. */
size_t ls_vector_loops_list(const ls_vector_loops *list[4]);
