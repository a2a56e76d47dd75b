/* SPDX-License-Identifier: MIT */
/* Arguments of operations: checked, and their work counted; see kernel_check.h. */
#include "common/kernel/kernel_check_parts.h"

#include "common/base/numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef ls_checked_tensor tensor;

ls_status ls_work_touch(ls_work *work, const void *memory, size_t bytes, bool writes)
{
    const size_t room = (work->access_count + 1) * sizeof *work->accesses;
    if (!memory)
        return LS_OK;
    ls_access *accesses = realloc(work->accesses, room);
    if (!accesses)
        return ls_fail_memory("accesses", room);
    work->accesses = accesses;
    accesses[work->access_count++] = (ls_access){memory, bytes, writes};
    return LS_OK;
}

ls_status ls_work_done(ls_work *work, ls_status made, ls_op **out)
{
    ls_status status = made;
    if (!status)
        status = ls_op_touches(*out, work->accesses, work->access_count);
    if (!made && status)
        ls_op_free(*out);
    free(work->accesses);
    return status;
}

ls_status ls_check_tensors(const char *op, size_t count, const tensor *tensors, ls_work *work)
{
    for (size_t i = 0; i < count; i++) {
        const tensor *t = &tensors[i];
        size_t elements, bytes;
        if (t->rows < 0 || t->columns < 0)
            return ls_fail(LS_CODE_USAGE, op, t->name,
                           "its size is %" PRId64 " x %" PRId64 "; give sizes of 0 or more",
                           t->rows, t->columns);
        if (!ls_size_multiply((size_t)t->rows, (size_t)t->columns, &elements) ||
            !ls_size_multiply(elements, t->element_bytes, &bytes) || bytes > PTRDIFF_MAX)
            return ls_fail(LS_CODE_USAGE, op, t->name,
                           "%" PRId64 " x %" PRId64 " elements are more than memory can hold; "
                           "give smaller sizes",
                           t->rows, t->columns);
        if (!t->data && elements && !(t->what & OPTIONAL))
            return ls_fail(LS_CODE_USAGE, op, t->name,
                           "it is NULL, but has %" PRId64 " x %" PRId64 " elements; give memory",
                           t->rows, t->columns);
        if (t->data)
            work->bytes += (double)bytes;
        if (!(t->what & APART))
            LS_TRY(ls_work_touch(work, t->data, bytes, t->what & WRITTEN));
    }
    return LS_OK;
}

ls_status ls_check_value(const char *op, const char *name, double value)
{
    if (isfinite(value))
        return LS_OK;
    return ls_fail(LS_CODE_USAGE, op, name, "it is %g; give a finite number", value);
}

ls_status ls_check_ranges(const char *op, const ls_update_range *ranges, int64_t range_count,
                          int64_t count, bool gaps, double *flops)
{
    int64_t at = 0;
    if (range_count < 0 || (range_count && !ranges))
        return ls_fail(LS_CODE_USAGE, op, "ranges",
                       "%" PRId64 " of them are none; give as many as there are", range_count);
    for (int64_t r = 0; r < range_count; r++) {
        const ls_update_range *range = &ranges[r];
        if (range->count < 0 || range->first < at || (!gaps && range->first > at) ||
            range->first > count || range->count > count - range->first)
            return ls_fail(LS_CODE_USAGE, op, "ranges",
                           "that of %" PRId64 " elements from %" PRId64
                           " on is none of what is left; give 0 to %" PRId64 " in order",
                           range->count, range->first, count);
        LS_TRY(ls_check_value(op, "decay", range->decay));
        LS_TRY(ls_check_value(op, "keep", range->keep));
        *flops += range->decay != 0 ? 2 * (double)range->count : 0;
        at = range->first + range->count;
    }
    if (range_count && !gaps && at != count)
        return ls_fail(LS_CODE_USAGE, op, "ranges",
                       "they end at %" PRId64 " of %" PRId64 "; give all, in order", at, count);
    return LS_OK;
}

ls_status ls_label_fail(const char *op, int64_t row, int32_t label, int64_t classes)
{
    char where[48];
    snprintf(where, sizeof where, "row %" PRId64, row);
    return ls_fail(LS_CODE_MISSING, op, where,
                   "label %" PRId32 " is not in 0 to %" PRId64 "; give labels below the %" PRId64
                   " classes",
                   label, classes - 1, classes);
}

ls_status ls_check_gemm(const ls_gemm_args *g, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"a", g->a, g->m, g->k, real_bytes, NEEDED},
                              {"b", g->b, g->k, g->n, real_bytes, NEEDED},
                              {"c", g->c, g->m, g->n, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("gemm", 3, tensors, work));
    work->flops += 2.0 * (double)g->m * (double)g->n * (double)g->k;
    return LS_OK;
}

ls_status ls_check_dense_forward(const ls_dense_forward_args *d, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"x", d->x, d->rows, d->inputs, real_bytes, NEEDED},
                              {"weight", d->weight, d->outputs, d->inputs, real_bytes, NEEDED},
                              {"bias", d->bias, d->outputs, 1, real_bytes, OPTIONAL},
                              {"y", d->y, d->rows, d->outputs, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("dense_forward", 4, tensors, work));
    if (d->activation != LS_ACTIVATION_NONE && d->activation != LS_ACTIVATION_RELU)
        return ls_fail(LS_CODE_USAGE, "dense_forward", "activation",
                       "%d is none; give LS_ACTIVATION_NONE or LS_ACTIVATION_RELU",
                       (int)d->activation);
    work->flops += 2.0 * (double)d->rows * (double)d->inputs * (double)d->outputs;
    return LS_OK;
}

ls_status ls_check_dense_backward_weights(const ls_dense_backward_weights_args *d,
                                          size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"x", d->x, d->rows, d->inputs, real_bytes, NEEDED},
                              {"dy", d->dy, d->rows, d->outputs, real_bytes, NEEDED},
                              {"dweight", d->dweight, d->outputs, d->inputs, real_bytes, WRITTEN},
                              {"dbias", d->dbias, d->outputs, 1, real_bytes, OPTIONAL | WRITTEN}};
    LS_TRY(ls_check_tensors("dense_backward_weights", 4, tensors, work));
    work->flops += 2.0 * (double)d->rows * (double)d->inputs * (double)d->outputs;
    return LS_OK;
}

ls_status ls_check_dense_backward_data(const ls_dense_backward_data_args *d, size_t real_bytes,
                                       ls_work *work)
{
    const tensor tensors[] = {
        {"dy", d->dy, d->rows, d->outputs, real_bytes, NEEDED},
        {"weight", d->weight, d->outputs, d->inputs, real_bytes, NEEDED},
        {"relu_output", d->relu_output, d->rows, d->inputs, real_bytes, OPTIONAL},
        {"dx", d->dx, d->rows, d->inputs, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("dense_backward_data", 4, tensors, work));
    work->flops += 2.0 * (double)d->rows * (double)d->inputs * (double)d->outputs;
    return LS_OK;
}

ls_status ls_check_dense_backward(const ls_dense_backward_args *d, size_t real_bytes, ls_work *work)
{
    const ls_dense_backward_weights_args *w = &d->weights;
    LS_TRY(ls_check_dense_backward_weights(w, real_bytes, work));
    LS_TRY(ls_check_dense_backward_data(&d->data, real_bytes, work));
    if (w->rows != d->data.rows || w->inputs != d->data.inputs || w->outputs != d->data.outputs ||
        w->dy != d->data.dy)
        return ls_fail(LS_CODE_USAGE, "dense_backward", "data",
                       "is of another layer than the weights; both have one dy and its sizes");
    return LS_OK;
}

ls_status ls_check_relu_forward(const ls_relu_forward_args *r, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"x", r->x, r->count, 1, real_bytes, NEEDED},
                              {"y", r->y, r->count, 1, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("relu_forward", 2, tensors, work));
    work->flops += (double)r->count;
    return LS_OK;
}

ls_status ls_check_relu_backward(const ls_relu_backward_args *r, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"y", r->y, r->count, 1, real_bytes, NEEDED},
                              {"dy", r->dy, r->count, 1, real_bytes, NEEDED},
                              {"dx", r->dx, r->count, 1, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("relu_backward", 3, tensors, work));
    work->flops += (double)r->count;
    return LS_OK;
}

ls_status ls_check_polynomial(const ls_polynomial_args *p, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"x", p->x, p->rows, 1, real_bytes, NEEDED},
                              {"y", p->y, p->rows, 3, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("polynomial", 2, tensors, work));
    work->flops += (double)p->rows;
    return LS_OK;
}

ls_status ls_check_softmax_cross_entropy(const ls_softmax_cross_entropy_args *s, size_t real_bytes,
                                         ls_work *work)
{
    const tensor tensors[] = {
        {"logits", s->logits, s->rows, s->classes, real_bytes, NEEDED},
        {"labels", s->labels, s->rows, 1, sizeof(int32_t), NEEDED},
        {"dlogits", s->dlogits, s->rows, s->classes, real_bytes, OPTIONAL | WRITTEN},
        {"loss", s->loss, 1, 1, sizeof(double), OPTIONAL | WRITTEN}};
    LS_TRY(ls_check_tensors("softmax_cross_entropy", 4, tensors, work));
    LS_TRY(ls_check_value("softmax_cross_entropy", "scale", s->scale));
    if (s->dlogits && s->dlogits == s->logits)
        return ls_fail(LS_CODE_USAGE, "softmax_cross_entropy", "dlogits",
                       "it is logits; give memory of its own");
    work->flops += 5.0 * (double)s->rows * (double)s->classes;
    return LS_OK;
}

ls_status ls_check_squared_error(const ls_squared_error_args *s, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"y", s->y, s->rows, s->outputs, real_bytes, NEEDED},
                              {"target", s->target, s->rows, s->outputs, real_bytes, NEEDED},
                              {"dy", s->dy, s->rows, s->outputs, real_bytes, OPTIONAL | WRITTEN},
                              {"loss", s->loss, 1, 1, sizeof(double), OPTIONAL | WRITTEN}};
    LS_TRY(ls_check_tensors("squared_error", 4, tensors, work));
    work->flops += 4.0 * (double)s->rows * (double)s->outputs;
    return ls_check_value("squared_error", "scale", s->scale);
}

ls_status ls_check_count_correct(const ls_count_correct_args *c, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"logits", c->logits, c->rows, c->classes, real_bytes, NEEDED},
                              {"labels", c->labels, c->rows, 1, sizeof(int32_t), NEEDED},
                              {"state", c->state, 1, 1, sizeof *c->state, NEEDED},
                              {"correct", c->correct, 1, 1, sizeof *c->correct, WRITTEN}};
    return ls_check_tensors("count_correct", 4, tensors, work);
}

ls_status ls_check_batch_indices(const ls_batch_indices_args *b, size_t real_bytes, ls_work *work)
{
    (void)real_bytes;
    const tensor tensors[] = {{"indices", b->indices, b->rows, 1, sizeof *b->indices, WRITTEN},
                              {"state", b->state, 1, 1, sizeof *b->state, NEEDED}};
    LS_TRY(ls_check_tensors("batch_indices", 2, tensors, work));
    if (b->order.samples > INT32_MAX || (b->rows && !b->order.samples))
        return ls_fail(LS_CODE_USAGE, "batch_indices", "order",
                       "it is of %" PRIu64 " samples; give 1 to %" PRId32, b->order.samples,
                       INT32_MAX);
    return LS_OK;
}

ls_status ls_check_source(const char *op, ls_work *work, const void *source, uint64_t samples,
                          size_t sample_bytes)
{
    size_t bytes;
    if (!samples || !ls_size_multiply(samples, sample_bytes, &bytes))
        return ls_fail(LS_CODE_USAGE, op, "samples",
                       "%" PRIu64 " of %zu bytes are none that memory can hold; give those of the "
                       "source",
                       samples, sample_bytes);
    return ls_work_touch(work, source, bytes, false);
}

ls_status ls_check_gather(const ls_gather_args *g, size_t real_bytes, ls_work *work)
{
    if (g->type < LS_GATHER_BYTES_TO_UNIT || g->type > LS_GATHER_ONE_HOT)
        return ls_fail(LS_CODE_USAGE, "gather", "type", "%d is none; give an ls_gather_type",
                       (int)g->type);
    bool one_hot = g->type == LS_GATHER_ONE_HOT;
    size_t from = one_hot || g->type == LS_GATHER_BYTES_TO_UNIT ? 1 : 4;
    size_t to = one_hot ? 256 * real_bytes : g->type == LS_GATHER_INT32 ? 4 : real_bytes;
    const tensor tensors[] = {{"source", g->source, g->rows, g->width, from, APART},
                              {"indices", g->indices, g->rows, 1, sizeof *g->indices, NEEDED},
                              {"out", g->out, g->rows, g->width, to, WRITTEN}};
    LS_TRY(ls_check_tensors("gather", 3, tensors, work));
    LS_TRY(ls_check_source("gather", work, g->source, g->samples, (size_t)g->width * from));
    if (g->type == LS_GATHER_BYTES_TO_UNIT)
        work->flops += (double)g->rows * (double)g->width;
    return LS_OK;
}

ls_status ls_check_gather_batch(const ls_gather_batch_args *b, size_t real_bytes, ls_work *work)
{
    LS_TRY(ls_check_batch_indices(&b->indices, real_bytes, work));
    if (b->count < 0 || b->count > LS_GATHERS)
        return ls_fail(LS_CODE_USAGE, "gather_batch", "count", "%d arrays; give 0 to %d", b->count,
                       LS_GATHERS);
    for (int i = 0; i < b->count; i++) {
        LS_TRY(ls_check_gather(&b->gather[i], real_bytes, work));
        if (b->gather[i].rows != b->indices.rows || b->gather[i].indices != b->indices.indices)
            return ls_fail(LS_CODE_USAGE, "gather_batch", "gather",
                           "number %d is of other rows; give those of the indices", i);
    }
    return LS_OK;
}

/* Whether a range adds to the gradient. */
static bool decays(const ls_optimizer_args *o)
{
    bool any = false;
    for (int64_t r = 0; o->ranges && r < o->range_count; r++)
        any = any || o->ranges[r].decay != 0;
    return any;
}

ls_status ls_check_optimizer(const ls_optimizer_args *o, size_t real_bytes, ls_work *work)
{
    static const int slots_of[] = {[LS_OPTIMIZER_SGD] = 0,
                                   [LS_OPTIMIZER_MOMENTUM] = 1,
                                   [LS_OPTIMIZER_ADAM] = 2,
                                   [LS_OPTIMIZER_RMSPROP] = 1};
    static const double flops_of[] = {[LS_OPTIMIZER_SGD] = 2,
                                      [LS_OPTIMIZER_MOMENTUM] = 4,
                                      [LS_OPTIMIZER_ADAM] = 13,
                                      [LS_OPTIMIZER_RMSPROP] = 9};
    if (o->kind < LS_OPTIMIZER_SGD || o->kind > LS_OPTIMIZER_RMSPROP)
        return ls_fail(LS_CODE_USAGE, "optimizer", "kind", "%d is none; give an ls_optimizer_kind",
                       (int)o->kind);
    int slots = slots_of[o->kind];
    const tensor tensors[] = {
        {"weight", o->weight, o->count, 1, real_bytes, WRITTEN},
        {"gradient", o->gradient, o->count, 1, real_bytes, decays(o) ? WRITTEN : 0},
        {"state", o->state, 1, 1, sizeof *o->state, NEEDED},
        {"slot[0]", o->slot[0], o->count, 1, real_bytes, WRITTEN},
        {"slot[1]", o->slot[1], o->count, 1, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("optimizer", 3 + (size_t)slots, tensors, work));
    work->flops += flops_of[o->kind] * (double)o->count;
    /* What is written was read before: weight and slots count twice. */
    work->bytes += (double)(1 + slots) * (double)o->count * (double)real_bytes;
    LS_TRY(ls_check_ranges("optimizer", o->ranges, o->range_count, o->count, false, &work->flops));
    const double values[] = {o->mu, o->beta1, o->beta2, o->rho, o->epsilon};
    static const char *const names[] = {"mu", "beta1", "beta2", "rho", "epsilon"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        LS_TRY(ls_check_value("optimizer", names[i], values[i]));
    return LS_OK;
}

ls_status ls_check_add(const ls_add_args *a, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"a", a->a, a->count, 1, real_bytes, NEEDED},
                              {"b", a->b, a->count, 1, real_bytes, OPTIONAL},
                              {"y", a->y, a->count, 1, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("add", 3, tensors, work));
    work->flops += a->b ? (double)a->count : 0;
    return LS_OK;
}

ls_status ls_check_add_loss(const ls_add_loss_args *a, size_t real_bytes, ls_work *work)
{
    (void)real_bytes;
    const tensor tensors[] = {{"a", a->a, 1, 1, sizeof(double), NEEDED},
                              {"b", a->b, 1, 1, sizeof(double), NEEDED},
                              {"out", a->out, 1, 1, sizeof(double), WRITTEN}};
    LS_TRY(ls_check_tensors("add_loss", 3, tensors, work));
    work->flops += 1;
    return LS_OK;
}

ls_status ls_check_fill(const ls_fill_args *f, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"y", f->y, f->count, 1, real_bytes, WRITTEN}};
    return ls_check_tensors("fill", 1, tensors, work);
}

ls_status ls_check_scale(const ls_scale_args *s, size_t real_bytes, ls_work *work)
{
    const tensor tensors[] = {{"y", s->y, s->count, 1, real_bytes, WRITTEN}};
    LS_TRY(ls_check_tensors("scale", 1, tensors, work));
    work->bytes *= 2; /* read, and written */
    work->flops += (double)s->count;
    return ls_check_value("scale", "factor", s->factor);
}

ls_status ls_check_finish_step(const ls_finish_step_args *f, size_t real_bytes, ls_work *work)
{
    (void)real_bytes;
    const tensor tensors[] = {{"state", f->state, 1, 1, sizeof *f->state, WRITTEN},
                              {"records", f->records, 1, 1, sizeof *f->records, WRITTEN},
                              {"loss", f->loss, 1, 1, sizeof *f->loss, OPTIONAL}};
    LS_TRY(ls_check_tensors("finish_step", 3, tensors, work));
    if (!f->capacity)
        return ls_fail(LS_CODE_USAGE, "finish_step", "capacity", "it is 0; give 1 or more");
    if (f->more && (!f->loss || !f->more_losses))
        return ls_fail(LS_CODE_USAGE, "finish_step", "more_losses",
                       "losses or their ring are NULL; give memory");
    const size_t losses = (size_t)f->capacity * f->more * sizeof *f->loss;
    LS_TRY(ls_work_touch(work, f->records, (size_t)f->capacity * sizeof *f->records, true));
    LS_TRY(ls_work_touch(work, f->loss, (1 + (size_t)f->more) * sizeof *f->loss, false));
    LS_TRY(ls_work_touch(work, f->more ? f->more_losses : NULL, losses, true));
    LS_TRY(ls_check_value("finish_step", "schedule.initial", f->schedule.initial));
    return ls_check_value("finish_step", "schedule.factor", f->schedule.factor);
}

ls_status ls_check_stamp(const ls_stamp_args *s, size_t real_bytes, ls_work *work)
{
    (void)real_bytes;
    const tensor tensors[] = {{"time_ns", s->time_ns, 1, 1, sizeof *s->time_ns, WRITTEN}};
    return ls_check_tensors("stamp", 1, tensors, work);
}

ls_status ls_check_flip_bit(const ls_flip_bit_args *f, size_t real_bytes, ls_work *work)
{
    (void)real_bytes;
    const tensor tensors[] = {{"data", f->data, f->count, 1, sizeof(float), WRITTEN},
                              {"state", f->state, 1, 1, sizeof *f->state, NEEDED}};
    return ls_check_tensors("flip_bit", 2, tensors, work);
}
