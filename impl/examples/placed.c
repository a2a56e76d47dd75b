/* SPDX-License-Identifier: MIT */
/*
 * Placed operations; see placed.h. A step makes one matrix, by its operations or by a copy of
 * another step's. The first device used drives the program: the queues of all others wait for its
 * start, each step waits for the matrices that it copies, and the end waits for all queues.
 */
#include "impl/examples/placed.h"

#include "common/device/op_list.h"
#include "common/kernel/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct site {
    ls_device *device;
    ls_queue *queue;
    ls_kernels *kernels;
    ls_event *edge; /* the start on the first site; on all others their end */
    struct site *next;
} site;

typedef struct step {
    ls_matrix matrix;
    site *at;
    const struct step *source; /* the step that it copies; NULL means made by `ops` */
    ls_op_list ops;            /* empty for a constant */
    ls_event *made;            /* NULL means no other device copies it */
    struct step *next;
} step;

struct ls_placed {
    const ls_placement *placement;
    site *sites;
    step *steps;
    ls_program *program; /* NULL if not captured */
};

static size_t bytes_of(const ls_matrix *matrix)
{
    return (size_t)(matrix->rows * matrix->columns) * sizeof(float);
}

/* ---- Devices -------------------------------------------------------------------------------- */

static void close_site(site *s)
{
    ls_queue_close(s->queue);
    ls_event_close(s->edge);
    if (s->kernels)
        s->kernels->table->close(s->kernels);
    ls_device_close(s->device);
    free(s);
}

static ls_status fill_site(const ls_placed *me, const ls_device_name *name, site *s)
{
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    const ls_kernel_table *table = ls_kernel_table_default(name->kind);
    LS_TRY(ls_device_open(me->placement->machine, name, &policy, &s->device));
    if (!table)
        return ls_fail(LS_CODE_MISSING, "device", ls_device_describe(s->device)->text,
                       "this build has no kernels for this device; use cpu:0");
    LS_TRY(ls_queue_open(s->device, "placed", &s->queue));
    LS_TRY(ls_event_open(s->device, &s->edge));
    return table->open(s->device, &s->kernels);
}

static bool same_device(const ls_device_name *a, const ls_device_name *b)
{
    return a->kind == b->kind && a->index == b->index && a->logical == b->logical;
}

static ls_status find_site(ls_placed *me, const ls_device_name *name, site **out)
{
    site **end = &me->sites;
    for (; *end; end = &(*end)->next)
        if (same_device(&ls_device_describe((*end)->device)->name, name)) {
            *out = *end;
            return LS_OK;
        }
    site *s = calloc(1, sizeof *s);
    if (!s)
        return ls_fail_memory("placed operations", sizeof *s);
    ls_status status = fill_site(me, name, s);
    if (status) {
        close_site(s);
        return status;
    }
    *end = s;
    *out = s;
    return LS_OK;
}

/* Chooses the device of an operation and logs it. */
static ls_status place_operation(ls_placed *me, ls_place place, site **out)
{
    ls_device_name name;
    LS_TRY(ls_placement_device(me->placement, place.name, place.device, &name));
    LS_TRY(find_site(me, &name, out));
    ls_placement_log(me->placement, place.name, &name, NULL);
    return LS_OK;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static ls_status add_step(ls_placed *me, const char *name, site *at, const int64_t shape[2],
                          step **out)
{
    size_t bytes;
    if (shape[0] < 1 || shape[1] < 1 || __builtin_mul_overflow(shape[0], shape[1], &bytes) ||
        bytes > SIZE_MAX / sizeof(float))
        return ls_fail(LS_CODE_USAGE, "operation", name,
                       "[%lld, %lld] is not a valid shape; give two sizes of at least 1, whose "
                       "product fits in memory",
                       (long long)shape[0], (long long)shape[1]);
    step *s = calloc(1, sizeof *s);
    if (!s)
        return ls_fail_memory(name, sizeof *s);
    s->matrix = (ls_matrix){.rows = shape[0], .columns = shape[1], .device = at->device};
    snprintf(s->matrix.name, sizeof s->matrix.name, "%s", name);
    s->at = at;
    ls_status status = ls_device_allocate(at->device, LS_MEMORY_ACTIVATIONS, bytes * sizeof(float),
                                          &s->matrix.data);
    if (status) {
        free(s);
        return status;
    }
    step **end = &me->steps;
    while (*end)
        end = &(*end)->next;
    *end = s;
    *out = s;
    ls_program_close(me->program);
    me->program = NULL;
    return LS_OK;
}

static ls_status find_step(const ls_placed *me, const ls_matrix *matrix, step **out)
{
    for (step *s = me->steps; s; s = s->next)
        if (&s->matrix == matrix) {
            *out = s;
            return LS_OK;
        }
    return ls_fail(LS_CODE_USAGE, "matrix", matrix->name,
                   "this matrix was created for another list of operations (ls_placed); create it "
                   "for the list that uses it");
}

/* The matrix on this site: itself, or a copy, which may be new. */
static ls_status bring(ls_placed *me, const ls_matrix *matrix, site *at, const void **out)
{
    step *source = NULL, *copy = NULL;
    LS_TRY(find_step(me, matrix, &source));
    for (step *s = me->steps; s; s = s->next)
        if (s->at == at && (s == source || s->source == source)) {
            *out = s->matrix.data;
            return LS_OK;
        }
    if (!source->made)
        LS_TRY(ls_event_open(source->at->device, &source->made));
    LS_TRY(add_step(me, matrix->name, at, (int64_t[]){matrix->rows, matrix->columns}, &copy));
    copy->source = source;
    *out = copy->matrix.data;
    return LS_OK;
}

ls_status ls_placed_constant(ls_placed *me, ls_place place, int64_t rows, int64_t columns,
                             const float *values, const ls_matrix **out)
{
    site *at;
    step *s = NULL;
    LS_TRY(place_operation(me, place, &at));
    LS_TRY(add_step(me, place.name, at, (int64_t[]){rows, columns}, &s));
    *out = &s->matrix;
    return ls_queue_write(at->queue, s->matrix.data, values, bytes_of(&s->matrix));
}

ls_status ls_placed_matmul(ls_placed *me, ls_place place, const ls_matrix *a, const ls_matrix *b,
                           const ls_matrix **out)
{
    site *at;
    step *s;
    ls_op *op;
    if (a->columns != b->rows)
        return ls_fail(LS_CODE_USAGE, "operation", place.name,
                       "[%lld, %lld] times [%lld, %lld] is not possible; give a first matrix with "
                       "as many columns as the second has rows",
                       (long long)a->rows, (long long)a->columns, (long long)b->rows,
                       (long long)b->columns);
    ls_gemm_args args = {.m = a->rows, .n = b->columns, .k = a->columns};
    LS_TRY(place_operation(me, place, &at));
    LS_TRY(bring(me, a, at, &args.a));
    LS_TRY(bring(me, b, at, &args.b));
    LS_TRY(add_step(me, place.name, at, (int64_t[]){args.m, args.n}, &s));
    args.c = s->matrix.data;
    LS_TRY(at->kernels->table->gemm(at->kernels, &args, &op));
    *out = &s->matrix;
    return ls_op_list_add(&s->ops, op);
}

static ls_status check_terms(const char *name, const ls_matrix *const *terms, size_t count)
{
    bool fits = count >= 2;
    for (size_t i = 1; i < count; i++)
        fits = fits && terms[i]->rows == terms[0]->rows && terms[i]->columns == terms[0]->columns;
    return fits ? LS_OK
                : ls_fail(LS_CODE_USAGE, "operation", name,
                          "the terms (%zu) are fewer than two, or not all of one shape; give two "
                          "terms or more, all of one shape",
                          count);
}

ls_status ls_placed_add_n(ls_placed *me, ls_place place, const ls_matrix *const *terms,
                          size_t count, const ls_matrix **out)
{
    site *at;
    step *s;
    LS_TRY(check_terms(place.name, terms, count));
    LS_TRY(place_operation(me, place, &at));
    const void *first, *unused;
    for (size_t i = 0; i < count; i++) /* copies precede the step that reads them */
        LS_TRY(bring(me, terms[i], at, &unused));
    LS_TRY(bring(me, terms[0], at, &first));
    LS_TRY(add_step(me, place.name, at, (int64_t[]){terms[0]->rows, terms[0]->columns}, &s));
    for (size_t i = 1; i < count; i++) {
        ls_op *op;
        ls_add_args args = {.count = s->matrix.rows * s->matrix.columns,
                            .a = i == 1 ? first : s->matrix.data,
                            .y = s->matrix.data};
        LS_TRY(bring(me, terms[i], at, &args.b));
        LS_TRY(at->kernels->table->add(at->kernels, &args, &op));
        LS_TRY(ls_op_list_add(&s->ops, op));
    }
    *out = &s->matrix;
    return LS_OK;
}

/* ---- Running -------------------------------------------------------------------------------- */

static ls_status enqueue_step(const step *s)
{
    const step *source = s->source;
    if (source) {
        LS_TRY(ls_queue_wait(s->at->queue, source->made));
        LS_TRY(ls_queue_copy(s->at->queue, s->matrix.data, s->at->device, source->matrix.data,
                             source->at->device, bytes_of(&s->matrix)));
    }
    LS_TRY(ls_op_list_enqueue(&s->ops, s->at->queue));
    return s->made ? ls_queue_record(s->at->queue, s->made) : LS_OK;
}

static ls_status enqueue_all(const ls_placed *me)
{
    const site *origin = me->sites;
    LS_TRY(ls_queue_record(origin->queue, origin->edge));
    for (const site *s = origin->next; s; s = s->next)
        LS_TRY(ls_queue_wait(s->queue, origin->edge));
    for (const step *s = me->steps; s; s = s->next)
        LS_TRY(enqueue_step(s));
    for (const site *s = origin->next; s; s = s->next) {
        LS_TRY(ls_queue_record(s->queue, s->edge));
        LS_TRY(ls_queue_wait(origin->queue, s->edge));
    }
    return LS_OK;
}

ls_status ls_placed_run(ls_placed *me)
{
    if (!me->steps)
        return ls_fail(LS_CODE_USAGE, "placed operations", "run",
                       "there are no operations to run; add an operation first");
    if (!me->program) {
        LS_TRY(ls_program_begin(me->sites->queue));
        ls_status enqueued = enqueue_all(me);
        LS_TRY(ls_status_first(enqueued, ls_program_end(me->sites->queue, &me->program)));
    }
    ls_status status = ls_program_launch(me->program, 1);
    for (const site *s = me->sites; s; s = s->next)
        status = ls_status_first(status, ls_queue_sync(s->queue));
    return status;
}

ls_status ls_placed_read(const ls_placed *me, const ls_matrix *matrix, float *values)
{
    step *s = NULL;
    LS_TRY(find_step(me, matrix, &s));
    return ls_queue_read(s->at->queue, values, matrix->data, bytes_of(matrix));
}

ls_program_info ls_placed_describe(const ls_placed *me)
{
    return me->program ? ls_program_describe(me->program) : (ls_program_info){0};
}

ls_traffic ls_placed_traffic(const ls_placed *me)
{
    ls_traffic sent = {0};
    for (const step *s = me->steps; s; s = s->next)
        if (s->source) {
            sent.messages_sent++;
            sent.bytes_sent += bytes_of(&s->matrix);
        }
    return sent;
}

ls_status ls_placed_open(const ls_placement *placement, ls_placed **out)
{
    ls_placed *me = calloc(1, sizeof *me);
    if (!me)
        return ls_fail_memory("placed operations", sizeof *me);
    me->placement = placement;
    *out = me;
    return LS_OK;
}

void ls_placed_close(ls_placed *me)
{
    if (!me)
        return;
    ls_program_close(me->program);
    while (me->steps) {
        step *s = me->steps;
        me->steps = s->next;
        ls_op_list_clear(&s->ops);
        ls_event_close(s->made);
        ls_device_release(s->at->device, s->matrix.data);
        free(s);
    }
    while (me->sites) {
        site *s = me->sites;
        me->sites = s->next;
        close_site(s);
    }
    free(me);
}
