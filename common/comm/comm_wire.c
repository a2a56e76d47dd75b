/* SPDX-License-Identifier: MIT */
/* Means over a wire of fewer bits; see comm_wire.h. */
#include "common/comm/comm_wire.h"

#include "common/base/bf16_inline.h"
#include "common/comm/comm_parts.h"

#include <math.h>
#include <string.h>

enum { LINE = 64 }; /* parts begin on a cache line */

/* ---- Rounding -------------------------------------------------------------------------------- */

static const uint32_t magnitude = 0x7fffffff, infinite = 0x7f800000;

/* To the nearest whole number, ties to even, of up to 2^22 in absolute value. */
static float whole(float x)
{
    const float shift = 12582912.0f; /* 1.5 * 2^23: sums with it have no digits behind the point */
    return (x + shift) - shift;
}

static void raise_error(float *error, uint32_t largest)
{
    *error = ls_float_of_bits(largest) > *error ? ls_float_of_bits(largest) : *error;
}

static void pack_bf16(const float *x, size_t count, uint16_t *out, float *error)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        out[i] = ls_bf16_of_float(x[i]);
        const uint32_t off = ls_bits_of_float(ls_float_of_bf16(out[i]) - x[i]) & magnitude;
        const float of = ls_float_of_bits(ls_bits_of_float(x[i]) & magnitude),
                    apart = ls_float_of_bits(off) / of;
        const uint32_t bits = ls_bits_of_float(apart);
        largest = bits > largest && bits < infinite ? bits : largest;
    }
    raise_error(error, largest);
}

/* A row's scale; NaN if a value is not finite. */
static float scale_of(const float *x, size_t count)
{
    uint32_t largest = 0;
    for (size_t i = 0; i < count; i++) {
        const uint32_t size = ls_bits_of_float(x[i]) & magnitude;
        largest = size > largest ? size : largest;
    }
    return largest < infinite ? ls_float_of_bits(largest) / 127 : NAN;
}

static void pack_row(const float *x, size_t count, float *scale, int8_t *out, float *error)
{
    uint32_t largest = 0;
    *scale = scale_of(x, count);
    if (!(*scale > 0)) {
        memset(out, 0, count);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const float quotient = x[i] / *scale, q = whole(quotient);
        const uint32_t off = ls_bits_of_float(q - quotient) & magnitude;
        out[i] = (int8_t)q;
        largest = off > largest ? off : largest;
    }
    raise_error(error, largest);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

/* Where a rank's part of the elements is; int8: and of the rows. */
typedef struct part_of {
    ls_range elements;
    size_t row, rows;
} part_of;

static part_of find_part(ls_wire_form wire, ls_extent extent, int rank, int ranks)
{
    part_of part = {.elements = ls_comm_parts(extent, rank, 1, ranks)};
    if (wire == LS_WIRE_INT8) {
        part.row = ls_comm_share(extent.blocks, rank, ranks);
        part.rows = ls_comm_share(extent.blocks, rank + 1, ranks) - part.row;
    }
    return part;
}

static size_t bytes_of(ls_wire_form wire, const part_of *part)
{
    return wire == LS_WIRE_INT8 ? part->rows * sizeof(float) + part->elements.count
                                : part->elements.count * sizeof(uint16_t);
}

static size_t lines(size_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

/* Packs a part: int8: scales, then bytes. */
static void pack(const ls_wired_args *a, const part_of *p, unsigned char *out)
{
    const float *x = a->data;
    if (a->wire == LS_WIRE_BF16) {
        pack_bf16(x + p->elements.first, p->elements.count, (uint16_t *)(void *)out, a->error);
        return;
    }
    float *scales = (float *)(void *)out;
    int8_t *values = (int8_t *)(scales + p->rows);
    for (size_t r = 0; r < p->rows; r++) {
        const size_t first = a->extent.begin[p->row + r],
                     count = a->extent.begin[p->row + r + 1] - first;
        pack_row(x + first, count, &scales[r], values + (first - p->elements.first), a->error);
    }
}

/* Sets a part to what was packed, or adds that. */
static void unpack(const ls_wired_args *a, const part_of *p, const unsigned char *in, bool add)
{
    float *y = a->data + p->elements.first;
    if (a->wire == LS_WIRE_BF16) {
        const uint16_t *values = (const uint16_t *)(const void *)in;
        for (size_t i = 0; i < p->elements.count; i++)
            y[i] = add ? y[i] + ls_float_of_bf16(values[i]) : ls_float_of_bf16(values[i]);
        return;
    }
    const float *scales = (const float *)(const void *)in;
    const int8_t *values = (const int8_t *)(scales + p->rows);
    for (size_t r = 0; r < p->rows; r++) {
        const size_t end = a->extent.begin[p->row + r + 1] - p->elements.first;
        for (size_t i = a->extent.begin[p->row + r] - p->elements.first; i < end; i++) {
            const float value = (float)values[i] * scales[r];
            y[i] = add ? y[i] + value : value;
        }
    }
}

/* ---- Room ------------------------------------------------------------------------------------ */

/* Packed parts of all owners, then what the others send to this one. */
static unsigned char *packed_at(const ls_wired_args *a, int owner, int ranks)
{
    unsigned char *at = a->room;
    for (int d = 0; d < owner; d++) {
        const part_of part = find_part(a->wire, a->extent, d, ranks);
        at += lines(bytes_of(a->wire, &part));
    }
    return at;
}

static unsigned char *arrived_at(const ls_wired_args *a, int rank, int ranks, int from)
{
    const part_of own = find_part(a->wire, a->extent, rank, ranks);
    return packed_at(a, ranks, ranks) +
           (size_t)(from < rank ? from : from - 1) * lines(bytes_of(a->wire, &own));
}

size_t ls_wired_room(ls_wire_form wire, int rank, int ranks, ls_extent extent)
{
    const ls_wired_args a = {.wire = wire, .extent = extent};
    return (size_t)(arrived_at(&a, rank, ranks, ranks) - a.room);
}

/* ---- Operations ------------------------------------------------------------------------------ */

typedef struct wired_op {
    ls_op op;
    ls_wired_args args;
    int rank, ranks;
} wired_op;

static ls_status run_pack(ls_op *op, ls_queue *queue)
{
    const wired_op *w = (const wired_op *)op;
    (void)queue;
    for (int d = 0; d < w->ranks; d++) {
        const part_of part = find_part(w->args.wire, w->args.extent, d, w->ranks);
        pack(&w->args, &part, packed_at(&w->args, d, w->ranks));
    }
    return LS_OK;
}

/* The owner's mean, packed where its own addend was. */
static ls_status run_mean(ls_op *op, ls_queue *queue)
{
    const wired_op *w = (const wired_op *)op;
    const ls_wired_args *a = &w->args;
    const part_of own = find_part(a->wire, a->extent, w->rank, w->ranks);
    unsigned char *packed = packed_at(a, w->rank, w->ranks);
    float *mean = a->data + own.elements.first;
    (void)queue;
    for (int d = 0; d < w->ranks; d++)
        unpack(a, &own, d == w->rank ? packed : arrived_at(a, w->rank, w->ranks, d), d > 0);
    for (size_t i = 0; i < own.elements.count; i++)
        mean[i] = mean[i] / (float)w->ranks;
    pack(a, &own, packed);
    return LS_OK;
}

static ls_status run_unpack(ls_op *op, ls_queue *queue)
{
    const wired_op *w = (const wired_op *)op;
    (void)queue;
    for (int d = 0; d < w->ranks; d++) {
        const part_of part = find_part(w->args.wire, w->args.extent, d, w->ranks);
        unpack(&w->args, &part, packed_at(&w->args, d, w->ranks), false);
    }
    return LS_OK;
}

static ls_status add_op(const ls_comm *comm, const ls_wired_args *a, const char *name,
                        ls_status (*run)(ls_op *op, ls_queue *queue), ls_op_list *ops)
{
    const size_t room = ls_wired_room(a->wire, comm->rank, comm->size, a->extent);
    const ls_access touched[] = {{a->data, a->extent.count * sizeof *a->data, true},
                                 {a->room, room, true},
                                 {a->error, sizeof *a->error, true}};
    wired_op *w;
    LS_TRY(ls_allocate("wire", &w, 1, sizeof *w));
    *w = (wired_op){.op = {.name = name,
                           .run = run,
                           .use = LS_TIME_COMMUNICATION,
                           .bytes = (double)(a->extent.count * sizeof *a->data + room)},
                    .args = *a,
                    .rank = comm->rank,
                    .ranks = comm->size};
    ls_status status = ls_op_touches(&w->op, touched, 3);
    if (!status)
        return ls_op_list_add(ops, &w->op);
    ls_op_free(&w->op);
    return status;
}

/* Every rank's part to its owner, or an owner's mean to every rank. */
static ls_status add_messages(ls_comm *comm, const ls_wired_args *a, bool gathers, ls_op_list *ops)
{
    const int n = comm->size, me = comm->rank;
    const part_of own = find_part(a->wire, a->extent, me, n);
    for (int k = 1; k < n; k++) {
        const int to = (me + k) % n, from = (me - k + n) % n;
        const part_of its = find_part(a->wire, a->extent, gathers ? from : to, n);
        const size_t mine = bytes_of(a->wire, &own), theirs = bytes_of(a->wire, &its);
        LS_TRY(ls_comm_add_exchange(
            comm, ops,
            &(ls_exchange){.bytes = true,
                           .to = to,
                           .send = (const float *)(void *)packed_at(a, gathers ? me : to, n),
                           .send_count = gathers ? mine : theirs,
                           .from = from,
                           .receive = (float *)(void *)(gathers ? packed_at(a, from, n)
                                                                : arrived_at(a, me, n, from)),
                           .receive_count = gathers ? theirs : mine}));
    }
    return LS_OK;
}

ls_status ls_wired_mean_build(ls_comm *comm, const ls_wired_args *a, ls_op_list *ops)
{
    if (ls_device_describe(comm->device)->name.kind == LS_DEVICE_GPU)
        return ls_fail(LS_CODE_MISSING, "wire", ls_device_describe(comm->device)->text,
                       "rounds for a wire on CPU devices only; use --local-sgd-wire float32");
    LS_TRY(add_op(comm, a, "wire.pack", run_pack, ops));
    LS_TRY(add_messages(comm, a, false, ops));
    LS_TRY(add_op(comm, a, "wire.mean", run_mean, ops));
    LS_TRY(add_messages(comm, a, true, ops));
    return add_op(comm, a, "wire.unpack", run_unpack, ops);
}

ls_traffic ls_wired_formula(ls_wire_form wire, int ranks, ls_extent extent)
{
    const uint64_t twice = 2 * ((uint64_t)ranks - 1);
    const part_of all = {.elements = {0, extent.count}, .rows = extent.blocks};
    return (ls_traffic){.bytes_sent = twice * bytes_of(wire, &all),
                        .messages_sent = twice * ls_comm_filled(extent, ranks)};
}
