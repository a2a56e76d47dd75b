/* SPDX-License-Identifier: MIT */
/*
 * Compares layers with the reference; see micro_judge.h. Both get the same bits. An element is
 * wrong if it differs by more than `tolerance` times the sum of its magnitude and the root mean
 * square of its tensor. Layers without counted work (graph.h) are cheap and may combine rows: they
 * are computed for all rows.
 */
#include "bench/micro/micro_judge.h"

#include "common/base/grow.h"
#include "common/base/random/philox.h"
#include "common/nn/layer.h"
#include "common/nn/net_nodes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double tolerance = 2e-4;
static const double most_flops = 2e8; /* of a layer, for the reference */

struct ls_micro_judge {
    ls_device *device;
    ls_queue *queue;
    ls_kernels *kernels;
};

ls_status ls_micro_judge_open(const ls_machine *machine, ls_micro_judge **out)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_device_name name = {.kind = LS_DEVICE_CPU};
    const ls_kernel_table *table = NULL;
    ls_micro_judge *judge;
    LS_TRY(ls_allocate("layers", &judge, 1, sizeof *judge));
    ls_status status = ls_kernel_table_find("reference", &table);
    if (!status)
        status = ls_device_open(machine, &name, &policy, &judge->device);
    if (!status)
        status = ls_queue_open(judge->device, "judge", &judge->queue);
    if (!status)
        status = table->open(judge->device, &judge->kernels);
    if (status) {
        ls_micro_judge_close(judge);
        return status;
    }
    *out = judge;
    return LS_OK;
}

void ls_micro_judge_close(ls_micro_judge *judge)
{
    if (!judge)
        return;
    ls_queue_close(judge->queue);
    if (judge->kernels)
        judge->kernels->table->close(judge->kernels);
    ls_device_close(judge->device);
    free(judge);
}

/* ---- Tensors on both sides ------------------------------------------------------------------ */

enum { TENSORS = 24 };

/* A tensor of [rows, width] elements: the device's, a host copy, and the reference's rows. */
typedef struct tensor {
    void *device;
    void *host;      /* [all rows] as sent to the device */
    void *reference; /* [picked rows] */
    int64_t width;
    bool of_rows;  /* otherwise of the whole: variables, the loss */
    bool is_loss;  /* one double */
    int judged_as; /* 0 means output; 1 means gradient; -1 if not compared */
} tensor;

typedef struct trial {
    ls_micro_judge *judge;
    ls_net *net;
    ls_queue *queue;
    const ls_graph *graph;
    const ls_node *node;
    ls_layer_site site, reference;
    int64_t rows, picked;
    tensor tensors[TENSORS];
    int count;
    void *kept;
    ls_op_list forward, backward;
} trial;

static int64_t picked_row(const trial *t, int64_t r)
{
    return t->picked == t->rows ? r : r * (t->rows - 1) / (t->picked - 1);
}

static size_t row_bytes(const tensor *x)
{
    return (size_t)x->width * (x->is_loss ? sizeof(double) : sizeof(float));
}

static size_t all_bytes(const trial *t, const tensor *x)
{
    return row_bytes(x) * (size_t)(x->of_rows ? t->rows : 1);
}

/* Host copies of both sizes, zero. NULL if there is no such tensor, or no memory. */
static tensor *add_tensor(trial *t, void *device, int64_t width, bool of_rows, int judged_as)
{
    if (!device || t->count == TENSORS)
        return NULL;
    tensor *x = &t->tensors[t->count++];
    *x = (tensor){.device = device, .width = width, .of_rows = of_rows, .judged_as = judged_as};
    x->host = calloc(1, all_bytes(t, x) + sizeof(double));
    x->reference = calloc(1, row_bytes(x) * (size_t)(of_rows ? t->picked : 1) + sizeof(double));
    return x->host && x->reference ? x : NULL; /* open_reference reports that */
}

static void *reference_of(const tensor *x)
{
    return x ? x->reference : NULL;
}

static ls_status send(trial *t, const tensor *x)
{
    return ls_queue_write(t->queue, x->device, x->host, all_bytes(t, x));
}

/* Fills the values of the picked rows only, or of all. */
static void fill_rows(const trial *t, const tensor *x, unsigned salt, float low, bool all)
{
    float *host = x->host;
    const ls_random random = ls_random_stream(salt + 1, "layers");
    for (int64_t r = 0; r < (all ? t->rows : t->picked); r++) {
        const int64_t row = all ? r : picked_row(t, r);
        ls_random_fill(random, (uint64_t)(row * x->width), (uint64_t)x->width, low, 0.5f,
                       host + row * x->width);
    }
}

static void gather_rows(const trial *t, const tensor *x)
{
    for (int64_t r = 0; r < (x->of_rows ? t->picked : 1); r++)
        memcpy((char *)x->reference + (size_t)r * row_bytes(x),
               (char *)x->host + (size_t)(x->of_rows ? picked_row(t, r) : 0) * row_bytes(x),
               row_bytes(x));
}

/* ---- One node ------------------------------------------------------------------------------- */

static void add_inputs(trial *t)
{
    for (int i = 0; i < t->node->input_count; i++) {
        const int64_t width = ls_shape_elements(&t->site.input_node[i]->shape);
        const bool relu = strcmp(t->site.input_node[i]->layer->name, "relu") == 0;
        tensor *x = add_tensor(t, t->site.input[i], width, true, -1);
        if (!x)
            continue;
        fill_rows(t, x, (unsigned)i, -0.5f, true);
        for (int64_t e = 0; t->node->options.tokens && e < t->rows * width; e++)
            ((float *)x->host)[e] = (float)(e * 7 % t->node->options.tokens);
        for (int64_t e = 0; relu && e < t->rows * width; e++)
            ((float *)x->host)[e] = fmaxf(((float *)x->host)[e], 0);
        t->reference.input[i] = x->reference;
    }
    if (t->site.input_relu)
        t->reference.input_relu = t->reference.input[0];
}

/* The model's initial values; if all elements are equal they are changed a little, so that errors
 * show. */
static void fill_variable(const trial *t, const tensor *x, const ls_variable *variable)
{
    const size_t elements = t->graph->variables.elements;
    ls_auto float *first = calloc(elements + variable->count + 1, sizeof *first);
    if (!first)
        return;
    float *moved = first + elements, *host = x->host;
    ls_variables_initialize(&t->graph->variables, 1, first);
    if (variable->initializer != LS_INITIALIZER_GLOROT_UNIFORM)
        ls_random_fill(ls_random_stream(8, "layers"), 0, variable->count, -0.2f, 0.2f, moved);
    for (size_t i = 0; i < variable->count; i++)
        host[i] = first[variable->offset + i] + moved[i];
}

static void add_variables(trial *t)
{
    for (int v = 0; v < t->node->variable_count; v++) {
        const ls_variable *variable = &t->graph->variables.items[t->node->variables[v]];
        const int64_t count = (int64_t)variable->count;
        tensor *x = add_tensor(t, (void *)(uintptr_t)t->site.variable[v], count, false, -1);
        if (x)
            fill_variable(t, x, variable);
        t->reference.variable[v] = reference_of(x);
        t->reference.variable_gradient[v] =
            reference_of(add_tensor(t, t->site.variable_gradient[v], count, false, 1));
    }
}

static void add_target(trial *t, int64_t width)
{
    tensor *x = NULL;
    if (t->node->layer->integer_target) {
        const int64_t labels = ls_shape_positions(&t->node->shape), classes = width / labels;
        x = add_tensor(t, t->site.target, labels, true, -1);
        for (int64_t r = 0; x && r < t->rows * labels; r++)
            ((int32_t *)x->host)[r] = (int32_t)(r * 7 % (classes > 1 ? classes : 2));
    } else {
        x = add_tensor(t, t->site.target, width, true, -1);
        if (x)
            fill_rows(t, x, 9, -0.5f, true);
    }
    t->reference.target = reference_of(x);
    tensor *loss = add_tensor(t, t->site.loss, 1, false, 0);
    if (loss)
        loss->is_loss = true;
    t->reference.loss = reference_of(loss);
}

/* Adds and fills all tensors; the output's gradient last, so that it remains if gradients of a
 * ReLU or of an addition share a buffer. */
static void add_tensors(trial *t)
{
    const bool loss = t->node->layer->role == LS_LAYER_LOSS;
    const int64_t width = ls_shape_elements(&t->node->shape);
    add_inputs(t);
    add_variables(t);
    if (loss)
        add_target(t, width);
    else if (t->site.output != t->site.input[0])
        t->reference.output = reference_of(add_tensor(t, t->site.output, width, true, 0));
    else
        t->reference.output = t->reference.input[0];
    for (int i = 0; i < t->node->input_count; i++)
        t->reference.input_gradient[i] = reference_of(
            add_tensor(t, t->site.input_gradient[i],
                       ls_shape_elements(&t->site.input_node[i]->shape), true, loss ? 0 : 1));
    tensor *dy = loss ? NULL : add_tensor(t, t->site.output_gradient, width, true, -1);
    if (dy)
        fill_rows(t, dy, 5, -0.5f, false);
    t->reference.output_gradient = reference_of(dy);
}

static ls_status open_reference(trial *t)
{
    const ls_layer *layer = t->node->layer;
    for (int i = 0; i < t->count; i++) {
        if (!t->tensors[i].host || !t->tensors[i].reference)
            return ls_fail_memory("layers", all_bytes(t, &t->tensors[i]));
        gather_rows(t, &t->tensors[i]);
    }
    t->reference.kernels = t->judge->kernels;
    t->reference.rows = t->picked;
    size_t kept =
        layer->kept_bytes ? layer->kept_bytes(t->graph, t->node, t->picked, sizeof(float)) : 0;
    LS_TRY(ls_allocate("layers", &t->kept, kept, 1));
    t->reference.kept = t->kept;
    if (ls_net_node_ops(t->net, (int)(t->node - t->graph->nodes), false)->count)
        LS_TRY(ls_layer_forward(&t->reference, &t->forward));
    if (ls_net_node_ops(t->net, (int)(t->node - t->graph->nodes), true)->count)
        LS_TRY(ls_layer_backward(&t->reference, &t->backward));
    return LS_OK;
}

static ls_status run_both(trial *t)
{
    const int n = (int)(t->node - t->graph->nodes);
    for (int i = 0; i < t->count; i++)
        LS_TRY(send(t, &t->tensors[i]));
    for (int backward = 0; backward < 2; backward++) {
        LS_TRY(ls_op_list_enqueue(ls_net_node_ops(t->net, n, backward), t->queue));
        LS_TRY(ls_op_list_enqueue(backward ? &t->backward : &t->forward, t->judge->queue));
    }
    LS_TRY(ls_queue_sync(t->queue));
    return ls_queue_sync(t->judge->queue);
}

static bool differs(double a, double b, double rms)
{
    return !(fabs(a - b) <= tolerance * (fabs(b) + rms)); /* NaN counts as different */
}

/* For float tensors: picked rows against the reference, other rows' gradients against 0. */
static uint64_t count_floats(const trial *t, const tensor *x)
{
    const float *got = x->host, *reference = x->reference;
    const int64_t rows = x->of_rows ? t->picked : 1;
    double squares = 0;
    uint64_t wrong = 0;
    for (int64_t i = 0; i < rows * x->width; i++)
        squares += (double)reference[i] * reference[i];
    const double rms = sqrt(squares / fmax((double)(rows * x->width), 1));
    for (int64_t r = 0, row = 0; r < rows; r++, row++) {
        const int64_t at = x->of_rows ? picked_row(t, r) : 0;
        for (; x->judged_as == 1 && row < at; row++)
            for (int64_t i = 0; i < x->width; i++)
                wrong += got[row * x->width + i] != 0;
        for (int64_t i = 0; i < x->width; i++)
            wrong += differs(got[at * x->width + i], reference[r * x->width + i], rms);
        row = at;
    }
    return wrong;
}

static ls_status judge_tensors(trial *t, uint64_t wrong[2])
{
    for (int i = 0; i < t->count; i++) {
        const tensor *x = &t->tensors[i];
        if (x->judged_as < 0)
            continue;
        LS_TRY(ls_queue_read(t->queue, x->host, x->device, all_bytes(t, x)));
        if (x->is_loss)
            wrong[x->judged_as] +=
                differs(*(double *)x->host, *(double *)x->reference, 1 / (double)t->rows);
        else
            wrong[x->judged_as] += count_floats(t, x);
    }
    return LS_OK;
}

/* Gives all rows a gradient, and runs forward, so that the layer can be timed next. */
static ls_status leave_full(trial *t)
{
    const int n = (int)(t->node - t->graph->nodes);
    tensor *dy = t->tensors + t->count - 1;
    if (t->node->layer->role == LS_LAYER_COMPUTE && dy->device == t->site.output_gradient) {
        fill_rows(t, dy, 5, -0.5f, true);
        LS_TRY(send(t, dy));
    }
    LS_TRY(ls_op_list_enqueue(ls_net_node_ops(t->net, n, false), t->queue));
    return ls_queue_sync(t->queue);
}

ls_status ls_micro_judge_node(ls_micro_judge *judge, ls_net *net, int n, ls_queue *queue,
                              uint64_t wrong[2])
{
    trial t = {.judge = judge, .net = net, .queue = queue, .site = ls_net_site(net, n)};
    wrong[0] = wrong[1] = 0;
    if (t.site.node->layer->role == LS_LAYER_INPUT)
        return LS_OK;
    t.graph = t.site.graph;
    t.node = t.site.node;
    t.rows = t.picked = t.site.rows;
    t.reference = t.site;
    const double flops = ls_graph_node_flops(t.graph, n);
    if (flops > 0 && flops * (double)t.rows > most_flops && t.rows > 2)
        t.picked = (int64_t)fmin(fmax(most_flops / flops, 2), (double)t.rows);
    add_tensors(&t);
    ls_status status = open_reference(&t);
    if (!status)
        status = run_both(&t);
    if (!status)
        status = judge_tensors(&t, wrong);
    if (!status)
        status = leave_full(&t);
    ls_op_list_clear(&t.forward);
    ls_op_list_clear(&t.backward);
    free(t.kept);
    for (int i = 0; i < t.count; i++) {
        free(t.tensors[i].host);
        free(t.tensors[i].reference);
    }
    return status;
}
