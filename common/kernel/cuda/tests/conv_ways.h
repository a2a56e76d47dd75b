/* SPDX-License-Identifier: MIT */
/*
 * cuDNN's ways of a convolution (cuda_dnn_ways.c), each on the shapes of the models: a line that
 * says what it took, its time, its distance from the own products, and whether three runs gave the
 * same bits. Tolerance: max_rel 1e-3, which Winograd's and Fourier's methods keep and a wrong
 * layout does not. What includes this defines the three functions declared at its top.
 */
#pragma once

#include "common/kernel/cuda/conv/cuda_dnn.h"
#include "common/kernel/cuda/cuda_kernels.h"
#include "common/kernel/tests/kernel_fixture.h"

/* One operation of a shape, and what it writes. */
typedef struct conv_case {
    float *in[2], *bias, *out, *sums;
    int64_t count; /* of out */
    ls_op *op;
} conv_case;

static cuda_kernels *cuda_of(const fixture *f);
static const char *way_of(const conv_case *c);               /* the operation's name */
static double time_us(const fixture *f, const conv_case *c); /* of the operation alone */

static const double wrong_beyond = 1e-3;
static const char *const direction_names[LS_DNN_DIRECTIONS] = {"forward", "weights", "data"};

static void case_close(conv_case *c)
{
    ls_op_free(c->op);
    free(c->in[0]), free(c->in[1]), free(c->bias), free(c->out), free(c->sums);
}

/* The tensors, which any number of operations may have in turn. */
static conv_case case_tensors(const ls_conv_shape *s, ls_dnn_direction which)
{
    const int64_t x = s->rows * in_elements(s), y = s->rows * out_elements(s);
    const int64_t w = s->outputs * filter_elements(s);
    const int64_t in[LS_DNN_DIRECTIONS][2] = {{x, w}, {x, y}, {y, w}}, count[] = {y, w, x};
    return (conv_case){.in = {randoms(in[which][0], 1), randoms(in[which][1], 2)},
                       .bias = randoms(s->outputs, 3),
                       .out = randoms(count[which], 4),
                       .sums = randoms(s->outputs, 5),
                       .count = count[which]};
}

/* The operation, of tensors that are there. */
static ls_status case_make(fixture *f, const ls_conv_shape *s, ls_dnn_direction which, conv_case *c)
{
    const ls_kernel_table *table = f->cpu->table;
    const ls_conv_forward_args forward = {.shape = *s,
                                          .x = c->in[0],
                                          .weight = c->in[1],
                                          .bias = c->bias,
                                          .y = c->out,
                                          .activation = LS_ACTIVATION_RELU};
    const ls_conv_backward_weights_args weights = {
        .shape = *s, .x = c->in[0], .dy = c->in[1], .dweight = c->out, .dbias = c->sums};
    const ls_conv_backward_data_args data = {
        .shape = *s, .dy = c->in[0], .weight = c->in[1], .dx = c->out};
    if (which == LS_DNN_FORWARD)
        return table->conv_forward(f->cpu, &forward, &c->op);
    if (which == LS_DNN_WEIGHTS)
        return table->conv_backward_weights(f->cpu, &weights, &c->op);
    return table->conv_backward_data(f->cpu, &data, &c->op);
}

/* On failure nothing is left open. */
static ls_status case_open(fixture *f, const ls_conv_shape *s, ls_dnn_direction which,
                           conv_case *out)
{
    *out = case_tensors(s, which);
    ls_status status = case_make(f, s, which, out);
    if (status)
        case_close(out);
    return status;
}

/* The operation with this way in place of the table's; NULL: by the table. */
static ls_status case_by(fixture *f, const ls_conv_shape *s, ls_dnn_direction which,
                         const ls_dnn_way *way, conv_case *c)
{
    cuda_of(f)->dnn_way[which] = way;
    ls_status status = case_make(f, s, which, c);
    cuda_of(f)->dnn_way[which] = NULL;
    return status;
}

static void put(fixture *f, const conv_case *c)
{
    must(ls_queue_put(f->queue, c->op));
    must(ls_queue_sync(f->queue));
}

static double distance(const float *got, const float *want, int64_t count)
{
    double apart = 0, all = 0;
    for (int64_t i = 0; i < count; i++) {
        const double d = (double)got[i] - (double)want[i];
        apart += d * d, all += (double)want[i] * (double)want[i];
    }
    return sqrt(apart / all);
}

/* One way: its line, and whether it is wrong or has other bits each time. `tensors`: of the shape;
 * `own`: what products of windows gave; `first`: as many, for its use. *us: its time; infinity
 * where the library does not take the shape so. */
static bool measure_way(fixture *f, const ls_conv_shape *s, ls_dnn_direction which,
                        const ls_dnn_way *way, const conv_case *tensors, const float *own,
                        float *first, double *us)
{
    enum { RUNS = 3 };
    const size_t size = (size_t)tensors->count * sizeof *first;
    const char *table = way == ls_dnn_way_for(which, s) ? ", the table's" : "";
    conv_case c = *tensors;
    *us = INFINITY;
    ls_status status = case_by(f, s, which, way, &c);
    if (status) {
        print_message("  %-8s %-22s failed%s: %s\n", direction_names[which], way->name, table,
                      ls_status_text(status));
        ls_status_free(status);
        return false;
    }
    if (!strstr(way_of(&c), ".cudnn")) {
        print_message("  %-8s %-22s not taken%s\n", direction_names[which], way->name, table);
        ls_op_free(c.op);
        return false;
    }
    bool same = true;
    memset(c.out, 0, size); /* not what the way before wrote */
    for (int i = 0; i < RUNS; i++) {
        put(f, &c);
        if (i)
            same = same && memcmp(first, c.out, size) == 0;
        else
            memcpy(first, c.out, size);
    }
    const double apart = distance(first, own, c.count);
    const bool wrong = !(apart <= wrong_beyond);
    *us = time_us(f, &c);
    print_message("  %-8s %-22s %9.1f us  max_rel %.1e%s  %s  %zu bytes%s\n",
                  direction_names[which], way->name, *us, apart, wrong ? " WRONG" : "",
                  same ? "same bits" : "OTHER BITS EACH TIME", c.op->workspace, table);
    ls_op_free(c.op);
    return wrong || !same;
}

/* All ways of a shape in a direction, and which of them is the fastest; how many are faulty. */
static int measure_direction(fixture *f, const ls_conv_shape *s, ls_dnn_direction which)
{
    const ls_convolution asked = cuda_of(f)->base.convolution;
    const ls_dnn_way *best = NULL, *way;
    conv_case c = case_tensors(s, which);
    float *first = randoms(c.count, 9), *own = randoms(c.count, 9);
    int faulty = 0;
    cuda_of(f)->base.convolution = LS_CONVOLUTION_OWN;
    must(case_make(f, s, which, &c));
    cuda_of(f)->base.convolution = asked;
    put(f, &c);
    memcpy(own, c.out, (size_t)c.count * sizeof *own);
    double us, least = time_us(f, &c);
    ls_op_free(c.op);
    c.op = NULL;
    print_message("  %-8s %-22s %9.1f us\n", direction_names[which], "own", least);
    for (size_t i = 0; (way = ls_dnn_way_at(which, i)) != NULL; i++) {
        faulty += measure_way(f, s, which, way, &c, own, first, &us);
        if (us < least)
            best = way, least = us;
    }
    print_message("  %-8s fastest: %s, %.1f us\n", direction_names[which],
                  best ? best->name : "own", least);
    free(first), free(own);
    case_close(&c);
    return faulty;
}

static int measure_ways(fixture *f, const ls_conv_shape *shapes, int count)
{
    int faulty = 0;
    for (int i = 0; i < count; i++) {
        const ls_conv_shape *s = &shapes[i];
        const ls_window *w = &s->window;
        const char *measured, *class = ls_dnn_class_of(s, &measured);
        print_message("convolution %lldx%lldx%lldx%lld to %lldx%lldx%lld, window %lldx%lld, stride "
                      "%lld: %s, %s%s\n",
                      (long long)s->rows, (long long)w->in_height, (long long)w->in_width,
                      (long long)s->channels, (long long)w->out_height, (long long)w->out_width,
                      (long long)s->outputs, (long long)w->height, (long long)w->width,
                      (long long)w->stride_y, class, measured ? "measured on " : "not measured",
                      measured ? measured : "");
        for (int which = 0; which < LS_DNN_DIRECTIONS; which++)
            faulty += measure_direction(f, s, (ls_dnn_direction)which);
    }
    return faulty;
}

/* Whether cuDNN, where it is insisted on, has anything for this: what the table says, or else some
 * other way, which is printed. */
static bool usable(fixture *f, const ls_conv_shape *s, ls_dnn_direction which)
{
    const ls_convolution asked = cuda_of(f)->base.convolution;
    const ls_dnn_way *way = NULL;
    bool found = false;
    conv_case c = case_tensors(s, which);
    cuda_of(f)->base.convolution = LS_CONVOLUTION_CUDNN;
    for (size_t i = 0; !found && (i == 0 || way); way = ls_dnn_way_at(which, i++)) {
        ls_status status = case_by(f, s, which, way, &c);
        found = !status;
        print_message("--convolution cudnn, %s, %s: %s\n", direction_names[which],
                      way ? way->name : "by the table", status ? ls_status_text(status) : "taken");
        ls_status_free(status);
    }
    cuda_of(f)->base.convolution = asked;
    case_close(&c);
    return found;
}
