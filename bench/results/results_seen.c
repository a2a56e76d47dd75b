/* SPDX-License-Identifier: MIT */
/* A row, prepared for the rules of what limits it; see results_seen.h. */
#include "bench/results/results_seen.h"

#include <math.h>
#include <string.h>

static double sum_of(const json_t *list)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_number_value(json_array_get(list, i));
    return sum;
}

static void put(const ls_seen *s, const char *name, double figure)
{
    json_object_set_new(s->figures, name, json_real(figure));
}

static void put_text(const ls_seen *s, const char *name, const char *text)
{
    json_object_set_new(s->figures, name, json_string(text));
}

/* The waterfall counts gathering a batch as a copy, but devices do not exchange it. */
static void look_at_devices(ls_seen *s)
{
    const json_t *loads = json_object_get(s->row, "device_load"), *load, *slowest = NULL;
    const double count = (double)json_array_size(loads);
    double all = 0;
    s->least_wait = count > 0 ? INFINITY : s->wait;
    for (size_t i = 0; (load = json_array_get(loads, i)) != NULL; i++) {
        const double wait = json_number_value(json_object_get(load, "waiting_ms"));
        all += wait;
        s->gather += json_number_value(json_object_get(load, "gathering_ms")) / count;
        slowest = wait < s->least_wait ? load : slowest;
        s->least_wait = fmin(wait, s->least_wait);
    }
    s->gather = fmin(s->gather, s->copy);
    s->copy -= s->gather;
    put(s, "rank", json_number_value(json_object_get(slowest, "rank")));
    const char *device = json_string_value(json_object_get(slowest, "device"));
    put_text(s, "device", device ? device : "");
    put(s, "least_wait", s->least_wait);
    put(s, "others_wait", (all - s->least_wait) / fmax(count - 1, 1));
}

static void look_at_memory(ls_seen *s)
{
    static const char *const state[] = {"parameters", "gradients", "optimizer"};
    const json_t *loads = json_object_get(s->row, "server_load");
    const json_t *devices = json_object_get(json_object_get(s->row, "memory"), "devices");
    s->servers = (double)json_array_size(loads);
    for (size_t i = 0; i < json_array_size(loads); i++)
        s->busy =
            fmax(s->busy, json_number_value(json_object_get(json_array_get(loads, i), "busy")));
    for (size_t i = 0; i < json_array_size(devices); i++) {
        double its = 0;
        for (int k = 0; k < 3; k++)
            its += json_number_value(json_object_get(json_array_get(devices, i), state[k]));
        s->state = fmax(s->state, its);
    }
}

void ls_seen_put_waiting(const ls_seen *s, double ms)
{
    char text[64] = "";
    if (ms > 0.005 * s->step)
        snprintf(text, sizeof text, ", and waiting for that %.0f%%", 100 * ms / s->step);
    json_object_set_new(s->figures, "waiting", json_string(text));
}

double ls_seen_streamed(const ls_seen *s)
{
    const double ms = s->compute + s->optimizer;
    return ms > 0 ? 2 * s->state / ms * 1e3 : 0;
}

/* ---- What words say that the row does not -----------------------------------------------------
 */

static void put_numbers(const ls_seen *s)
{
    const double pieces = ls_row_number(s->row, "case.pipeline_microbatches");
    const struct {
        const char *name;
        double figure;
    } numbers[] = {
        {"step", s->step},
        {"gather", s->gather},
        {"copies", s->copy / s->step},
        {"updates", s->optimizer / s->step},
        {"waits", s->wait / s->step},
        {"exchange", (s->exposed + s->copy) / s->step},
        {"work", s->compute + s->optimizer},
        {"devices", s->devices},
        {"replicas", s->replicas},
        {"samples", s->samples},
        {"wanted", s->wanted},
        {"busy", fmin(s->busy, 1)},
        {"update", s->optimizer * s->devices},
        {"state", s->state},
        {"streamed", ls_seen_streamed(s)},
        {"fitting", fmax(floor(s->cores / s->each), 1)},
        {"piece", s->piece},
        {"pieces", fmin(4 * fmax(pieces, 1), s->samples)},
        {"fewer", fmax(fmin(2 * s->devices, pieces), floor(s->samples / LS_FEW_SAMPLES))},
        {"larger", fmax(8 * s->batch, 1)},
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put(s, numbers[i].name, numbers[i].figure);
}

/* Formats a text with a number if it fits; otherwise uses the other one, or (NULL) none. */
static void put_case(const ls_seen *s, const char *name, bool fits, const char *format,
                     double number, const char *other)
{
    char text[160];
    snprintf(text, sizeof text, format, number);
    put_text(s, name, fits ? text : other ? other : "");
}

/* What to try where exchanges take long. A strategy with a period can exchange less often. */
static void put_exchanges(const ls_seen *s)
{
    const double period = ls_case_period(json_object_get(s->row, "case"));
    const double bucket = ls_row_number(s->row, "case.bucket_bytes");
    const bool small = s->sent < LS_FEW_BYTES * s->messages && bucket < LS_FEW_BYTES;
    const ls_strategy *strategy = ls_row_strategy(s->row);
    char longer[160] = "a longer period: parameters are averaged less often";
    if (strategy && strategy->period)
        snprintf(longer, sizeof longer, "--%s %.0f: parameters are averaged less often",
                 strategy->period->name, 4 * period);
    if (period > 0) {
        put_text(s, "faster", longer);
        put_text(s, "exchanges", longer);
        return;
    }
    put_case(s, "faster", !s->has_holder && !s->divided,
             "--batch %.0f: as many bytes a step, for four times the samples", 4 * s->batch,
             s->has_holder
                 ? "--strategy mirrored: gradients alone travel, and while backward still runs"
                 : "--strategy mirrored: gradients travel once a step, whatever the batch");
    put_text(s, "exchanges",
             s->servers > 0 ? "--ps-servers 2: each sends and receives half"
             : small        ? "--bucket-bytes auto: fewer messages, which are larger"
                            : "--allreduce all: which exchange suits these sizes");
}

static void put_texts(const ls_seen *s)
{
    const json_t *c = json_object_get(s->row, "case");
    const char *inject = ls_row_text(s->row, "case", "inject");
    char text[192] = "";
    if (*s->link)
        snprintf(text, sizeof text, " over links of %.120s", s->link);
    put_text(s, "over", text);
    snprintf(text, sizeof text, "; --inject %.120s is one", inject);
    put_text(s, "planted", strncmp(inject, "delay", 5) == 0 ? text : "");
    put_exchanges(s);
    put_case(s, "start", !json_is_false(json_object_get(c, "capture")),
             "--batch %.0f: what is between operations is shared by more", fmax(8 * s->batch, 1),
             "--capture yes: a step is put by one call, and not task by task");
    put_case(s, "threads", ls_row_number(s->row, "case.ranks") <= 1, " --ranks %.0f", 4, NULL);
    put_case(s, "reached", s->mfu > 0, "; products reach %.0f%% of the roof", 100 * s->mfu, NULL);
    put_text(s, "fetch",
             json_is_true(json_object_get(c, "towers_staged"))
                 ? "--strategy mirrored: each device has the variables"
                 : "--towers-staged yes: variables are fetched as soon as they are updated");
    put_text(s, "plainer",
             json_is_true(json_object_get(c, "augment"))
                 ? "--augment no: samples as they are"
                 : "--shuffle no: samples that lie one after the other");
    if (s->crowded || s->cores <= s->wanted)
        put_case(s, "more_cores", true, "--cores-per-device %.0f, where there are more cores",
                 fmax(2 * s->each, 2), NULL);
    else
        put_case(s, "more_cores", true, "--strategy mirrored --devices %.0f",
                 floor(s->cores / s->each), NULL);
}

/* ---- All of it --------------------------------------------------------------------------------
 */

ls_seen ls_seen_look(const json_t *row)
{
    const ls_strategy *strategy = ls_row_strategy(row);
    const json_t *c = json_object_get(row, "case"), *from = json_object_get(row, "provenance");
    const json_t *shares = json_object_get(c, "batch_per_device");
    ls_seen s = {.row = row,
                 .figures = json_object(),
                 .compute = ls_row_number(row, "waterfall.compute_ms"),
                 .exposed = ls_row_number(row, "waterfall.comm_exposed_ms"),
                 .wait = ls_row_number(row, "waterfall.wait_ms"),
                 .copy = ls_row_number(row, "waterfall.copy_ms"),
                 .optimizer = ls_row_number(row, "waterfall.optimizer_ms"),
                 .harness = ls_row_number(row, "waterfall.harness_ms"),
                 .devices = (double)json_array_size(json_object_get(c, "devices")),
                 .batch = ls_row_number(row, "case.batch_global"),
                 .mfu = ls_row_number(row, "time.mfu"),
                 .sent = ls_row_number(row, "traffic.bytes_sent"),
                 .messages = ls_row_number(row, "traffic.messages_sent"),
                 .cores = ls_row_number(row, "provenance.cores_allowed"),
                 .wanted = sum_of(json_object_get(from, "cores_per_device")),
                 .bubble = ls_row_number(row, "pipeline.bubble"),
                 .equal = ls_row_number(row, "pipeline.bubble_equal"),
                 .formula = ls_row_number(row, "pipeline.bubble_formula"),
                 .exact_cost = ls_row_number(row, "time.exact_cost"),
                 .apart = json_is_false(json_object_get(c, "colocate_gradients")),
                 .crowded = json_is_true(json_object_get(from, "oversubscribed")),
                 .has_holder = strategy && strategy->variables == LS_VARIABLES_HELD,
                 .divided = json_object_get(c, "model_parallel_place"),
                 .link = ls_row_text(row, "case", "link")};
    s.step = s.compute + s.exposed + s.wait + s.copy + s.optimizer + s.harness;
    s.linked = *s.link || ls_row_number(row, "case.hosts") > 1;
    for (size_t i = 0; i < json_array_size(shares); i++) {
        const double share = json_number_value(json_array_get(shares, i));
        s.replicas += share > 0 && (!strategy || strategy->replicated);
        s.samples = fmax(s.samples, share);
    }
    s.piece = s.bubble > 0 ? s.samples / ls_row_number(row, "case.pipeline_microbatches") : 0;
    s.each = fmax(s.wanted / fmax(s.devices, 1), 1);
    look_at_memory(&s);
    look_at_devices(&s);
    put_numbers(&s);
    put_texts(&s);
    return s;
}

void ls_seen_close(ls_seen *s)
{
    json_decref(s->figures);
    *s = (ls_seen){0};
}
