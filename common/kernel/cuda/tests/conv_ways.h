/* SPDX-License-Identifier: MIT */
/*
 * The implementations of a convolution, own products, own kernels without windows and cuDNN, for
 * several shapes: prints a line each with its time and its difference from the own products, and
 * whether three runs gave the same bits. Tolerance: max_rel 1e-4, within which another order of
 * summation stays, but not a wrong layout. The file that includes this defines the three functions
 * declared at its top.
 */
#pragma once

#include "common/kernel/cuda/conv/cuda_dnn.h"
#include "common/kernel/cuda/cuda_kernels.h"
#include "common/kernel/tests/kernel_fixture.h"

typedef enum conv_direction { FORWARD, WEIGHTS, DATA, DIRECTIONS } conv_direction;

/* One operation of a shape, and what it writes. */
typedef struct conv_case {
    float *in[2], *bias, *out, *sums;
    int64_t count; /* of out */
    ls_op *op;
} conv_case;

static cuda_kernels *cuda_of(const fixture *f);
static const char *way_of(const conv_case *c);               /* the operation's name */
static double time_us(const fixture *f, const conv_case *c); /* of the operation alone */

static const double wrong_beyond = 1e-4;
static const char *const direction_names[DIRECTIONS] = {"forward", "weights", "data"};

/* How a way is printed, and whether an operation's name is one's. */
enum { WAYS = LS_CONV_LIBRARY + 1 };
static const char *const way_names[WAYS] = {"fastest", "own", "direct", "cudnn"};

static bool is_way(const char *name, ls_conv_way way)
{
    const ls_conv_way is = strstr(name, ".direct")  ? LS_CONV_DIRECT
                           : strstr(name, ".cudnn") ? LS_CONV_LIBRARY
                                                    : LS_CONV_PRODUCTS;
    return way == LS_CONV_FASTEST || way == is;
}

static void case_close(conv_case *c)
{
    ls_op_free(c->op);
    free(c->in[0]), free(c->in[1]), free(c->bias), free(c->out), free(c->sums);
}

/* The tensors, which any number of operations may have in turn. */
static conv_case case_tensors(const ls_conv_shape *s, conv_direction direction)
{
    const int64_t x = s->rows * in_elements(s), y = s->rows * out_elements(s);
    const int64_t w = s->outputs * filter_elements(s);
    const int64_t in[DIRECTIONS][2] = {{x, w}, {x, y}, {y, w}}, count[] = {y, w, x};
    return (conv_case){.in = {randoms(in[direction][0], 1), randoms(in[direction][1], 2)},
                       .bias = randoms(s->outputs, 3),
                       .out = randoms(count[direction], 4),
                       .sums = randoms(s->outputs, 5),
                       .count = count[direction]};
}

/* The operation, of tensors that are there. */
static ls_status case_make(fixture *f, const ls_conv_shape *s, conv_direction direction,
                           conv_case *c)
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
    if (direction == FORWARD)
        return table->conv_forward(f->cpu, &forward, &c->op);
    if (direction == WEIGHTS)
        return table->conv_backward_weights(f->cpu, &weights, &c->op);
    return table->conv_backward_data(f->cpu, &data, &c->op);
}

/* On failure nothing is left open. */
static ls_status case_open(fixture *f, const ls_conv_shape *s, conv_direction direction,
                           conv_case *out)
{
    *out = case_tensors(s, direction);
    ls_status status = case_make(f, s, direction, out);
    if (status)
        case_close(out);
    return status;
}

static void put(fixture *f, const conv_case *c)
{
    must(ls_queue_enqueue(f->queue, c->op));
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

/* A direction of a shape, and what its ways are compared with. */
typedef struct conv_measured {
    const ls_conv_shape *shape;
    conv_direction direction;
    conv_case tensors;
    float *own, *first; /* the result of products of windows; scratch of its size */
    ls_conv_way fastest;
    double us; /* the fastest one's time */
} conv_measured;

/* Runs an operation several times; whether it is wrong or varies. */
static bool runs_wrong(fixture *f, const conv_measured *m, const conv_case *c, ls_conv_way way)
{
    enum { RUNS = 3 };
    const size_t size = (size_t)c->count * sizeof *c->out;
    bool same = true;
    memset(c->out, 0, size); /* not what the other way wrote */
    for (int i = 0; i < RUNS; i++) {
        put(f, c);
        if (i)
            same = same && memcmp(m->first, c->out, size) == 0;
        else
            memcpy(m->first, c->out, size);
    }
    if (way == LS_CONV_PRODUCTS)
        memcpy(m->own, c->out, size);
    const double apart = distance(m->first, m->own, c->count);
    const bool wrong = !(apart <= wrong_beyond);
    print_message("max_rel %.1e%s  %s  %zu bytes\n", apart, wrong ? " WRONG" : "",
                  same ? "same bits" : "OTHER BITS EACH TIME", c->op->workspace);
    return wrong || !same;
}

/* A way's line; whether it is faulty. One that does not support the shape is not. */
static bool measure_way(fixture *f, conv_measured *m, ls_conv_way way)
{
    conv_case c = m->tensors;
    cuda_of(f)->way = way;
    ls_status status = case_make(f, m->shape, m->direction, &c);
    cuda_of(f)->way = LS_CONV_FASTEST;
    print_message("  %-8s %-6s ", direction_names[m->direction], way_names[way]);
    if (status) {
        print_message("failed: %s\n", ls_status_text(status));
        ls_status_free(status);
        return way != LS_CONV_LIBRARY;
    }
    bool faulty = false;
    if (is_way(way_of(&c), way)) {
        const double us = time_us(f, &c);
        print_message("%9.1f us  ", us);
        faulty = runs_wrong(f, m, &c, way);
        if (way == LS_CONV_PRODUCTS || us < m->us)
            m->fastest = way, m->us = us;
    } else {
        print_message("not taken\n");
    }
    ls_op_free(c.op);
    return faulty;
}

/* All ways of a shape in a direction, which is the fastest, and which is taken; how many are
 * faulty. */
static int measure_direction(fixture *f, const ls_conv_shape *s, conv_direction direction)
{
    conv_measured m = {.shape = s, .direction = direction, .tensors = case_tensors(s, direction)};
    int faulty = 0;
    m.first = randoms(m.tensors.count, 9), m.own = randoms(m.tensors.count, 9);
    for (int way = LS_CONV_PRODUCTS; way < WAYS; way++)
        faulty += measure_way(f, &m, (ls_conv_way)way);
    must(case_make(f, s, direction, &m.tensors));
    print_message("  %-8s fastest: %s, %.1f us; taken: %s\n", direction_names[direction],
                  way_names[m.fastest], m.us, way_of(&m.tensors));
    free(m.first), free(m.own);
    case_close(&m.tensors);
    return faulty;
}

/* How many are faulty. */
static int measure_ways(fixture *f, const ls_conv_shape *shapes, int count)
{
    int faulty = 0;
    for (int i = 0; i < count; i++) {
        const ls_conv_shape *s = &shapes[i];
        const ls_window *w = &s->window;
        print_message("convolution %lldx%lldx%lldx%lld to %lldx%lldx%lld, window %lldx%lld, stride "
                      "%lld\n",
                      (long long)s->rows, (long long)w->in_height, (long long)w->in_width,
                      (long long)s->channels, (long long)w->out_height, (long long)w->out_width,
                      (long long)s->outputs, (long long)w->height, (long long)w->width,
                      (long long)w->stride_y);
        for (int direction = 0; direction < DIRECTIONS; direction++)
            faulty += measure_direction(f, s, (conv_direction)direction);
    }
    return faulty;
}

/* Whether cuDNN, if required, supports this. */
static bool usable(fixture *f, const ls_conv_shape *s, conv_direction direction)
{
    const ls_convolution asked = cuda_of(f)->base.convolution;
    conv_case c;
    cuda_of(f)->base.convolution = LS_CONVOLUTION_CUDNN;
    ls_status status = case_open(f, s, direction, &c);
    const bool found = !status;
    cuda_of(f)->base.convolution = asked;
    print_message("--convolution cudnn, %s: %s\n", direction_names[direction],
                  found ? way_of(&c) : ls_status_text(status));
    ls_status_free(status);
    if (found)
        case_close(&c);
    return found;
}
