/* SPDX-License-Identifier: MIT */
/* A net's inside, shared by its files: memory (net_memory.c), and operations (net.c). */
#pragma once

#include "common/nn/net.h"
#include "common/nn/net_nodes.h"
#include "common/nn/repeat.h"

typedef struct net_input {
    void *scratch; /* its gradient, if the layer cannot add to the input's */
    bool hands_on; /* it has its gradient in the node's own */
} net_input;

typedef struct net_node {
    bool wants_gradient; /* a gradient must reach its output */
    bool splits;         /* its weight pass is apart */
    bool waits;          /* its weight pass copies what its backward pass has made */
    bool fused_forward;  /* a ReLU that is fused into its input, and uses its buffers */
    bool fused_backward; /* a ReLU whose mask its only user applies, or the layer before */
    bool masked_before;  /* the layer before it does */
    bool is_fork, is_join;
    bool borrows;         /* its output has its first input's memory */
    bool joined;          /* its only user is a join, whose gradient it has */
    bool passing;         /* its gradient's memory is another's before and after */
    bool scratch_passing; /* the inputs' scratch, too, passes its memory on */
    int gradient_from;    /* the node whose gradient's memory it has in that way; or itself */
    size_t pooled;        /* passing: the number of this memory, while buffers are planned */
    int last_use;         /* last node that uses the output; -1 if none */
    void *output, *gradient, *kept;
    net_input *inputs;  /* [input_count] behind the nodes */
    void *own_gradient; /* of variables, in order, of a node that shares or waits */
    ls_op_list forward, forward_rest, backward, backward_rest;
    ls_op_list weights; /* of a node that splits or waits */
    ls_op_list again;   /* if a repeated forward pass differs */
    ls_op_list predict; /* if evaluation differs from forward */
} net_node;

struct ls_net {
    ls_net_options options;
    net_node *nodes; /* [graph->count] */
    void *target;
    char *scratch; /* stored in bfloat16: for values of a node that are widened (net_stored.c) */
    void **memory; /* what was allocated here */
    size_t memory_count;
};

/* What is fused, and which gradients pass their memory on, freed by the caller; then every node's
 * buffers. */
ls_status ls_net_plan(const ls_net_options *options, net_node **nodes);
ls_status ls_net_take_buffers(ls_net *net);

ls_status ls_net_allocate_nodes(const ls_graph *graph, net_node **out);

/* Memory that is released with the net. */
ls_status ls_net_allocate(void *net, ls_memory_use use, size_t bytes, void **out);

static inline size_t real_bytes_of(const ls_net_options *o)
{
    return o->kernels ? o->kernels->table->real_bytes : sizeof(float);
}

/* Bytes of a stored element: of a node's output; of its gradient; of the gradient of its input i,
 * which its backward pass writes; of a parameter. */
size_t ls_net_stored_bytes(const ls_net_options *options, int node);
size_t ls_net_gradient_bytes(const ls_net_options *options, int node);
size_t ls_net_given_bytes(const ls_net_options *options, int node, int i);
static inline size_t ls_net_parameter_bytes(const ls_net_options *o)
{
    return o->precision == LS_PRECISION_BF16 ? sizeof(uint16_t) : real_bytes_of(o);
}

/* Bytes of unshared scratch that a net needs, for the largest node; 0 if there is none. */
size_t ls_net_scratch_bytes(const ls_net_options *options);

typedef ls_status (*ls_layer_make)(const ls_layer_site *site, ls_op_list *ops);

/* Appends a pass of a node: what `make` makes. Stored values that it reads are widened before, and
 * stored values that it writes are rounded after. */
ls_status ls_net_put(ls_net *net, int node, bool backward, ls_layer_make make, ls_op_list *ops);

/* Appends the addition of a further use's gradient to the sum of earlier uses. */
ls_status ls_net_add_use(ls_net *net, int node, const void *gradient, ls_op_list *ops);

/* Whether a node is a ReLU that the layer before it computes. A layer that masks it by itself would
 * not take over choices. */
bool ls_net_fuses_relu(const ls_net_options *options, int node);

/* Appends what notes the net's choices (choices.h), or, if choices are noted already, takes over
 * the first rows' choices. The net's forward pass comes before, its backward pass after it. */
ls_status ls_net_append_choices(const ls_net *net, ls_op_list *ops);

/* Appends what notes or takes over a node's output, or gradient, if choices ask for values. */
ls_status ls_net_append_values(const ls_net *net, int node, bool gradient, ls_op_list *ops);

/* Appends sum += part, both real [count]. */
ls_status ls_net_append_add(ls_net *net, void *sum, const void *part, int64_t count,
                            ls_op_list *ops);

/* Whether operations touch memory, or `writes` it. */
bool ls_net_touches(const ls_op_list *ops, const void *memory, size_t bytes, bool writes);

/* The nodes that a net has. */
static inline int ls_net_begin(const ls_net_options *o)
{
    return (int)o->nodes.first;
}
static inline int ls_net_end(const ls_net_options *o)
{
    return o->nodes.count ? (int)(o->nodes.first + o->nodes.count) : o->graph->count;
}

static inline const ls_node *graph_node(const ls_net *net, int n)
{
    return &net->options.graph->nodes[n];
}

/* What a node keeps from forward to backward besides its output. */
static inline size_t kept_bytes(const ls_net_options *o, int n)
{
    const ls_node *node = &o->graph->nodes[n];
    return node->layer->kept_bytes
               ? node->layer->kept_bytes(o->graph, node, o->rows, real_bytes_of(o))
               : 0;
}

/* What a node drops; all zero: nothing. */
static inline ls_repeat repeat_of(const ls_net_options *options, int n)
{
    return options->repeats ? options->repeats[n] : (ls_repeat){0};
}

static inline int64_t node_elements(const ls_net_options *o, int n)
{
    return o->rows * ls_shape_elements(&o->graph->nodes[n].shape);
}

/* Bytes of a node's output, or of its gradient. */
static inline size_t node_bytes(const ls_net_options *o, int n)
{
    return (size_t)node_elements(o, n) * ls_net_stored_bytes(o, n);
}
