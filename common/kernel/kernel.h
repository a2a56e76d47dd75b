/* SPDX-License-Identifier: MIT */
/*
 * Kernels: one table of operations, filled by each back end.
 *
 * An entry is a constructor: it checks the arguments, chooses and prepares the implementation
 * (creates the oneDNN primitive, picks the cuBLAS algorithm), takes what workspace it needs from
 * the device, and returns an ls_op that can be enqueued on queues of that device any number of
 * times. So nothing is created, chosen or allocated in a step. A constructor may try a product out,
 * and so write to what that overwrites.
 *
 *     reference    plain C; its loops are the definition of each operation. float32 with sums in
 *                  double, or (reference64) double throughout, for gradient checks
 *     cpu          oneDNN and vectorised loops
 *     cuda         cuBLASLt, cuDNN where it is here, and own kernels, in builds with CUDA
 *
 * Tensors are dense and row-major. `real` below is the table's element type: 4 bytes, or 8 for
 * reference64. B rows (samples of this replica's slice), I inputs, O outputs, C classes. What only
 * images and sequences need is in kernel_layers.h, what transformers need in kernel_transformer.h;
 * a table may do without any entry of these three files. A size of 0 is valid everywhere and gives
 * an op that does nothing (sums over nothing are 0). The bits of an element do not depend on where
 * a range starts or ends, nor on alignment.
 */
#pragma once

#include "common/base/registry.h"
#include "common/base/random/order.h"
#include "common/base/status.h"
#include "common/device/device.h"
#include "common/kernel/kernel_layers.h"
#include "common/kernel/kernel_scratch.h"
#include "common/kernel/kernel_step.h"
#include "common/kernel/kernel_storage.h"
#include "common/kernel/kernel_transformer.h"

#include <stddef.h>
#include <stdint.h>

/** c[m,n] = op(a) op(b) (+ c where accumulate); op transposes. Leading dimensions are dense. */
typedef struct ls_gemm_args {
    bool transpose_a, transpose_b; /**< a is [k,m] / b is [n,k] where set */
    int64_t m, n, k;               /**< rows and columns of c, and what is summed over */
    const void *a, *b;             /**< real */
    void *c;                       /**< real [m,n] */
    bool accumulate;               /**< else c is overwritten */
} ls_gemm_args;

/** y = activation(x w^T + bias). With `input_major` (of all three dense operations) weights and
 *  their gradient are [I,O] instead of [O,I], as GPT-2's files have them. */
typedef struct ls_dense_forward_args {
    int64_t rows, inputs, outputs; /**< B, I, O */
    const void *x;                 /**< real [B,I] */
    const void *weight;            /**< real [O,I] */
    const void *bias;              /**< real [O]; NULL if none */
    void *y;                       /**< real [B,O] */
    ls_activation activation;      /**< of each element of y */
    bool input_major;              /**< see above */
} ls_dense_forward_args;

/** dweight = dy^T x, dbias = sum over rows of dy. Overwrites. */
typedef struct ls_dense_backward_weights_args {
    int64_t rows, inputs, outputs; /**< B, I, O */
    const void *x;                 /**< real [B,I] */
    const void *dy;                /**< real [B,O] */
    void *dweight;                 /**< real [O,I] */
    void *dbias;                   /**< real [O]; NULL if none */
    bool input_major;              /**< dweight is [I,O] */
} ls_dense_backward_weights_args;

/** dx = dy w. Overwrites. With `relu_output` (the output of the ReLU that made x, that is x),
 *  dx is 0 where it is not positive: the ReLU's own backward, fused. */
typedef struct ls_dense_backward_data_args {
    int64_t rows, inputs, outputs; /**< B, I, O */
    const void *dy;                /**< real [B,O] */
    const void *weight;            /**< real [O,I] */
    const void *relu_output;       /**< real [B,I]; NULL means no mask */
    void *dx;                      /**< real [B,I] */
    bool input_major;              /**< weight is [I,O] */
} ls_dense_backward_data_args;

/** Both gradients of one layer, as one operation where a table has it. Rows, sizes and dy are the
 * same. */
typedef struct ls_dense_backward_args {
    ls_dense_backward_weights_args weights; /**< the gradients of weights and bias */
    ls_dense_backward_data_args data;       /**< the gradient of x */
} ls_dense_backward_args;

/** Forward: y = max(x, 0); x may be y. */
typedef struct ls_relu_forward_args {
    int64_t count; /**< elements */
    const void *x; /**< real [count] */
    void *y;       /**< real [count] */
} ls_relu_forward_args;

/** dx = y > 0 ? dy : 0; dy may be dx. */
typedef struct ls_relu_backward_args {
    int64_t count;      /**< elements */
    const void *y, *dy; /**< real [count] */
    void *dx;           /**< real [count] */
} ls_relu_backward_args;

/** y[b] = (x^2, x, 1). */
typedef struct ls_polynomial_args {
    int64_t rows;  /**< B */
    const void *x; /**< real [B,1] */
    void *y;       /**< real [B,3] */
} ls_polynomial_args;

/**
 * loss = scale * sum over rows of -log softmax(logits)[label], computed as
 * log(sum exp(z - max z)) - (z[label] - max z); dlogits = scale * (softmax - onehot).
 * `scale` is 1 / global batch size. A label outside [0, C) makes the op fail; on a GPU, where the
 * host is ahead, the loss becomes NaN and the next ls_queue_sync fails. With `scale_at`, a row of
 * label -1 has no target: its loss is 0, and so is its gradient.
 */
typedef struct ls_softmax_cross_entropy_args {
    int64_t rows, classes;  /**< B, C */
    const void *logits;     /**< real [B,C] */
    const int32_t *labels;  /**< [B] */
    double scale;           /**< 1 / global batch size */
    const double *scale_at; /**< [1] what takes the place of `scale` (set_targets); or NULL */
    void *dlogits;          /**< real [B,C]; NULL means forward only. May not be logits */
    double *loss;           /**< [1], overwritten; NULL if not wanted */
} ls_softmax_cross_entropy_args;

/** loss = scale * sum (y - target)^2; dy = scale * 2 (y - target). O outputs per row are summed. */
typedef struct ls_squared_error_args {
    int64_t rows, outputs;  /**< B, O */
    const void *y, *target; /**< real [B,O] */
    double scale;           /**< 1 / global batch size */
    void *dy;               /**< real [B,O]; NULL means forward only */
    double *loss;           /**< [1], overwritten; NULL if not wanted */
} ls_squared_error_args;

/**
 * Adds the number of right rows to *correct. A row of several logits is right where the largest
 * (the first, among equals) is the label's; one of a single logit where this is positive and the
 * label 1, or neither. Row i only counts if state->position + i / targets < samples.
 */
typedef struct ls_count_correct_args {
    int64_t rows, classes;      /**< B times targets, C */
    int64_t targets;            /**< rows of one sample, at least 1 */
    const void *logits;         /**< real [B,C] */
    const int32_t *labels;      /**< [B] */
    const ls_step_state *state; /**< argument block of the step */
    uint64_t samples;           /**< of the set */
    uint64_t *correct;          /**< [1] */
} ls_count_correct_args;

/** indices[i] = sample at position state->position + offset + i (order.h). */
typedef struct ls_batch_indices_args {
    int64_t rows;               /**< B */
    ls_sample_order order;      /**< of the data set */
    uint64_t offset;            /**< of this replica's slice in the global batch */
    const ls_step_state *state; /**< argument block of the step */
    uint32_t *indices;          /**< [B] */
} ls_batch_indices_args;

/** What a gather reads, and what it writes. */
typedef enum ls_gather_type {
    LS_GATHER_BYTES_TO_UNIT, /**< uint8 / 255 (a float32 division) to real */
    LS_GATHER_FLOAT,         /**< float32 to real */
    LS_GATHER_INT32,         /**< int32 to int32 */
    LS_GATHER_ONE_HOT        /**< uint8 to 256 reals: 1 at that number, else 0 */
} ls_gather_type;

/** out[i] = source[indices[i]], `width` elements a row of the source. */
typedef struct ls_gather_args {
    int64_t rows, width;     /**< B, and elements of one sample */
    ls_gather_type type;     /**< of source and out */
    const void *source;      /**< [samples, width], from ls_device_share */
    const uint32_t *indices; /**< [B] which samples */
    void *out;               /**< [B, width]; one-hot: [B, width, 256] */
    uint64_t samples;        /**< of the source: indices are below */
} ls_gather_args;

enum { LS_GATHERS = 4 };

/** batch_indices, then gather from several arrays, as one operation where a table has it. */
typedef struct ls_gather_batch_args {
    ls_batch_indices_args indices;     /**< which samples */
    int count;                         /**< arrays, at most LS_GATHERS */
    ls_gather_args gather[LS_GATHERS]; /**< operations for these rows, by these indices */
} ls_gather_batch_args;

/** Which update (ls_optimizer_args). */
typedef enum ls_optimizer_kind {
    LS_OPTIMIZER_SGD,
    LS_OPTIMIZER_MOMENTUM,
    LS_OPTIMIZER_ADAM,
    LS_OPTIMIZER_ADAMW,
    LS_OPTIMIZER_RMSPROP
} ls_optimizer_kind;

/**
 * One pass over a range of the flat buffers. With g the gradient, times clip->factor where clip is
 * given, and lr = state->learning_rate:
 *     sgd        w -= lr g
 *     momentum   v = mu v + g; w -= lr v
 *     adam       m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; w -= lr mhat / (sqrt(vhat) + eps),
 *                mhat = m / (1 - b1^t), vhat = v / (1 - b2^t), t = state->step + 1
 *                (Kingma and Ba, arXiv 1412.6980, algorithm 1)
 *     adamw      as adam, and for ranges that shrink w -= lr (mhat / (sqrt(vhat) + eps) + decay w)
 *                (Loshchilov and Hutter, arXiv 1711.05101)
 *     rmsprop    v = rho v + (1-rho) g^2; w -= lr g / (sqrt(v) + eps)
 * Scalars are computed in double once a step and rounded to real.
 */
typedef struct ls_optimizer_args {
    ls_optimizer_kind kind; /**< which of them */
    int64_t count;          /**< elements */
    void *weight;           /**< real [count] */
    void *gradient;         /**< real [count]; written only where a range decays */
    void *slot[2];          /**< real [count]: momentum v; adam, adamw m, v; rmsprop v; else NULL */
    double mu, beta1, beta2, rho, epsilon, decay; /**< as far as the kind uses them */
    const ls_step_state *state;                   /**< argument block of the step */
    const ls_update_range *ranges;                /**< of 0 to count, one after the other; copied */
    int64_t range_count; /**< 0 if all is trained, and nothing decays or shrinks */
    const ls_clip *clip; /**< NULL if the gradient is not scaled */
} ls_optimizer_args;

/**
 * Sums of squares of a gradient, block by block, in double: a range belongs to one variable, and a
 * block is LS_SQUARE_BLOCK consecutive elements of it, the last one maybe fewer. If a range decays,
 * gradient += decay * weight first, as the optimizer would do. Moving statistics count as 0, since
 * they have no gradient.
 */
typedef struct ls_square_sums_args {
    int64_t count;                 /**< elements */
    void *gradient;                /**< real [count]; written only where a range decays */
    const void *weight;            /**< real [count]; read only where a range decays */
    const ls_update_range *ranges; /**< of 0 to count, one after the other; copied */
    int64_t range_count;           /**< of `ranges` */
    double *sums;                  /**< [blocks of all ranges], in their order */
} ls_square_sums_args;

/**
 * norm = the root of the sum of all blocks' squares, in a fixed binary tree: sum(lo, hi) = sum(lo,
 * mid) + sum(mid, hi), mid = lo + the largest power of two below hi - lo. factor = min(1, most /
 * (norm + 1e-6)); NaN stays. Overwrites the sums.
 */
typedef struct ls_clip_factor_args {
    int64_t count; /**< blocks */
    double *sums;  /**< [count] */
    double most;   /**< the norm to which a gradient is scaled down; above 0 */
    ls_clip *clip; /**< [1] */
} ls_clip_factor_args;

/** y = a + b elementwise; y may be a or b. Without b (NULL) y = a, a copy. */
typedef struct ls_add_args {
    int64_t count;     /**< elements */
    const void *a, *b; /**< real [count] */
    void *y;           /**< real [count] */
} ls_add_args;

/** out[0] = a[0] + b[0] in double: losses of shards. out may be a or b. */
typedef struct ls_add_loss_args {
    const double *a, *b; /**< [1] */
    double *out;         /**< [1] */
} ls_add_loss_args;

/** Every element becomes `value`. */
typedef struct ls_fill_args {
    int64_t count; /**< elements */
    double value;  /**< rounded to real */
    void *y;       /**< real [count] */
} ls_fill_args;

/** y[i] = factor * y[i], the factor rounded to real. */
typedef struct ls_scale_args {
    int64_t count;       /**< elements */
    double factor;       /**< see above */
    void *y;             /**< real [count] */
    const ls_clip *clip; /**< whose factor takes the place of `factor`; NULL if none */
} ls_scale_args;

/** out = (a x + b y) / divisor elementwise; each product, the sum and the quotient are rounded to
 * real. Without y (NULL) out = a x / divisor. out may be x or y. */
typedef struct ls_combine_args {
    int64_t count;  /**< elements */
    double a;       /**< rounded to real, like b and divisor */
    const void *x;  /**< real [count] */
    double b;       /**< of y */
    const void *y;  /**< real [count]; NULL if none */
    double divisor; /**< not 0 */
    void *out;      /**< real [count] */
} ls_combine_args;

/**
 * Ends a step: records[state->record % capacity] = {now, *loss}; then step + 1, record + 1,
 * position + batch, and the learning rate of the next step by the schedule. Where a replica has
 * several parts of the loss (exact mode), loss[1] to loss[more] go to a separate ring.
 */
typedef struct ls_finish_step_args {
    ls_step_state *state;      /**< argument block, moved on */
    uint64_t batch;            /**< global batch size of this step */
    ls_rate_schedule schedule; /**< of the learning rate */
    const double *loss;        /**< NULL means recorded as 0 */
    ls_step_record *records;   /**< [capacity] a ring */
    uint64_t capacity;         /**< records in the ring */
    uint64_t more;             /**< further parts of the loss */
    double *more_losses;       /**< [capacity, more]; NULL where more is 0 */
} ls_finish_step_args;

/** *time_ns = now, on the clock of ls_step_record: where a run of timed steps begins. */
typedef struct ls_stamp_args {
    uint64_t *time_ns; /**< [1] */
} ls_stamp_args;

/** *first = state->position + offset: the position, in the endless sequence, of a piece's first
 *  sample. */
typedef struct ls_set_first_args {
    const ls_step_state *state; /**< argument block of the step */
    uint64_t offset;            /**< of the piece in the global batch */
    uint64_t *first;            /**< [1] */
} ls_set_first_args;

/**
 * Ragged lengths: sample i has targets at its first len(i) positions, q + bits(i) mod (T - q + 1)
 * with q = max(1, T / 4). Labels behind these positions become -1. *scale becomes 1 / the number of
 * targets of the batch, `count` samples from state->position + first on; the labels' samples are a
 * part of it.
 */
typedef struct ls_set_targets_args {
    ls_sample_order order;      /**< of the data set */
    const ls_step_state *state; /**< argument block of the step */
    ls_random random;           /**< the stream of bits(i) */
    int64_t whole;              /**< T, at least 1 */
    uint64_t first, count;      /**< samples of the mean, counted from state->position */
    uint64_t offset;            /**< the labels' first sample, relative to state->position */
    int64_t rows;               /**< samples with labels */
    int64_t width, begin;       /**< which of their positions: so many, from `begin` on */
    int32_t *labels;            /**< [rows,width] */
    double *scale;              /**< [1] */
} ls_set_targets_args;

/** A fault on purpose, to see checks work: in step `step`, bit 30 (of float32) of the largest
 *  element in absolute value (the first, among equals) is flipped. Other steps: nothing. */
typedef struct ls_flip_bit_args {
    int64_t count;              /**< elements */
    float *data;                /**< float32 [count] whatever the table */
    const ls_step_state *state; /**< argument block of the step */
    uint64_t step;              /**< in which it happens */
} ls_flip_bit_args;

typedef struct ls_kernel_table ls_kernel_table;

/** Arithmetic of products: float32, or with factors rounded to 10 bits (TF32), sums in float32. */
typedef enum ls_math { LS_MATH_FLOAT32, LS_MATH_TF32 } ls_math;

/** How outputs of layers, their gradients, and the copy of the parameters that layers read are
 * stored: as reals of the table, or rounded to bfloat16, to be widened before they are used. */
typedef enum ls_precision { LS_PRECISION_FLOAT32, LS_PRECISION_BF16 } ls_precision;

/** How a GPU's convolutions are computed. AUTO: by our own kernels, or by cuDNN where it is
 * expected to be faster, installed, and takes the shape; CUDNN: by cuDNN, or refused; OWN: by our
 * own. Other tables have one way. */
typedef enum ls_convolution {
    LS_CONVOLUTION_AUTO,
    LS_CONVOLUTION_CUDNN,
    LS_CONVOLUTION_OWN
} ls_convolution;

/** A table opened for a device. Back ends embed it first in their own struct. `math`, `any_order`
 * and `convolution` may be set, for operations that are made afterwards. */
typedef struct ls_kernels {
    const ls_kernel_table *table; /**< that was opened */
    ls_device *device;            /**< that it runs on; borrowed */
    ls_math math;                 /**< of products; float32 where just opened */
    bool any_order;               /**< a GPU's gemm may add in any order, to measure its peak */
    ls_convolution convolution;   /**< auto when opened; LS_CODE_MISSING without its library */
    ls_scratch scratch;           /**< that its operations share */
    bool multiplies_bf16;         /**< LS_KERNEL_BF16_ENTRIES work here */
    int64_t attends_bf16;         /**< the widest head of an attention that may be `stored` */
} ls_kernels;

/** Entries that every table has, and that tables of the same kind of device may share. */
#define LS_KERNEL_STEP_ENTRIES(X)                                                                  \
    X(add_loss, ls_add_loss_args)                                                                  \
    X(clip_factor, ls_clip_factor_args)                                                            \
    X(finish_step, ls_finish_step_args)                                                            \
    X(stamp, ls_stamp_args)                                                                        \
    X(set_first, ls_set_first_args)                                                                \
    X(set_targets, ls_set_targets_args)                                                            \
    X(flip_bit, ls_flip_bit_args)

/** Entries that every table has, and that are its own. */
#define LS_KERNEL_OWN_ENTRIES(X)                                                                   \
    X(gemm, ls_gemm_args)                                                                          \
    X(dense_forward, ls_dense_forward_args)                                                        \
    X(dense_backward_weights, ls_dense_backward_weights_args)                                      \
    X(dense_backward_data, ls_dense_backward_data_args)                                            \
    X(relu_forward, ls_relu_forward_args)                                                          \
    X(relu_backward, ls_relu_backward_args)                                                        \
    X(polynomial, ls_polynomial_args)                                                              \
    X(softmax_cross_entropy, ls_softmax_cross_entropy_args)                                        \
    X(squared_error, ls_squared_error_args)                                                        \
    X(count_correct, ls_count_correct_args)                                                        \
    X(batch_indices, ls_batch_indices_args)                                                        \
    X(gather, ls_gather_args)                                                                      \
    X(square_sums, ls_square_sums_args)                                                            \
    X(optimizer, ls_optimizer_args)                                                                \
    X(add, ls_add_args)                                                                            \
    X(fill, ls_fill_args)                                                                          \
    X(scale, ls_scale_args)                                                                        \
    X(combine, ls_combine_args)

/** All entries that every table has. */
#define LS_KERNEL_CORE_ENTRIES(X)                                                                  \
    LS_KERNEL_OWN_ENTRIES(X)                                                                       \
    LS_KERNEL_STEP_ENTRIES(X)

/** Several operations as one. NULL in a table that gains nothing by it; callers then use the
 * several. */
#define LS_KERNEL_JOINT_ENTRIES(X)                                                                 \
    X(dense_backward, ls_dense_backward_args)                                                      \
    X(gather_batch, ls_gather_batch_args)                                                          \
    X(bf16_elements, ls_bf16_elements_args)

/** All entries. */
#define LS_KERNEL_ENTRIES(X)                                                                       \
    LS_KERNEL_CORE_ENTRIES(X)                                                                      \
    LS_KERNEL_LAYER_ENTRIES(X)                                                                     \
    LS_KERNEL_TRANSFORMER_ENTRIES(X)                                                               \
    LS_KERNEL_STORAGE_ENTRIES(X)                                                                   \
    LS_KERNEL_BF16_ENTRIES(X)                                                                      \
    LS_KERNEL_JOINT_ENTRIES(X)

/** The operations of one back end. */
struct ls_kernel_table {
    const char *name;    /**< as users write it */
    const char *help;    /**< one line for people */
    ls_device_kind kind; /**< of devices that it runs on */
    size_t real_bytes;   /**< 4, or 8 for reference64 */
    bool tf32;           /**< its products know LS_MATH_TF32 */
    /** Makes it ready for a device, which must outlive it. */
    ls_status (*open)(ls_device *device, ls_kernels **out);
    /** After its operations are freed. */
    void (*close)(ls_kernels *kernels);
    /** Version of the library behind it: "oneDNN 2.6.3 (avx512)"; "" where there is none. */
    const char *(*library)(const ls_kernels *kernels);
    /* The operations: constructors; arguments are copied, memory is borrowed. The entries of
     * LS_KERNEL_LAYER_ENTRIES, LS_KERNEL_TRANSFORMER_ENTRIES, LS_KERNEL_STORAGE_ENTRIES,
     * LS_KERNEL_BF16_ENTRIES and LS_KERNEL_JOINT_ENTRIES may be NULL. */
    /** Declares an entry, the constructor of an operation. */
#define LS_KERNEL_MEMBER(entry, args)                                                              \
    ls_status (*entry)(ls_kernels * kernels, const args *arguments, ls_op **out);
    LS_KERNEL_ENTRIES(LS_KERNEL_MEMBER)
#undef LS_KERNEL_MEMBER
};

/** Lists the ls_kernel_table: `reference`, `reference64`, `cpu`; `cuda` in builds with CUDA. */
extern const ls_registry ls_kernel_tables;

/** LS_CODE_USAGE with the valid names where there is none of this name. */
ls_status ls_kernel_table_find(const char *name, const ls_kernel_table **out);

/** LS_CODE_MISSING where the table has no entry of this name, which `whose` needs; `instead` names
 * what works without it, as "--sync-bn no". */
ls_status ls_kernel_table_need(const ls_kernel_table *table, const char *entry, const char *whose,
                               const char *instead);

/** The table that runs on this device by default; NULL where there is none. */
const ls_kernel_table *ls_kernel_table_default(ls_device_kind kind);

/** Refuses arithmetic that the environment overrides (NVIDIA_TF32_OVERRIDE), if the table has a
 *  choice: LS_CODE_USAGE. */
ls_status ls_kernel_math_check(const ls_kernel_table *table, ls_math math);

/** Opens the default table of the device for this arithmetic. LS_CODE_MISSING where there is no
 *  table, LS_CODE_USAGE where it does not know the arithmetic. */
ls_status ls_kernels_open(ls_device *device, ls_math math, ls_kernels **out);

/** As above, with a table that runs on the device; NULL means the default. */
ls_status ls_kernels_open_table(const ls_kernel_table *table, ls_device *device, ls_math math,
                                ls_kernels **out);

/** Version of the oneDNN that is loaded: "2.6.3". Returns `text`. */
const char *ls_kernel_library_version(char text[32]);

/** The instruction set that oneDNN uses at most, in its words: "avx512_core_bf16"; of the
 * processor, unless ONEDNN_MAX_CPU_ISA says less. "" if it does not tell. */
const char *ls_kernel_library_isa(void);

/** The instruction set of the cpu table's own loops: "avx512", "avx2", "neon" or "portable"; at
 * most that which oneDNN uses. */
const char *ls_kernel_loops_isa(void);
