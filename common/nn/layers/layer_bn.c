/* SPDX-License-Identifier: MIT */
/*
 * Batch normalisation of an image's channels (Ioffe and Szegedy 2015), with a residual network's
 * shortcut and ReLU: y = relu(weight * (x - mean) / sqrt(variance + epsilon) + bias + z). The
 * second input, z, may be absent. Mean and variance come from this part of the batch, or from the
 * whole batch if the site is `synced`: between the two halves the caller then adds all parts' sums.
 * Variables: weight, bias; mean and variance: moving statistics for evaluation, in each step 0.9 of
 * themselves plus 0.1 of the batch's (its variance over n - 1), as in PyTorch. A part of the batch
 * writes its share of the statistics in place of a gradient, so that shares are summed like
 * gradients. Kept: the sums of forward and of backward, double [2,2,C], then the moments, real
 * [2,C].
 */
#include "common/nn/layers.h"

static const double epsilon = 1e-5, keep = 0.9;

enum { WEIGHT, BIAS, MEAN, VARIANCE };

static ls_status infer(ls_graph *graph, ls_node *node)
{
    const ls_shape *x = &graph->nodes[node->inputs[0]].shape;
    const ls_shape *z = node->input_count > 1 ? &graph->nodes[node->inputs[1]].shape : x;
    if (x->rank != 3 || z->rank != 3 || ls_shape_elements(x) < 1)
        return ls_layer_refuse_input("bn", "an image, [height, width, channels]");
    for (int i = 0; i < 3; i++)
        if (x->size[i] != z->size[i])
            return ls_fail(
                LS_CODE_USAGE, "graph", "bn",
                "the two inputs of this layer must have the same shape; change either input");
    if (node->shares >= 0)
        return ls_fail(
            LS_CODE_USAGE, "graph", "bn",
            "this layer has moving statistics, which two layers cannot share; remove `shares:`");
    node->shape = *x;
    const ls_variable one = {.rank = 1, .shape = {x->size[2]}, .initializer = LS_INITIALIZER_ONE};
    ls_variable variable = one;
    LS_TRY(ls_graph_variable(graph, node, "weight", &variable));
    variable.initializer = LS_INITIALIZER_ZERO;
    LS_TRY(ls_graph_variable(graph, node, "bias", &variable));
    variable.keep = keep;
    LS_TRY(ls_graph_variable(graph, node, "mean", &variable));
    variable.initializer = LS_INITIALIZER_ONE;
    return ls_graph_variable(graph, node, "variance", &variable);
}

static size_t kept_bytes(const ls_graph *graph, const ls_node *node, int64_t rows,
                         size_t real_bytes)
{
    (void)graph;
    (void)rows;
    return (size_t)node->shape.size[2] * (4 * sizeof(double) + 2 * real_bytes);
}

/* ---- What the operations work on ------------------------------------------------------------ */

static int64_t channels_of(const ls_layer_site *site)
{
    return site->node->shape.size[2];
}

static int64_t pixels_in(const ls_layer_site *site, int64_t rows)
{
    return rows * site->node->shape.size[0] * site->node->shape.size[1];
}

/* Number of pixels for the statistics; any number if there is no row. */
static int64_t count_of(const ls_layer_site *site)
{
    const int64_t rows = site->synced ? site->batch : site->rows;
    return pixels_in(site, rows > 0 ? rows : 1);
}

static double *sums_of(const ls_layer_site *site, bool backward)
{
    return (double *)site->kept + (backward ? 2 * channels_of(site) : 0);
}

static void *moments_of(const ls_layer_site *site)
{
    return (double *)site->kept + 4 * channels_of(site);
}

static double *sums(const ls_layer_site *site, bool backward, size_t *count)
{
    *count = 2 * (size_t)channels_of(site);
    return sums_of(site, backward);
}

static ls_activation activation_of(const ls_layer_site *site)
{
    return site->relu_follows ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE;
}

/* ---- Forward -------------------------------------------------------------------------------- */

/* The sums, and the moments unless other parts' sums must be added first. */
static ls_status forward(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_bn_sums_args args = {.pixels = pixels_in(site, site->rows),
                                  .channels = channels_of(site),
                                  .x = site->input[0],
                                  .sums = sums_of(site, false),
                                  .moments = site->synced ? NULL : moments_of(site),
                                  .epsilon = epsilon};
    return ls_layer_put_bn_sums(site, &args, ops);
}

static ls_status append_normalise(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_bn_forward_args args = {.pixels = pixels_in(site, site->rows),
                                     .channels = channels_of(site),
                                     .x = site->input[0],
                                     .moments = moments_of(site),
                                     .weight = site->variable[WEIGHT],
                                     .bias = site->variable[BIAS],
                                     .z = site->input[1],
                                     .y = site->output,
                                     .activation = activation_of(site)};
    return ls_layer_put_bn_forward(site, &args, ops);
}

static ls_status append_moments(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_bn_moments_args args = {.channels = channels_of(site),
                                     .count = count_of(site),
                                     .epsilon = epsilon,
                                     .sums = sums_of(site, false),
                                     .moments = moments_of(site)};
    return ls_layer_put_bn_moments(site, &args, ops);
}

static ls_status forward_rest(const ls_layer_site *site, ls_op_list *ops)
{
    if (site->synced)
        LS_TRY(append_moments(site, ops));
    return append_normalise(site, ops);
}

static ls_status predict(const ls_layer_site *site, ls_op_list *ops)
{
    const ls_bn_moving_moments_args args = {.channels = channels_of(site),
                                            .epsilon = epsilon,
                                            .mean = site->variable[MEAN],
                                            .variance = site->variable[VARIANCE],
                                            .moments = moments_of(site)};
    LS_TRY(ls_layer_put_bn_moving_moments(site, &args, ops));
    return append_normalise(site, ops);
}

/* ---- Backward ------------------------------------------------------------------------------- */

/* With a shortcut, the ReLU's mask needs the output, and the masked dy is the shortcut's gradient,
 * which the second half reads; if that gradient is not needed, the masked dy overwrites dy. This
 * part's share of the moving statistics is written only now: during forward, other pieces still
 * need the gradient buffer. */
static ls_status backward(const ls_layer_site *site, ls_op_list *ops)
{
    const bool shortcut = site->input[1] != NULL;
    const ls_bn_backward_sums_args args = {.pixels = pixels_in(site, site->rows),
                                           .channels = channels_of(site),
                                           .x = site->input[0],
                                           .moments = moments_of(site),
                                           .weight = site->variable[WEIGHT],
                                           .bias = site->variable[BIAS],
                                           .activation = activation_of(site),
                                           .y = shortcut ? site->output : NULL,
                                           .dy = site->output_gradient,
                                           .dz = !shortcut                 ? NULL
                                                 : site->input_gradient[1] ? site->input_gradient[1]
                                                                           : site->output_gradient,
                                           .sums = sums_of(site, true),
                                           .dweight = site->variable_gradient[WEIGHT],
                                           .dbias = site->variable_gradient[BIAS],
                                           .batch = sums_of(site, false),
                                           .count = count_of(site),
                                           .share = (double)site->rows * site->scale,
                                           .mean = site->variable_gradient[MEAN],
                                           .variance = site->variable_gradient[VARIANCE]};
    return ls_layer_put_bn_backward_sums(site, &args, ops);
}

static ls_status backward_rest(const ls_layer_site *site, ls_op_list *ops)
{
    const bool shortcut = site->input[1] != NULL;
    if (!site->input_gradient[0])
        return LS_OK;
    const ls_bn_backward_args args = {
        .pixels = pixels_in(site, site->rows),
        .channels = channels_of(site),
        .count = count_of(site),
        .x = site->input[0],
        .moments = moments_of(site),
        .weight = site->variable[WEIGHT],
        .bias = site->variable[BIAS],
        .activation = shortcut ? LS_ACTIVATION_NONE : activation_of(site),
        .sums = sums_of(site, true),
        .dy = shortcut && site->input_gradient[1] ? site->input_gradient[1] : site->output_gradient,
        .dx = site->input_gradient[0]};
    return ls_layer_put_bn_backward(site, &args, ops);
}

const ls_layer ls_layer_bn = {
    .name = "bn",
    .help = "batch normalisation of an image, plus an optional shortcut",
    .inputs = 1,
    .more_inputs = 1,
    .fuses_relu = true,
    .masks_relu = true,
    .reads = LS_READS_INPUT | LS_READS_OUTPUT,
    .infer = infer,
    .kept_bytes = kept_bytes,
    .forward = forward,
    .forward_rest = forward_rest,
    .again = append_normalise,
    .backward = backward,
    .backward_rest = backward_rest,
    .sums = sums,
    .predict = predict,
};
