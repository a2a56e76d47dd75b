/* SPDX-License-Identifier: MIT */
/* Durations by key, and their file; see durations.h. */
#include "bench/predict/durations.h"

#include "bench/case/profile.h"
#include "bench/output/standard_output.h"
#include "bench/predict/virtual.h"
#include "bench/rows/row.h"
#include "common/base/grow.h"

#include <math.h>
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys ----------------------------------------------------------------------------------- */

static int by_key(const void *x, const void *y)
{
    const ls_duration *a = x, *b = y;
    if (a->flops < b->flops || a->flops > b->flops)
        return a->flops < b->flops ? -1 : 1;
    if (a->bytes < b->bytes || a->bytes > b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return strcmp(a->name, b->name);
}

ls_duration *ls_durations_find(const ls_durations *d, const char *name, double flops, double bytes)
{
    const ls_duration key = {.name = (char *)(size_t)name, .flops = flops, .bytes = bytes};
    ls_duration *const *found = tfind(&key, &d->by_key, by_key);
    return found ? *found : NULL;
}

static void free_item(void *item)
{
    free(((ls_duration *)item)->name);
    free(((ls_duration *)item)->samples);
    free(item);
}

ls_status ls_durations_add(ls_durations *d, const char *name, double flops, double bytes, double ns)
{
    ls_duration *item;
    LS_TRY(ls_grow("durations", &d->items, d->count, sizeof(ls_duration *)));
    LS_TRY(ls_allocate("durations", &item, 1, sizeof *item));
    *item = (ls_duration){.name = strdup(name), .flops = flops, .bytes = bytes, .ns = ns};
    if (!item->name || !tsearch(item, &d->by_key, by_key)) {
        free_item(item);
        return ls_fail_memory("durations", strlen(name));
    }
    d->items[d->count++] = item;
    return LS_OK;
}

double ls_duration_of(const ls_durations *d, const ls_op *op)
{
    if (d->profile)
        return ls_profile_has(op) ? op->flops : 0;
    if (d->flops_per_s > 0)
        return op->flops * 1e9 / d->flops_per_s;
    const ls_duration *item = ls_durations_find(d, op->name, op->flops, op->bytes);
    return item ? item->ns : NAN;
}

bool ls_duration_is_timed(const ls_op *op)
{
    return op->use != LS_TIME_DELAY && !ls_virtual_comm_of(op);
}

int ls_durations_cores(const ls_durations *d, int devices_per_host)
{
    return devices_per_host <= d->devices_per_host ? d->cores : 0;
}

const ls_message_times *ls_durations_messages(const ls_durations *d, int per_core)
{
    const ls_message_times *best = NULL;
    for (size_t i = 0; i < d->message_count; i++)
        if (!best || abs(d->messages[i].per_core - per_core) < abs(best->per_core - per_core))
            best = &d->messages[i];
    return best;
}

ls_status ls_durations_check(const ls_durations *d, const ls_step_run *run)
{
    for (int kind = 0; kind < run->kinds; kind++) {
        const ls_step_program *p = &run->program[kind];
        for (size_t i = 0; i < p->op_count; i++)
            if (ls_duration_is_timed(p->ops[i]) && isnan(ls_duration_of(d, p->ops[i])))
                return ls_fail(LS_CODE_MISSING, "durations", p->ops[i]->name,
                               "the durations of --durations do not include this operation (%.0f "
                               "FLOPs, %.0f bytes); run predict --calibrate with the same model, "
                               "batch and devices, or use --durations measured",
                               p->ops[i]->flops, p->ops[i]->bytes);
    }
    return LS_OK;
}

bool ls_durations_words(const ls_durations *d, bool sends, char *words, size_t size)
{
    static const double most = 0.05;
    double late = 0;
    for (size_t i = 0; i < d->message_count; i++)
        late = d->messages[i].late > late ? d->messages[i].late : late;
    if (!sends || late <= most)
        return false;
    snprintf(words, size,
             "noisy: other programs kept %.0f%% of the timed messages from a core; predict when "
             "they do not, or with --durations FILE",
             100 * late);
    return true;
}

bool ls_durations_scaled_words(const ls_durations *d, char *words, size_t size)
{
    if (d->scaled)
        snprintf(words, size,
                 "scaled: %zu of %zu durations follow from smaller operations, since measuring "
                 "them here takes too long; predict with --durations flops=RATE",
                 d->scaled, d->count);
    return d->scaled > 0;
}

void ls_durations_close(ls_durations *d)
{
    tdestroy(d->by_key, free_item);
    free(d->items);
    free(d->spread);
    free(d->messages);
    *d = (ls_durations){0};
}

/* ---- The file ------------------------------------------------------------------------------- */

static ls_status refuse(const char *path, const char *why)
{
    return ls_fail(LS_CODE_MISSING, "durations", path,
                   "%s; use a file that lockstep predict --calibrate --out FILE wrote", why);
}

static ls_status read_operations(const char *path, const json_t *operations, ls_durations *out)
{
    size_t i;
    json_t *one;
    json_array_foreach(operations, i, one)
    {
        const char *name;
        double flops, bytes, ns;
        if (json_unpack(one, "{s:s,s:F,s:F,s:F}", "name", &name, "flops", &flops, "bytes", &bytes,
                        "ns", &ns) ||
            flops < 0 || bytes < 0 || ns < 0)
            return refuse(
                path,
                "in `operations`, a name is missing, or flops, bytes or ns is missing or below 0");
        if (!ls_durations_find(out, name, flops, bytes))
            LS_TRY(ls_durations_add(out, name, flops, bytes, ns));
    }
    return out->count ? LS_OK : refuse(path, "this file lists no operations");
}

static ls_status read_spread(const char *path, const json_t *spread, ls_durations *out)
{
    size_t i;
    json_t *one;
    LS_TRY(ls_allocate("durations", &out->spread, json_array_size(spread) + 1, sizeof(double)));
    json_array_foreach(spread, i, one)
    {
        if (!json_is_number(one) || !(json_number_value(one) > 0))
            return refuse(path, "the list `spread` has an element that is not a number above 0");
        out->spread[out->spread_count++] = json_number_value(one);
    }
    return LS_OK;
}

static const char *const cost_names[LS_MESSAGE_COSTS] = {[LS_WAKE] = "wake_ns",
                                                         [LS_LATE] = "late_ns",
                                                         [LS_WITHIN] = "within_ns",
                                                         [LS_BETWEEN] = "between_ns"};

static ls_status read_messages(const char *path, const json_t *messages, ls_durations *out)
{
    size_t i;
    json_t *item;
    json_array_foreach(messages, i, item)
    {
        ls_message_times one = {0};
        bool wrong = json_unpack(item, "{s:i}", "per_core", &one.per_core) || one.per_core < 1;
        for (int c = 0; c < LS_MESSAGE_COSTS; c++) {
            double *ns = one.ns[c];
            wrong |= json_unpack(item, "{s:[F,F,F]}", cost_names[c], &ns[0], &ns[1], &ns[2]) ||
                     fmin(fmin(ns[0], ns[1]), ns[2]) < 0;
        }
        if (wrong)
            return refuse(
                path,
                "in `messages`, per_core is missing or below 1, or a time is missing or below 0");
        LS_TRY(ls_grow("durations", &out->messages, out->message_count, sizeof *out->messages));
        out->messages[out->message_count++] = one;
    }
    return LS_OK;
}

static ls_status read_root(const char *path, json_t *root, ls_durations *out)
{
    const json_t *spread = NULL, *operations = NULL;
    const json_t *messages = NULL;
    if (json_unpack(root, "{s:F,s:F,s?i,s?i,s?F,s?o,s?o,s?o}", "add_ns", &out->add_ns, "copy_ns",
                    &out->copy_ns, "devices_per_host", &out->devices_per_host, "cores", &out->cores,
                    "turn_ns", &out->turn_ns, "messages", &messages, "spread", &spread,
                    "operations", &operations) ||
        out->add_ns < 0 || out->copy_ns < 0 || out->cores < 0 || out->turn_ns < 0)
        return refuse(path, "add_ns or copy_ns is missing, or a time or number is below 0");
    LS_TRY(read_messages(path, messages, out));
    LS_TRY(read_spread(path, spread, out));
    return read_operations(path, operations, out);
}

ls_status ls_durations_read(const char *path, ls_durations *out)
{
    json_error_t error;
    json_auto_t *root = json_load_file(path, 0, &error);
    *out = (ls_durations){0};
    if (!root && error.line < 0) /* not opened: `text` says why */
        return refuse(path, error.text);
    if (!root)
        return ls_fail(LS_CODE_MISSING, "durations", path,
                       "line %d: %s; use a file that lockstep predict --calibrate --out FILE wrote",
                       error.line > 0 ? error.line : 1, error.text);
    ls_status status = read_root(path, root, out);
    if (status)
        ls_durations_close(out);
    return status;
}

static ls_status dump(FILE *stream, void *root)
{
    return json_dumpf(root, stream, JSON_INDENT(1)) == 0 || ferror(stream)
               ? LS_OK
               : ls_fail_memory("durations", 0);
}

ls_status ls_durations_write(const char *path, const ls_durations *d)
{
    json_t *operations = json_array();
    json_t *messages = json_array();
    json_auto_t *root =
        json_pack("{s:f,s:f,s:i,s:i,s:f,s:o,s:o,s:o}", "add_ns", d->add_ns, "copy_ns", d->copy_ns,
                  "devices_per_host", d->devices_per_host, "cores", d->cores, "turn_ns", d->turn_ns,
                  "messages", messages, "spread", ls_reals(d->spread, d->spread_count),
                  "operations", operations);
    for (size_t i = 0; i < d->message_count; i++) {
        json_t *one = json_pack("{s:i}", "per_core", d->messages[i].per_core);
        for (int c = 0; c < LS_MESSAGE_COSTS; c++)
            json_object_set_new(one, cost_names[c], ls_reals(d->messages[i].ns[c], LS_SLEPT));
        json_array_append_new(messages, one);
    }
    for (size_t i = 0; i < d->count; i++) {
        const ls_duration *one = d->items[i];
        json_array_append_new(operations,
                              json_pack("{s:s,s:f,s:f,s:f}", "name", one->name, "flops", one->flops,
                                        "bytes", one->bytes, "ns", one->ns));
    }
    return ls_output_file("--out", path, dump, root);
}
