/* SPDX-License-Identifier: MIT */
/*
 * Layer: what a node of a graph computes. One entry of a table; adding a layer is one file with a
 * `const ls_layer` in it and one line in layers.c.
 */
#pragma once

#include "common/base/registry.h"
#include "common/device/op_list.h"
#include "common/kernel/kernel.h"
#include "common/nn/node.h"

typedef struct ls_graph ls_graph;

/** A node at work: what a layer needs to make its operations. Pointers are device memory. */
typedef struct ls_layer_site {
    const ls_graph *graph;
    const ls_node *node;
    ls_kernels *kernels;
    int64_t rows;
    int64_t batch;          /**< rows of the batch that they belong to */
    bool synced;            /**< statistics are the whole batch's: summed between a pass's halves */
    bool weights_apart;     /**< backward: without what backward_weights computes */
    bool rounds;            /**< the first half's output is rounded before the second reads it */
    bool adds;              /**< backward adds to input_gradient[0]: earlier uses wrote it */
    double scale;           /**< 1 / global batch size, for losses */
    const double *scale_at; /**< [1] 1 / the batch's targets, if lengths are ragged; or NULL */
    const ls_node *input_node[LS_NODE_INPUTS];
    void *input[LS_NODE_INPUTS];          /**< real [rows, elements] */
    void *input_gradient[LS_NODE_INPUTS]; /**< to be overwritten; NULL if not needed */
    void *output;                         /**< real [rows, elements] */
    void *output_gradient;                /**< real [rows, elements] */
    const void *variable[LS_NODE_VARIABLES];
    void *variable_gradient[LS_NODE_VARIABLES]; /**< to be overwritten */
    bool relu_follows;         /**< the ReLU after it is fused: applied forward, masked backward */
    const void *input_relu;    /**< backward: output of a ReLU whose mask input_gradient[0] gets
                                    (fused) */
    const ls_op_list *forward; /**< backward: the operations of the node's forward pass */
    void *kept;                /**< kept_bytes of memory from forward to backward; or NULL */
    double *loss;              /**< loss layers: [1] or NULL */
    uint64_t seed;             /**< dropout: of the training run */
    const uint64_t *first;     /**< dropout: position of the first row (ls_net_first) */
    void *target;              /**< loss layers: int32 [rows, positions] or real [rows, elements] */
    void *part[LS_NODE_INPUTS]; /**< fork, join: addends in order, real `[rows, elements]`; the
                                   first becomes the sum */
    int parts;                  /**< how many */
    bool stored;                /**< values and their gradients are stored in bfloat16 */
} ls_layer_site;

/** A matrix product that a layer's pass consists of, `times` over: [m,k] by [k,n]. */
typedef struct ls_layer_product {
    const char *what; /**< "forward", "dweight", "ddata", ... */
    bool backward;
    bool transpose_a, transpose_b; /**< layout of a dense layer's data, as in ls_gemm_args */
    int64_t m, n, k, times;
} ls_layer_product;

enum { LS_LAYER_PRODUCTS = 6 };

typedef enum ls_layer_role {
    LS_LAYER_COMPUTE, /**< the default */
    LS_LAYER_INPUT,   /**< filled from the data; has no operations */
    LS_LAYER_LOSS     /**< last; has a target; forward makes the gradient of its input, too */
} ls_layer_role;

/** What a backward pass reads of the forward pass, besides `kept`. */
enum { LS_READS_INPUT = 1, LS_READS_OUTPUT = 2 };

struct ls_layer {
    const char *name;
    const char *help;
    ls_layer_role role;
    int inputs;            /**< number of inputs */
    int more_inputs;       /**< number of optional inputs */
    const char *shares_of; /**< another layer whose variables it may use, too; NULL if none */
    bool float32_only;     /**< what it reads and writes is not stored in bfloat16 */
    /** Whether it honours `stored`, for these sizes; NULL: never. */
    bool (*takes_stored)(const ls_graph *graph, const ls_node *node, const ls_kernels *kernels);
    bool takes_tokens;    /**< its inputs are whole numbers, which are not rounded */
    bool fuses_relu;      /**< honours relu_follows */
    bool masks_relu;      /**< in backward, too */
    bool fuses_relu_mask; /**< honours input_relu */
    bool adds;            /**< honours `adds` of a site, if its gradient is one of several */
    bool writes_part;     /**< of its input's gradient; other users, of the same layer, the rest */
    bool passes_gradient; /**< its inputs' gradients are its output's; written only to other
                               memory */
    unsigned reads;       /**< LS_READS_INPUT, LS_READS_OUTPUT: by backward; 0 means neither */
    bool integer_target;  /**< loss: the target is int32, of each position of the output */
    /** Sets node->shape from its inputs' and options, and adds its variables. */
    ls_status (*infer)(ls_graph *graph, ls_node *node);
    /** Bytes for `rows` samples, besides the output, that forward keeps for backward, in reals of
     * `real_bytes`. NULL if there is none. */
    size_t (*kept_bytes)(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes);
    /** Appends operations. NULL for inputs. */
    ls_status (*forward)(const ls_layer_site *site, ls_op_list *ops);
    /** Appends the operations of a repeated forward pass, for a layer whose `kept` stays
     * (repeat.h). NULL means forward's operations, which computes `kept` again. */
    ls_status (*again)(const ls_layer_site *site, ls_op_list *ops);
    /** Appends operations. Called if a gradient reaches the output and an input or variable needs
     * one. NULL for inputs and losses. */
    ls_status (*backward)(const ls_layer_site *site, ls_op_list *ops);
    /** Appends the operations of the weight pass: gradients of the variables, from the input and
     * what forward kept, and the output's gradient as the backward pass found it. NULL means
     * backward computes them always. */
    ls_status (*backward_weights)(const ls_layer_site *site, ls_op_list *ops);
    /** Second halves of forward and backward, for a layer with batch statistics: after the `sums`
     * of the batch's parts were added. NULL means no such layer. */
    ls_status (*forward_rest)(const ls_layer_site *site, ls_op_list *ops);
    ls_status (*backward_rest)(const ls_layer_site *site, ls_op_list *ops);
    /** The sums that the first half of forward, or of backward, leaves: *count of them in device
     * memory, as many at every site of a node. */
    double *(*sums)(const ls_layer_site *site, bool backward, size_t *count);
    /** Appends the operations of evaluation. NULL means forward's operations. */
    ls_status (*predict)(const ls_layer_site *site, ls_op_list *ops);
    /** Floating-point operations for one sample: forward and weight gradients; and, apart, the
     *  gradient of its inputs. NULL if not counted. */
    double (*flops)(const ls_graph *graph, const ls_node *node, double *input_gradient);
    /** The matrix products that it consists of, for roofs: of forward and weight gradients, then of
     * the gradient of its inputs (`inputs_too`). Returns how many. NULL if there is none. */
    int (*products)(const ls_graph *graph, const ls_node *node, int64_t rows, bool inputs_too,
                    ls_layer_product out[LS_LAYER_PRODUCTS]);
};

/* ls_layer_put_gemm, ...: one per entry of the kernel table. Makes its operation and appends it.
 * LS_CODE_MISSING if the table does not have it. */
#define LS_LAYER_PUT(entry, args)                                                                  \
    ls_status ls_layer_put_##entry(const ls_layer_site *site, const args *arguments,               \
                                   ls_op_list *ops);
LS_KERNEL_ENTRIES(LS_LAYER_PUT)
#undef LS_LAYER_PUT

/** `takes_stored` of layers that use bf16_elements. */
bool ls_layer_takes_elements(const ls_graph *graph, const ls_node *node, const ls_kernels *kernels);
/** Appends bf16_elements over the output's elements. */
ls_status ls_layer_put_elements(const ls_layer_site *site, ls_bf16_function function, const void *a,
                                const void *b, void *y, ls_op_list *ops);

/** Whether evaluation enqueues it: all except losses, which need a separate entry. */
static inline bool ls_layer_predicts(const ls_layer *layer)
{
    return layer->role != LS_LAYER_LOSS || layer->predict;
}

/** Appends both halves of a pass, if the statistics only include these samples. */
ls_status ls_layer_forward(const ls_layer_site *site, ls_op_list *ops);
ls_status ls_layer_backward(const ls_layer_site *site, ls_op_list *ops);

/** The border node of graph_parts.h, and where slices begin and end (graph_split.h); models cannot
 * name them. */
extern const ls_layer ls_layer_border;
extern const ls_layer ls_layer_fork;
extern const ls_layer ls_layer_join;
extern const ls_layer ls_layer_split_loss;
extern const ls_layer ls_layer_block;
extern const ls_layer ls_layer_gather;

/** What passes between places that have parts of the positions (graph_context.h). */
extern const ls_layer ls_layer_deal;
extern const ls_layer ls_layer_collect;

enum { LS_LAYER_TREES = 64 };

/** The sums that a fork or join leaves of its parts, one for each finished subtree of exact mode's
 * tree (comm.h), in order; the first is part 0. Returns how many. */
int ls_layer_part_sums(const ls_layer_site *site, void *out[LS_LAYER_TREES]);

extern const ls_registry ls_layers; /**< of ls_layer */

/** LS_CODE_USAGE with the valid names where there is none of this name. */
ls_status ls_layer_find(const char *name, const ls_layer **out);
