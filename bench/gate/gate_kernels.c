/* SPDX-License-Identifier: MIT */
/*
 * Gate of kernels. Candidate and judges use the same fast kernels, so only the table `reference` in
 * plain C, which defines the operations, shows errors in them. Both compute gradients of the first
 * batch's first samples from the initial parameters. The fast kernels run with as many rows as in
 * the case, by repeating the samples; plain C runs each sample once, on a CPU device. The mean
 * gradient is the same. With dropout, which no two rows have alike, both run the same few samples
 * once. Moving statistics of batch normalisation depend on the number of rows, and are left out.
 * Neither rounds to bfloat16; where a case does, the fast kernels with rounding are compared with
 * plain C in double without. Kinks decide alike in both (choices.h): a unit near 0 changes a
 * gradient by a jump, however small the rounding error. The result is kept per command (write_key).
 */
#include "bench/gate/gate.h"

#include "bench/case/case_plan.h"
#include "bench/train/world.h"
#include "common/base/grow.h"
#include "common/comm/sum_order.h"
#include "common/kernel/reference/step_ops.h"
#include "common/nn/choices.h"
#include "common/nn/repeat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rounding difference can flip a ReLU. How many flip is in proportion to the difference, and the
 * gradient changes by the root of their share. TF32 rounds to 2^-11 instead of 2^-24: with 4096
 * units in each of two layers the gradient changed by 3e-2 on an H100. */
static double bound_of(const ls_plan_of_case *plan)
{
    return plan->job.kernels.math == LS_MATH_TF32 ? 1e-1 : 2e-2;
}
/* Bounds of rounding to bfloat16, whose unit is 4e-3: of the whole gradient, and of one layer's,
 * fed with what the layers next to it have rounded. Whole gradients with random values: mlp, cnn,
 * cifar10 3e-3 to 8e-3, gpt 1e-2 to 3e-2, resnet:8 2e-2, resnet:20 5e-2, resnet:56 0.17, since
 * batch normalisation divides what layers before it have rounded; a bias of few outputs 0.17, since
 * its addends cancel. Layers of all of them: 2e-3, of a few values 3e-3. */
static const double precision_bound = 5e-2, layer_bound = 1e-2;
/* Operations that plain C computes in under half a second on a slow core. One sample of a deep
 * model may exceed it. */
static const double reference_flops = 2.5e8;
/* FLOPs of a comparison of rounding, whose errors are smaller, and vary less, in a sum over more
 * samples. */
static const double precision_flops = 1e9;
enum { MOST_SAMPLES = 32 };
/* Bound of losses' differences along the gradient: it covers higher derivatives, kinks of ReLU and
 * rounding. */
static const double slope_bound = 0.03;

/* How far two gradients are apart. */
typedef struct distance {
    double max_rel;
    char worst[64]; /* variable with the largest difference */
} distance;

enum { KEY_SIZE = LS_MODEL_TEXT + 800 };

/* The result for all cases with the same key. */
typedef struct ls_kernels_known {
    char key[KEY_SIZE];
    distance kernels, precision; /* fast against plain C; rounded to bfloat16 against not */
    bool layers;                 /* `precision` compares one layer at a time */
    bool output;                 /* its worst is a layer's output, not a gradient */
    double slope; /* the loss's change along the gradient over the gradient's; 0 if unknown */
    char words[160];
    struct ls_kernels_known *next;
} known;

/* ---- Gradients ------------------------------------------------------------------------------ */

/* Computes the first step's gradient of `single` on `rows` rows of the data, by the device's own
 * table of kernels, or by `table` on a CPU. */
static ls_status compute(const ls_workplace *workplace, const ls_plan_of_case *plan,
                         const ls_first_samples *samples, int64_t rows,
                         const ls_kernel_table *table, ls_precision precision, float *gradient,
                         double *loss)
{
    ls_plan_of_case one = ls_first_samples_plan(plan, samples);
    ls_device_name cpu = {.kind = LS_DEVICE_CPU, .logical = -1, .replica = -1, .task = -1};
    if (table && plan->devices->kind != LS_DEVICE_CPU)
        one.devices = &cpu;
    one.job.kernels.math = table ? LS_MATH_FLOAT32 : plan->job.kernels.math;
    one.job.kernels.precision = precision;
    one.job.kernels.table = table;
    one.job.batch = rows;
    one.job.exact.on = one.job.exchange.sync_statistics = false;
    one.job.kernels.capture = !one.job.kernels.choices; /* noting them reads a GPU's memory */
    if (plan->model->dropout > 0) /* find_slope needs the loss's own gradient */
        one.job.update.clip = 0;
    return ls_gate_whole(workplace, &one, gradient, loss);
}

static distance compare(const ls_variables *variables, const float *a, const float *b,
                        double products)
{
    distance all = {0};
    for (size_t i = 0; i < variables->count; i++) {
        const ls_variable *v = &variables->items[i];
        const double d = v->keep != 0 ? 0 : ls_variable_distance(v, a, b, products);
        if (d <= all.max_rel)
            continue;
        all.max_rel = d;
        snprintf(all.worst, sizeof all.worst, "%.63s", v->name);
    }
    return all;
}

static bool is_its_slope(const known *k)
{
    return fabs(k->slope - 1) <= slope_bound;
}

/* Moves the parameters to a point near by where no pre-activation is 0: at ReLU's kink, where zero
 * biases put a unit whose inputs are all 0, a gradient is not the loss's slope. */
static void step_aside(float *parameters, size_t elements)
{
    static const double golden = 0.6180339887498949;
    double squares = 0;
    for (size_t i = 0; i < elements; i++)
        squares += (double)parameters[i] * parameters[i];
    const double most = 0.1 * sqrt(squares / (double)elements);
    for (size_t i = 0; i < elements; i++)
        parameters[i] = (float)(parameters[i] + most * (2 * fmod((double)i * golden, 1) - 1));
}

/* All judges use the same layers, so only a difference of losses shows that a backward pass is not
 * the derivative of its forward pass: between two points that the gradient joins, as far from a
 * third as changes the loss by a part of it. Points on two sides of a kink give another slope, so
 * nearer ones are tried, too, as long as rounding allows. Changes the samples' parameters.
 * `gradient` and `unused` have room for all variables. */
static ls_status find_slope(const ls_workplace *workplace, const ls_plan_of_case *plan,
                            ls_first_samples *samples, int64_t rows, float *gradient, float *unused,
                            known *k)
{
    static const double parts[] = {3e-4, 1e-4, 3e-5};
    const size_t elements = plan->model->graph->variables.elements;
    double squares = 0, size = 0, loss, losses[2] = {0};
    step_aside(samples->initial, elements);
    LS_TRY(compute(workplace, plan, samples, rows, NULL, LS_PRECISION_FLOAT32, gradient, &loss));
    for (size_t i = 0; i < elements; i++) {
        squares += (double)gradient[i] * gradient[i];
        size += (double)samples->initial[i] * samples->initial[i];
    }
    const double furthest = parts[0] * loss / squares;
    /* Near a minimum the points would be too far apart for a straight line. */
    if (!(furthest > 0 && furthest * furthest * squares <= 1e-4 * size))
        return LS_OK;
    ls_first_samples moved = *samples;
    ls_status status = ls_allocate("gate", &moved.initial, elements, sizeof *moved.initial);
    for (size_t p = 0; p < sizeof parts / sizeof *parts && !status && !is_its_slope(k); p++) {
        const double step = parts[p] * loss / squares;
        for (int side = 0; side < 2 && !status; side++) {
            for (size_t i = 0; i < elements; i++)
                moved.initial[i] =
                    (float)(samples->initial[i] + (side ? -step : step) * (double)gradient[i]);
            status = compute(workplace, plan, &moved, rows, NULL, LS_PRECISION_FLOAT32, unused,
                             &losses[side]);
        }
        k->slope = (losses[0] - losses[1]) / (2 * step * squares);
    }
    free(moved.initial);
    return status;
}

/* ---- The check ------------------------------------------------------------------------------ */

/* The most samples that fit into the time. */
static int64_t fitting(const ls_plan_of_case *plan, double flops)
{
    const double most = flops / (ls_graph_flops(plan->model->graph) + 1);
    const int64_t there = (int64_t)plan->job.data->train.samples;
    const int64_t count = most < MOST_SAMPLES ? (int64_t)most : MOST_SAMPLES;
    return count < 1 ? 1 : count < there ? count : there;
}

/* Rows that the fast kernels compute at once: the whole batch, or one slice if slices have batch
 * statistics or separate updates. With dropout no row represents another, since each drops others:
 * both tables compute as many as fit. */
static int64_t rows_of(const ls_plan_of_case *plan)
{
    const ls_job *job = &plan->job;
    const int64_t samples = (int64_t)job->data->train.samples, parts = ls_job_parts(job);
    const int64_t batch = job->sampling.epochs && samples < job->batch ? samples : job->batch;
    const bool divided = ls_sync_bn_is_own(plan) || ls_ps_by_arrival(&job->ps);
    const int64_t rows = divided && batch > parts ? batch / parts : batch;
    return plan->model->dropout > 0 && fitting(plan, reference_flops) < rows
               ? fitting(plan, reference_flops)
               : rows;
}

/* The most samples that fit into the time and divide the rows evenly. */
static int64_t samples_of(const ls_plan_of_case *plan, int64_t rows, double flops)
{
    int64_t count = fitting(plan, flops);
    while (count > 1 && rows % count)
        count--;
    return plan->model->dropout > 0 ? rows : count;
}

/* What the result depends on. */
static void write_key(const ls_plan_of_case *plan, int64_t rows, char key[KEY_SIZE])
{
    const ls_case *c = plan->config;
    snprintf(key, KEY_SIZE, "%s|%s|%lld %llu %d %a %d %d %d %d %a %d", c->model, c->data,
             (long long)rows, (unsigned long long)c->seed, c->shuffle, c->clip, (int)c->math,
             (int)c->precision, (int)c->convolution, (int)plan->devices->kind, plan->model->dropout,
             plan->job.sampling.ragged);
}

/* Computes both gradients and compares them. `again`: with lifted samples, and a larger bound for
 * values that may have been flushed to zero. */
static ls_status find_out(const ls_workplace *workplace, const ls_plan_of_case *plan, bool again,
                          known *k)
{
    const ls_variables *variables = &plan->model->graph->variables;
    const int64_t rows = rows_of(plan), count = samples_of(plan, rows, reference_flops);
    ls_closing(ls_first_samples_close) ls_first_samples samples = {0};
    ls_auto float *fast = NULL;
    double loss = 0;
    LS_TRY(ls_first_samples_open(plan, (size_t)count, again, &samples));
    LS_TRY(ls_allocate("gate", &fast, 2 * variables->elements + 1, sizeof *fast));
    float *plain = fast + variables->elements;
    LS_TRY(compute(workplace, plan, &samples, count, &ls_reference_kernels, LS_PRECISION_FLOAT32,
                   plain, &loss));
    LS_TRY(compute(workplace, plan, &samples, rows, NULL, LS_PRECISION_FLOAT32, fast, &loss));
    k->kernels = compare(variables, fast, plain, again ? ls_gate_products(plan, rows) : 0);
    if (!again && plan->model->dropout > 0 && plan->job.kernels.math != LS_MATH_TF32)
        LS_TRY(find_slope(workplace, plan, &samples, rows, fast, plain, k));
    snprintf(k->words, sizeof k->words,
             "gradients of %lld of the first batch's samples%s: table %s, in a batch of %lld, "
             "with table %s (plain C)",
             (long long)count, samples.lifted ? ", lifted" : "",
             ls_kernel_table_default(plan->devices->kind)->name, (long long)rows,
             ls_reference_kernels.name);
    return LS_OK;
}

/* What rounding to bfloat16 changes in the gradient of the first samples; `layers`: in each layer's
 * output and gradients, from copies of the parameters. */
static ls_status find_precision(const ls_workplace *workplace, const ls_plan_of_case *plan,
                                bool layers, known *k)
{
    const ls_variables *variables = &plan->model->graph->variables;
    const int64_t rows = rows_of(plan), count = samples_of(plan, rows, precision_flops);
    ls_plan_of_case with = *plan;
    ls_closing(ls_choices_close) ls_choices choices = {.rows = layers ? count : 0};
    ls_closing(ls_first_samples_close) ls_first_samples samples = {0};
    ls_auto float *rounded = NULL;
    double loss;
    with.job.kernels.choices = &choices;
    with.job.drops = LS_REPEAT_NONE;
    LS_TRY(ls_first_samples_open(plan, (size_t)count, false, &samples));
    LS_TRY(ls_allocate("gate", &rounded, 2 * variables->elements + 1, sizeof *rounded));
    float *exact = rounded + variables->elements;
    for (size_t i = 0; i < variables->elements && layers; i++)
        samples.initial[i] = ls_nearest_bf16(samples.initial[i]);
    LS_TRY(compute(workplace, &with, &samples, rows, NULL, LS_PRECISION_BF16, rounded, &loss));
    LS_TRY(compute(workplace, &with, &samples, count, &ls_reference64_kernels, LS_PRECISION_FLOAT32,
                   exact, &loss));
    k->precision = compare(variables, rounded, exact, 0);
    k->output = choices.distance > k->precision.max_rel;
    if (k->output) {
        k->precision.max_rel = choices.distance;
        memcpy(k->precision.worst, choices.worst, sizeof k->precision.worst);
    }
    return LS_OK;
}

static ls_status get(ls_workplace *workplace, const ls_plan_of_case *plan, const known **out)
{
    char key[KEY_SIZE];
    write_key(plan, rows_of(plan), key);
    for (known *k = workplace->kernels; k; k = k->next) {
        *out = k;
        if (strcmp(k->key, key) == 0)
            return LS_OK;
    }
    known *k;
    LS_TRY(ls_allocate("gate", &k, 1, sizeof *k));
    memcpy(k->key, key, sizeof key);
    ls_status status = find_out(workplace, plan, false, k);
    if (!status && !(k->kernels.max_rel <= bound_of(plan)))
        status = find_out(workplace, plan, true, k);
    if (!status && plan->job.kernels.precision == LS_PRECISION_BF16)
        status = find_precision(workplace, plan, false, k);
    if (!status && !(k->precision.max_rel <= precision_bound)) {
        k->layers = true;
        snprintf(k->words + strlen(k->words), sizeof k->words - strlen(k->words),
                 "; rounding layer by layer");
        status = find_precision(workplace, plan, true, k);
    }
    if (status) {
        free(k);
        return status;
    }
    k->next = workplace->kernels;
    workplace->kernels = k;
    *out = k;
    return LS_OK;
}

static ls_status judge(ls_workplace *workplace, const ls_plan_of_case *plan, ls_gate *gate)
{
    const known *k;
    char by[LS_GATE_BY];
    LS_TRY(get(workplace, plan, &k));
    const double precise = k->layers ? layer_bound : precision_bound;
    gate->kernels_rel = k->kernels.max_rel;
    if (plan->job.kernels.precision != LS_PRECISION_FLOAT32)
        gate->precision_rel = k->precision.max_rel;
    snprintf(gate->kernels_compared, sizeof gate->kernels_compared, "%s", k->words);
    if (!(k->kernels.max_rel <= bound_of(plan)))
        ls_gate_wrong(gate,
                      "kernels: the first gradient of %s differs from the gradient of plain C "
                      "kernels%s",
                      k->kernels.worst, ls_gate_difference(k->kernels.max_rel, bound_of(plan), by));
    else if (!(k->precision.max_rel <= precise))
        ls_gate_wrong(gate, "precision: %s%s differs from the same computation in float64%s",
                      !k->layers  ? "the first gradient of "
                      : k->output ? "layer by layer, the "
                                  : "layer by layer, the gradient of ",
                      k->precision.worst, ls_gate_difference(k->precision.max_rel, precise, by));
    else if (k->slope != 0 && !is_its_slope(k))
        ls_gate_wrong(
            gate,
            "kernels: the first gradient is wrong: a small step along the gradient changes the "
            "loss by %.3g times what the gradient predicts; allowed is 1 +- %g",
            k->slope, slope_bound);
    return LS_OK;
}

ls_status ls_gate_kernels(ls_workplace *workplace, const ls_plan_of_case *plan, ls_gate *gate)
{
    ls_comm *comm = plan->job.ranks.comm;
    ls_status status = LS_OK;
    if (!gate->pass || *gate->diverged)
        return LS_OK;
    if (!comm || comm->rank == 0)
        status = judge(workplace, plan, gate);
    LS_TRY(ls_world_agree(comm, status));
    return ls_gate_agree(comm, gate);
}

void ls_gate_kernels_close(ls_workplace *workplace)
{
    while (workplace->kernels) {
        known *k = workplace->kernels;
        workplace->kernels = k->next;
        free(k);
    }
}
