/* SPDX-License-Identifier: MIT */
/* A session's memory; see session.h. */
#include "bench/train/session.h"

#include "common/base/grow.h"
#include "common/base/numbers.h"

#include <malloc.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS_TOLD = 4 };

/* ---- Needs ----------------------------------------------------------------------------------- */

void ls_need_of(const ls_session *session, ls_need *out)
{
    *out = (ls_need){0};
    out->devices = calloc(session->device_count + 1, sizeof *out->devices);
    for (size_t i = 0; out->devices && session->devices && i < session->device_count; i++) {
        if (!session->devices[i]) /* opening failed before this device */
            return;
        const ls_memory_ledger ledger = ls_device_ledger(session->devices[i]);
        ls_need_device *device = &out->devices[out->count++];
        snprintf(device->name, sizeof device->name, "%s",
                 ls_device_describe(session->devices[i])->text);
        device->limit = ledger.limit;
        memcpy(device->formula.bytes, ledger.in_use, sizeof ledger.in_use);
        out->full |= ledger.refused > 0;
    }
}

ls_need ls_need_copy(const ls_need *need)
{
    ls_need copy = {.devices = calloc(need->count + 1, sizeof *copy.devices)};
    if (copy.devices && need->count) {
        memcpy(copy.devices, need->devices, need->count * sizeof *copy.devices);
        copy.count = need->count;
    }
    return copy;
}

ls_status ls_need_join(ls_comm *comm, ls_need *need)
{
    if (!comm)
        return LS_OK;
    const size_t all = (size_t)comm->size * need->count;
    ls_need_device *devices = calloc(all + 1, sizeof *devices);
    ls_status status = need->devices && devices ? LS_OK : ls_fail_memory("ranks", all);
    status = ls_comm_bring(comm, status, need->devices, need->count * sizeof *devices, devices);
    if (!status)
        need->count = all;
    free(status ? devices : need->devices);
    need->devices = status ? need->devices : devices;
    return status;
}

void ls_need_free(ls_need *need)
{
    free(need->devices);
    *need = (ls_need){0};
}

size_t ls_need_sum(const ls_memory_formula *formula)
{
    size_t sum = 0;
    for (int use = 0; use < LS_MEMORY_USES; use++)
        sum += formula->bytes[use];
    return sum;
}

/* The use that follows use `last` in descending order of size (ties by index); -1 if there is none.
 */
static int next_use(const ls_memory_formula *formula, int last)
{
    int best = -1;
    for (int use = 0; use < LS_MEMORY_USES; use++) {
        const size_t bytes = formula->bytes[use];
        const bool told = last >= 0 && (bytes > formula->bytes[last] ||
                                        (bytes == formula->bytes[last] && use <= last));
        if (bytes && !told && (best < 0 || bytes > formula->bytes[best]))
            best = use;
    }
    return best;
}

size_t ls_need_print(FILE *stream, const ls_need *need, size_t first)
{
    const ls_need_device *device = &need->devices[first];
    size_t count = 1;
    char text[32];
    while (first + count < need->count &&
           memcmp(&device->formula, &device[count].formula, sizeof device->formula) == 0)
        count++;
    if (count > 2)
        fprintf(stream, "%s to ", device->name);
    else if (count == 2)
        fprintf(stream, "%s+", device->name);
    fprintf(stream, "%s: %s%s", device[count - 1].name,
            ls_format_bytes((double)ls_need_sum(&device->formula), text), count > 1 ? " each" : "");
    const char *before = " (";
    for (int use = next_use(&device->formula, -1); use >= 0;
         use = next_use(&device->formula, use)) {
        fprintf(stream, "%s%s %s", before, ls_memory_use_name((ls_memory_use)use),
                ls_format_bytes((double)device->formula.bytes[use], text));
        before = ", ";
    }
    fputc(')', stream);
    return count;
}

/* An option that reduces the largest use. */
static const char *remedy_of(const ls_memory_formula *formula)
{
    static const char *const remedies[LS_MEMORY_USES] = {
        [LS_MEMORY_PARAMETERS] = "a smaller model, or one that is divided (--strategy zero, "
                                 "pipeline, model-parallel)",
        [LS_MEMORY_GRADIENTS] = "a smaller model or --micro-shards, or one that is divided "
                                "(--strategy zero, pipeline, model-parallel)",
        [LS_MEMORY_OPTIMIZER] = "--optimizer sgd, a smaller model, or one that is divided "
                                "(--strategy zero, pipeline, model-parallel)",
        [LS_MEMORY_ACTIVATIONS] = "a smaller --batch, or more devices",
        [LS_MEMORY_COMMUNICATION] = "a smaller --bucket-bytes, or another --allreduce",
        [LS_MEMORY_WORKSPACE] = "a smaller --batch, or more devices",
    };
    return remedies[next_use(formula, -1)];
}

/* The device that needs the most memory beyond its limit; NULL if each has enough. */
static const ls_need_device *fullest(const ls_need *need)
{
    const ls_need_device *most = NULL;
    size_t lacks = 0;
    for (size_t i = 0; i < need->count; i++) {
        const size_t sum = ls_need_sum(&need->devices[i].formula), limit = need->devices[i].limit;
        if (sum > limit && sum - limit > lacks) {
            lacks = sum - limit;
            most = &need->devices[i];
        }
    }
    return most;
}

ls_status ls_need_refuse(const ls_need *need, const ls_plan_of_case *plan, bool judge)
{
    const ls_need_device *most = fullest(need);
    const char *memory = plan->devices->kind == LS_DEVICE_GPU ? "all" : "growth";
    ls_auto char *text = NULL;
    size_t size, told = 0;
    if (!most)
        return LS_OK;
    if (!judge && *plan->config->memory_text)
        memory = plan->config->memory_text;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return ls_fail_memory("the case", ls_need_sum(&most->formula));
    for (size_t i = 0; i < need->count && told < GROUPS_TOLD; told++) {
        fputs(i ? "; " : "", stream);
        i += ls_need_print(stream, need, i);
    }
    fclose(stream);
    return ls_fail(
        LS_CODE_MISSING, "memory", most->name,
        "%zu bytes are needed, but --memory %s allows only %zu bytes; memory of the %s by "
        "device: %s; use %s%s",
        ls_need_sum(&most->formula), judge ? "growth" : memory, most->limit,
        judge ? "check against the reference" : "case", text, remedy_of(&most->formula),
        judge                                 ? ", or --gate-steps 0"
        : strncmp(memory, "fraction", 8) == 0 ? ", or --memory growth"
                                              : "");
}

/* ---- Growth ---------------------------------------------------------------------------------- */

ls_memory_in_use ls_memory_in_use_by(const ls_session *session)
{
    const struct mallinfo2 heap = mallinfo2();
    ls_memory_in_use held = {.heap = heap.uordblks + heap.hblkhd};
    for (size_t i = 0; i < session->device_count; i++) {
        const ls_memory_ledger ledger = ls_device_ledger(session->devices[i]);
        for (int use = 0; use < LS_MEMORY_USES; use++)
            held.devices += ledger.in_use[use];
    }
    return held;
}

void ls_growth_add(ls_growth *growth, ls_memory_in_use before, ls_memory_in_use after,
                   uint64_t steps)
{
    const double heap = ((double)after.heap - (double)before.heap) / (double)steps;
    growth->devices += (double)after.devices - (double)before.devices;
    growth->steps += steps;
    growth->heap_least = growth->calls ? fmin(growth->heap_least, heap) : heap;
    growth->heap_most = growth->calls ? fmax(growth->heap_most, heap) : heap;
    growth->calls++;
}

double ls_growth_per_step(const ls_growth *growth)
{
    if (!growth->calls)
        return 0;
    const double heap = growth->steps < LS_GROWTH_STEPS ? 0 : fmax(growth->heap_least, 0);
    return growth->devices / (double)growth->steps + heap;
}
