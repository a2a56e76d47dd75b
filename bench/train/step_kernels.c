/* SPDX-License-Identifier: MIT */
/* Which kernel each operation of a step got, and the parts of its time; see session.h. */
#include "bench/rows/row.h"
#include "bench/train/session.h"
#include "common/base/escape.h"

#include <stdio.h>
#include <string.h>

enum { JOINED = 192 };

/* Adds a name of `length` characters to the names joined by '+', unless it is among them. */
static void join_kernel(char joined[JOINED], const char *kernel, size_t length)
{
    for (const char *at = joined; *at; at += strcspn(at, "+"), at += *at == '+')
        if (strcspn(at, "+") == length && strncmp(at, kernel, length) == 0)
            return;
    ls_text_add(joined, JOINED, "%s%.*s", *joined ? "+" : "", (int)length, kernel);
}

/* An operation's name is "<entry>.<kernel>"; '+' joins several kernels of one entry. */
static void note_kernel(void *context, const ls_op *op)
{
    json_t *kernels = context;
    char entry[64], joined[JOINED] = "";
    const char *dot = strchr(op->name, '.'), *kernel = dot ? dot + 1 : op->name;
    snprintf(entry, sizeof entry, "%.*s", dot ? (int)(dot - op->name) : 63, op->name);
    const char *known = json_string_value(json_object_get(kernels, entry));
    if (known)
        snprintf(joined, sizeof joined, "%s", known);
    for (size_t length; *kernel; kernel += length, kernel += *kernel == '+') {
        length = strcspn(kernel, "+");
        join_kernel(joined, kernel, length);
    }
    json_object_set_new(kernels, entry, json_string(joined));
}

/* What multiplies bfloat16 (net_stored.c): "oneDNN 2.6.3 (brg:avx512_core_amx_bf16)". */
static void note_bf16(json_t *kernels)
{
    const char *library = json_string_value(json_object_get(kernels, "library"));
    const char *product = json_string_value(json_object_get(kernels, "bf16_product"));
    const char *attention = json_string_value(json_object_get(kernels, "attention_forward"));
    char text[JOINED + 64] = "by float32";
    if (!product && attention && strcmp(attention, "tiles") == 0)
        product = "attention";
    if (product) {
        const size_t length = strcspn(library, "(");
        snprintf(text, sizeof text, "%.*s%s(%s)", (int)length, library, library[length] ? "" : " ",
                 product);
    }
    json_object_set_new(kernels, "bf16", json_string(text));
}

json_t *ls_step_kernels(const ls_run *run)
{
    ls_run_info info;
    json_t *kernels = json_object();
    run->functions->describe(run, &info);
    json_object_set_new(kernels, "table", json_string(info.kernels));
    json_object_set_new(kernels, "library", json_string(info.kernel_library));
    run->functions->each_op(run, note_kernel, kernels);
    if (run->job && run->job->kernels.precision == LS_PRECISION_BF16)
        note_bf16(kernels);
    return kernels;
}

/* ---- The waterfall --------------------------------------------------------------------------- */

void ls_waterfall_parts(const double ms[LS_TIME_USES], double parts[LS_WATERFALL_PARTS])
{
    static const int part[LS_TIME_USES] = {
        [LS_TIME_COMPUTE] = 0,       [LS_TIME_BACKWARD] = 0, [LS_TIME_WEIGHTS] = 0,
        [LS_TIME_COMMUNICATION] = 1, [LS_TIME_WAIT] = 2,     [LS_TIME_DELAY] = 2,
        [LS_TIME_COPY] = 3,          [LS_TIME_GATHER] = 3,   [LS_TIME_OPTIMIZER] = 4,
        [LS_TIME_IDLE] = 5,          [LS_TIME_HARNESS] = 5,
    };
    for (int p = 0; p < LS_WATERFALL_PARTS; p++)
        parts[p] = 0;
    for (int use = 0; use < LS_TIME_USES; use++)
        parts[part[use]] += ms[use];
}

void ls_waterfall_put(json_t *row, const double ms[LS_TIME_USES])
{
    double parts[LS_WATERFALL_PARTS];
    ls_waterfall_parts(ms, parts);
    for (int p = 0; p < LS_WATERFALL_PARTS; p++)
        if (parts[p] > 0)
            ls_row_put_real(row, (ls_field_number)(LS_F_waterfall_compute_ms + p), parts[p]);
}
