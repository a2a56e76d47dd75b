/* SPDX-License-Identifier: MIT */
/* Kernels of a step; see step_kernels.h. */
#include "bench/train/step_kernels.h"

#include <stdio.h>
#include <string.h>

/* An operation's name is "<entry>.<kernel>"; several kernels of one entry are joined by '+'. */
static void note_kernel(void *context, const ls_op *op)
{
    json_t *kernels = context;
    char entry[64], joined[192];
    const char *dot = strchr(op->name, '.'), *kernel = dot ? dot + 1 : op->name;
    snprintf(entry, sizeof entry, "%.*s", dot ? (int)(dot - op->name) : 63, op->name);
    const char *known = json_string_value(json_object_get(kernels, entry));
    if (known && strstr(known, kernel))
        return;
    snprintf(joined, sizeof joined, "%s%s%s", known ? known : "", known ? "+" : "", kernel);
    json_object_set_new(kernels, entry, json_string(joined));
}

json_t *ls_step_kernels(const ls_run *run)
{
    ls_run_info info;
    json_t *kernels = json_object();
    run->kind->describe(run, &info);
    json_object_set_new(kernels, "table", json_string(info.kernels));
    json_object_set_new(kernels, "library", json_string(info.kernel_library));
    run->kind->each_op(run, note_kernel, kernels);
    return kernels;
}
