/* SPDX-License-Identifier: MIT */
/*
 * The first samples of the first batch as a separate data set, for comparisons of gradients.
 *
 * Devices flush what is below the smallest normal number, 2^-126, and each kernel flushes at other
 * points: inside a fused sum, or not. For samples so small that products vanish, two correct
 * kernels make gradients, and signs at a ReLU, that differ by any amount. So a comparison that
 * exceeds its bound is repeated with such samples *lifted*: multiplied by a power of two. That
 * shows the same kernels at work where arithmetic can tell. What vanishes for other reasons, such
 * as the gradient of a loss near 0, is allowed for by the number of products (ls_model_distance).
 */
#include "bench/gate/gate.h"

#include "bench/case/workplace.h"
#include "bench/gate/oracle.h"
#include "bench/train/time_steps.h"
#include "common/base/grow.h"
#include "common/base/random/order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Lifts the values if they are small; returns whether. */
static bool lift(float *values, size_t count)
{
    static const float small = 0x1p-100f;
    float most = 0;
    int exponent;
    for (size_t i = 0; i < count; i++)
        most = fabsf(values[i]) > most ? fabsf(values[i]) : most;
    if (!(most > 0 && most < small))
        return false;
    frexpf(most, &exponent);
    for (size_t i = 0; i < count; i++)
        values[i] = ldexpf(values[i], -exponent);
    return true;
}

/* Copies rows of an array into separate memory. */
static ls_status pick(const ls_array *from, const uint32_t *numbers, size_t count, ls_array *to,
                      bool *lifted)
{
    const size_t bytes = (size_t)from->width *
                         (from->type == LS_ARRAY_FLOAT32 || from->type == LS_ARRAY_INT32 ? 4 : 1);
    const char *all = from->data;
    char *picked = NULL;
    if (!all)
        return LS_OK;
    LS_TRY(ls_allocate("gate", &picked, count, bytes));
    to->data = picked;
    for (size_t i = 0; i < count; i++) {
        memcpy(picked + i * bytes, all + numbers[i] * bytes, bytes);
        if (lifted && from->type == LS_ARRAY_FLOAT32)
            *lifted |= lift((float *)(picked + i * bytes), (size_t)from->width);
    }
    return LS_OK;
}

static ls_status pick_all(const ls_job *job, size_t count, bool lifts, ls_first_samples *out)
{
    const ls_split *from = &job->data->train;
    const ls_sample_order order = {from->samples, job->seed, job->sampling.shuffle};
    ls_order_epoch epoch = {.epoch = UINT64_MAX};
    ls_auto uint32_t *numbers = NULL;
    LS_TRY(ls_allocate("gate", &numbers, count, sizeof *numbers));
    ls_order_samples(&order, 0, count, &epoch, numbers);
    bool *lifted = lifts ? &out->lifted : NULL;
    LS_TRY(pick(&from->target, numbers, count, &out->data.train.target, lifted));
    for (int i = 0; i < LS_DATA_INPUTS; i++) /* even unused ones */
        LS_TRY(pick(&from->input[i], numbers, count, &out->data.train.input[i], lifted));
    return LS_OK;
}

ls_status ls_first_samples_open(const ls_plan_of_case *plan, size_t count, bool lifts,
                                ls_first_samples *out)
{
    const ls_variables *variables = &plan->model->graph->variables;
    *out = (ls_first_samples){.data = {.train = plan->job.data->train}};
    out->data.train.samples = count;
    out->data.train.target.data = NULL; /* until its memory is allocated */
    for (int i = 0; i < LS_DATA_INPUTS; i++)
        out->data.train.input[i].data = NULL;
    LS_TRY(pick_all(&plan->job, count, lifts, out));
    LS_TRY(ls_allocate("gate", &out->initial, variables->elements, sizeof *out->initial));
    LS_TRY(ls_plan_initial(plan, out->initial));
    for (size_t i = 0; i < variables->count && lifts; i++)
        out->lifted |= lift(out->initial + variables->items[i].offset, variables->items[i].count);
    return LS_OK;
}

void ls_first_samples_close(ls_first_samples *samples)
{
    for (int i = 0; i < LS_DATA_INPUTS; i++)
        free(samples->data.train.input[i].data);
    free(samples->data.train.target.data);
    free(samples->initial);
}

ls_plan_of_case ls_first_samples_plan(const ls_plan_of_case *plan, const ls_first_samples *samples)
{
    ls_plan_of_case one = *plan;
    one.initial = ls_state_held(samples->initial);
    one.job.data = &samples->data;
    one.job.sampling.epochs = one.job.sampling.shuffle = one.job.sampling.augment = false;
    return one;
}

double ls_gate_products(const ls_plan_of_case *plan, int64_t rows)
{
    const ls_graph *graph = plan->model->graph;
    return (ls_graph_flops(graph) / 2 + (double)graph->variables.elements) * (double)rows;
}

/* ---- Slices and the whole batch -------------------------------------------------------------- */

ls_status ls_gate_open_oracle(const ls_plan_of_case *plan, const ls_job *job, ls_run **out)
{
    return ls_oracle_open(plan->strategy, &plan->job, job, out);
}

/* Rounding to bfloat16 flips units; of few samples, such as 4 of cifar10, one is 0.12 of the
 * gradient. */
static const double flips_bound = 0.5;

/* The first step's gradient [elements], and its loss. */
static ls_status compute(const ls_workplace *workplace, const ls_plan_of_case *plan,
                         ls_session_opener judge, float *gradient, double *loss)
{
    ls_closing(ls_session_close) ls_session session = {0};
    LS_TRY(ls_session_open(workplace, plan, (ls_opening){.judge = judge}, &session));
    if (judge == ls_session_single) {
        LS_TRY(ls_session_one_step(&session, gradient, loss));
        return session.run->functions->gradient(session.run, gradient);
    }
    if (ls_strategy_reduces(plan->strategy) && !plan->job.exchange.allreduce->oracle)
        ls_oracle_widely(session.run); /* only a library knows the order */
    LS_TRY(ls_session_one_step(&session, gradient, loss));
    memcpy(gradient, ls_oracle_gradient(session.run),
           plan->model->graph->variables.elements * sizeof *gradient);
    return LS_OK;
}

ls_status ls_gate_whole(const ls_workplace *workplace, const ls_plan_of_case *plan, float *gradient,
                        double *loss)
{
    ls_plan_of_case one = *plan;
    one.job.exact.on = false;
    return compute(workplace, &one, ls_session_single, gradient, loss);
}

ls_status ls_gate_first_again(const ls_workplace *workplace, const ls_plan_of_case *plan,
                              double *rel)
{
    const ls_variables *variables = &plan->model->graph->variables;
    const int64_t there = (int64_t)plan->job.data->train.samples, batch = plan->job.batch;
    const int64_t count = plan->job.sampling.epochs && there < batch ? there : batch;
    const bool bf16 = plan->job.kernels.precision == LS_PRECISION_BF16;
    if (bf16 && !(*rel <= flips_bound)) /* more than flipped units explain */
        return LS_OK;
    ls_closing(ls_first_samples_close) ls_first_samples samples = {0};
    ls_auto float *summed = NULL;
    double loss;
    LS_TRY(ls_first_samples_open(plan, (size_t)count, true, &samples));
    ls_plan_of_case one = ls_first_samples_plan(plan, &samples);
    one.job.batch = count;
    one.job.sampling.augment = plan->job.sampling.augment;
    one.job.exchange.gradient_wire = LS_WIRE_FLOAT32; /* the oracle's bits judge its rounding */
    one.job.kernels.precision = LS_PRECISION_FLOAT32;
    if (!samples.lifted && !plan->job.exchange.gradient_wire && !bf16)
        return LS_OK; /* the comparison would be the same */
    LS_TRY(ls_allocate("gate", &summed, 2 * variables->elements + 1, sizeof *summed));
    float *whole = summed + variables->elements;
    LS_TRY(compute(workplace, &one, one.job.exact.on ? ls_session_single : ls_gate_open_oracle,
                   summed, &loss));
    LS_TRY(ls_gate_whole(workplace, &one, whole, &loss));
    *rel = ls_model_distance(variables, summed, whole, ls_gate_products(plan, count));
    return LS_OK;
}
