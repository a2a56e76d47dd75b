/* SPDX-License-Identifier: MIT */
/* Durations by key, and their file; see durations.h. */
#include "bench/predict/durations.h"

#include "bench/case/profile.h"
#include "bench/output/standard_output.h"
#include "bench/predict/virtual.h"
#include "bench/rows/row.h"
#include "common/base/digest.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Keys ----------------------------------------------------------------------------------- */

typedef struct key {
    double flops, bytes;
    uint64_t name;
} key;

static size_t slot_of(const ls_durations *d, const char *name, double flops, double bytes)
{
    const key k = {flops, bytes, ls_hash64(name, strlen(name))};
    return (size_t)ls_hash64(&k, sizeof k) & (d->slot_count - 1);
}

static bool same(double a, double b)
{
    return !(a < b) && !(a > b);
}

ls_duration *ls_durations_find(const ls_durations *d, const char *name, double flops, double bytes)
{
    if (!d->slot_count)
        return NULL;
    for (size_t s = slot_of(d, name, flops, bytes); d->slots[s];
         s = (s + 1) & (d->slot_count - 1)) {
        ls_duration *item = &d->items[d->slots[s] - 1];
        if (same(item->flops, flops) && same(item->bytes, bytes) && strcmp(item->name, name) == 0)
            return item;
    }
    return NULL;
}

static void put(ls_durations *d, size_t number)
{
    const ls_duration *item = &d->items[number];
    size_t s = slot_of(d, item->name, item->flops, item->bytes);
    while (d->slots[s])
        s = (s + 1) & (d->slot_count - 1);
    d->slots[s] = number + 1;
}

/* The table is at most half full. */
static ls_status make_room(ls_durations *d)
{
    if (2 * (d->count + 1) <= d->slot_count)
        return LS_OK;
    free(d->slots);
    d->slots = NULL;
    d->slot_count = d->slot_count ? 2 * d->slot_count : 64;
    LS_TRY(ls_allocate("durations", &d->slots, d->slot_count, sizeof *d->slots));
    for (size_t i = 0; i < d->count; i++)
        put(d, i);
    return LS_OK;
}

ls_status ls_durations_add(ls_durations *d, const char *name, double flops, double bytes, double ns)
{
    LS_TRY(make_room(d));
    LS_TRY(ls_grow("durations", &d->items, d->count, sizeof *d->items));
    char *copy = strdup(name);
    if (!copy)
        return ls_fail_memory("durations", strlen(name));
    d->items[d->count] = (ls_duration){.name = copy, .flops = flops, .bytes = bytes, .ns = ns};
    put(d, d->count++);
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
    for (size_t i = 0; i < d->count; i++) {
        free(d->items[i].name);
        free(d->items[i].samples);
    }
    free(d->items);
    free(d->slots);
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

static ls_status read_messages(const char *path, const json_t *messages, ls_durations *out)
{
    size_t i;
    json_t *item;
    json_array_foreach(messages, i, item)
    {
        ls_message_times one = {0};
        double *const wake = one.wake_ns, *const late = one.late_ns;
        double *const within_ns = one.within_ns, *const between_ns = one.between_ns, least = 0;
        const int failed = json_unpack(
            item, "{s:i,s:[F,F,F],s:[F,F,F],s:[F,F,F],s:[F,F,F]}", "per_core", &one.per_core,
            "wake_ns", &wake[0], &wake[1], &wake[2], "late_ns", &late[0], &late[1], &late[2],
            "within_ns", &within_ns[0], &within_ns[1], &within_ns[2], "between_ns", &between_ns[0],
            &between_ns[1], &between_ns[2]);
        for (size_t k = 0; k < LS_SLEPT; k++)
            least = fmin(least, fmin(fmin(wake[k], late[k]), fmin(within_ns[k], between_ns[k])));
        if (failed || least < 0 || one.per_core < 1)
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
        const ls_message_times *m = &d->messages[i];
        json_array_append_new(messages, json_pack("{s:i,s:o,s:o,s:o,s:o}", "per_core", m->per_core,
                                                  "wake_ns", ls_reals(m->wake_ns, LS_SLEPT),
                                                  "late_ns", ls_reals(m->late_ns, LS_SLEPT),
                                                  "within_ns", ls_reals(m->within_ns, LS_SLEPT),
                                                  "between_ns", ls_reals(m->between_ns, LS_SLEPT)));
    }
    for (size_t i = 0; i < d->count; i++)
        json_array_append_new(operations, json_pack("{s:s,s:f,s:f,s:f}", "name", d->items[i].name,
                                                    "flops", d->items[i].flops, "bytes",
                                                    d->items[i].bytes, "ns", d->items[i].ns));
    return ls_output_file("--out", path, dump, root);
}
