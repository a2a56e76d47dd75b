/* SPDX-License-Identifier: MIT */
/* Which kernel each operation of a step got; see session.h. */
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
