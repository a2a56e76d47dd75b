/* SPDX-License-Identifier: MIT */
/*
 * What bounds a step, in three lines: the cause, the evidence, the option most worth trying.
 *
 * A table of rules: each computes from the row's fields alone how much of the mean step its cause
 * explains, or 0. The rule that explains most is printed; of equals the first. Parts of the
 * waterfall are means over the devices. So what one device does while n - 1 others wait for it
 * explains n times its part, at most the waiting. A device at under a fifth of its peak counts as
 * little used, and 32 samples as few: beyond these, products gain little.
 */
#include "bench/results/results_verbs.h"

#include "common/base/numbers.h"
#include "common/device/link.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const double little_use = 0.2, few_samples = 32, large_state = 16 << 20, many_bytes_s = 5e8,
                    busy_server = 0.5, much_to_do = 0.08, link_share = 0.25;

/* The row's fields that rules look at; 0 where there is none. Times in ms of the mean step. */
typedef struct seen {
    const json_t *row;
    json_t *figures; /* those that words have and the row has not */
    double step, compute, exposed, wait, copy, gather, optimizer, harness; /* copy: no gathering */
    double devices, replicas, batch, samples, mfu, sent, messages;
    double cores, wanted; /* cores there are, and that the devices would have */
    double servers, busy; /* parameter servers, and how busy the busiest is: 0..1 */
    double bubble;        /* of a pipeline: share of the step */
    double state;         /* bytes of parameters, gradients, optimizer of the fullest device */
    double least_wait;    /* of the device that waits least; of the waterfall's where not known */
    bool nobody_waits;    /* for another: what is waited is a delay that was asked for */
    bool crowded, linked;
    bool held, divided; /* one device has the variables; a model's parts lie apart */
    const char *link;
} seen;

typedef struct rule {
    const char *cause;
    /** ms of the mean step that it explains; 0: it is not the cause. */
    double (*explains)(const seen *s);
    /** The second and the third line, without what they begin with: {name} is a figure of the row
     * by its path, or one of seen.figures; before the name stands % for percent, # for a whole
     * number, B for bytes. */
    const char *evidence, *option;
    size_t part; /* where there is no function: of `seen`, that it explains */
} rule;

/* ---- The row --------------------------------------------------------------------------------- */

static double sum_of(const json_t *list)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_number_value(json_array_get(list, i));
    return sum;
}

static void put(const seen *s, const char *name, double figure)
{
    json_object_set_new(s->figures, name, json_real(figure));
}

static void put_text(const seen *s, const char *name, const char *text)
{
    json_object_set_new(s->figures, name, json_string(text));
}

/* Gathering a batch is a copy of the waterfall's, and nothing that devices exchange. */
static void look_at_devices(seen *s)
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
    s->nobody_waits = count > 0 && all < 0.01 * s->wait;
    put(s, "least_wait", s->least_wait);
    put(s, "others_wait", (all - s->least_wait) / fmax(count - 1, 1));
}

static void look_at_memory(seen *s)
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

/* Bytes a second of a pass forward and backward over the variables, and of the update. */
static double streamed(const seen *s)
{
    const double ms = s->compute + s->optimizer;
    return ms > 0 ? 2 * s->state / ms * 1e3 : 0;
}

/* What words say that the row does not. */
static void put_figures(const seen *s)
{
    const json_t *c = json_object_get(s->row, "case");
    const double pieces = ls_row_number(s->row, "case.pipeline_microbatches");
    const double each = fmax(s->wanted / fmax(s->devices, 1), 1); /* cores of a device */
    char text[160] = "";
    put(s, "step", s->step);
    put(s, "gather", s->gather);
    put(s, "copies", s->copy / s->step);
    put(s, "waits", s->wait / s->step);
    put(s, "exchange", (s->exposed + s->copy) / s->step);
    put(s, "work", s->compute + s->optimizer);
    put(s, "devices", s->devices);
    put(s, "replicas", s->replicas);
    put(s, "samples", s->samples);
    put(s, "wanted", s->wanted);
    put(s, "busy", fmin(s->busy, 1));
    put(s, "update", s->optimizer * s->devices);
    put(s, "state", s->state);
    put(s, "streamed", streamed(s));
    put(s, "fitting", fmax(floor(s->cores / each), 1));
    put(s, "pieces", fmin(4 * fmax(pieces, 1), s->batch));
    put(s, "larger", fmax(8 * s->batch, 1));
    if (*s->link)
        snprintf(text, sizeof text, " over links of %.120s", s->link);
    put_text(s, "over", text);
    snprintf(text, sizeof text, "--batch %.0f: as many bytes a step, for four times the samples",
             4 * s->batch);
    put_text(s, "faster",
             s->held      ? "--strategy mirrored: gradients alone travel, and while backward "
                            "still runs"
             : s->divided ? "--strategy mirrored: gradients travel once a step, whatever the "
                            "batch"
                          : text);
    put_text(s, "exchanges",
             s->servers > 0 ? "--ps-servers 2: each sends and receives half"
                            : "--allreduce all: which exchange suits these sizes");
    put_text(s, "threads", ls_row_number(s->row, "case.ranks") > 1 ? "" : " --ranks 4");
    put_text(s, "fetch",
             json_is_true(json_object_get(c, "towers_staged"))
                 ? "--strategy mirrored: each device has the variables"
                 : "--towers-staged yes: variables are fetched as soon as they are updated");
    put_text(s, "plainer",
             json_is_true(json_object_get(c, "augment"))
                 ? "--augment no: samples as they are"
                 : "--shuffle no: samples that lie one after the other");
    snprintf(text, sizeof text, "; --inject %.120s is one", ls_row_text(s->row, "case", "inject"));
    put_text(s, "planted",
             strncmp(ls_row_text(s->row, "case", "inject"), "delay", 5) == 0 ? text : "");
    snprintf(text, sizeof text, "; products reach %.0f%% of the roof", 100 * s->mfu);
    put_text(s, "reached", s->mfu > 0 ? text : "");
    if (s->crowded || s->cores <= s->wanted)
        snprintf(text, sizeof text, "--cores-per-device %.0f, where there are more cores",
                 fmax(2 * each, 2));
    else
        snprintf(text, sizeof text, "--strategy mirrored --devices %.0f", floor(s->cores / each));
    put_text(s, "more_cores", text);
}

static seen look(const json_t *row)
{
    const ls_strategy *strategy = ls_row_strategy(row);
    const json_t *c = json_object_get(row, "case"), *from = json_object_get(row, "provenance");
    const json_t *shares = json_object_get(c, "batch_per_device");
    seen s = {.row = row,
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
              .crowded = json_is_true(json_object_get(from, "oversubscribed")),
              .held = strategy && strategy->variables == LS_VARIABLES_HELD,
              .divided = strategy && ls_strategy_divides(strategy),
              .link = ls_row_text(row, "case", "link")};
    s.step = s.compute + s.exposed + s.wait + s.copy + s.optimizer + s.harness;
    s.linked = *s.link || ls_row_number(row, "case.hosts") > 1;
    for (size_t i = 0; i < json_array_size(shares); i++) {
        const double share = json_number_value(json_array_get(shares, i));
        s.replicas += share > 0;
        s.samples = fmax(s.samples, share);
    }
    look_at_memory(&s);
    look_at_devices(&s);
    put_figures(&s);
    return s;
}

/* ---- Causes ---------------------------------------------------------------------------------- */

/* How long the others wait while one device spends `part` (of the mean) on work of its own.
 */
static double waited_for(const seen *s, double part)
{
    return fmin(s->wait, part * fmax(s->devices - 1, 0));
}

/* The same for towers, which wait for the device with the variables where that has much to do, else
 * for a slow tower. */
static double waited_for_holder(const seen *s, double part)
{
    const double all = s->copy + s->optimizer;
    return all >= much_to_do * s->step ? s->wait * part / all : waited_for(s, part);
}

/* What links of --link take at most, one message after the other; else it is not known. */
static double most_of_link(const seen *s)
{
    ls_link link = {0};
    ls_status status = *s->link ? ls_link_parse(s->link, &link) : LS_OK;
    const bool known = *s->link && !status;
    ls_status_free(status);
    const double bytes_s = link.bytes_per_s > 0 ? s->sent / link.bytes_per_s : 0;
    return known ? 1e3 * bytes_s + 1e-6 * (double)link.latency_ns * s->messages : s->step;
}

static double by_link(const seen *s)
{
    if (!s->linked || s->sent <= 0)
        return 0;
    const double wait = s->servers > 0 ? s->wait
                        : s->held      ? waited_for_holder(s, s->copy)
                                       : waited_for(s, s->copy);
    const double all = s->exposed + s->copy + wait, most = most_of_link(s);
    return most >= link_share * all ? all : most; /* else they are too fast to be it */
}

static double by_servers(const seen *s)
{
    if (s->servers != 1 || s->replicas < 2 || s->busy < busy_server || s->bubble > 0)
        return 0;
    return s->exposed + s->wait + s->copy - by_link(s);
}

static double by_crowd(const seen *s)
{
    if (!s->crowded || s->cores <= 0 || s->wanted <= s->cores)
        return s->crowded ? s->wait : 0;
    return s->step * (1 - s->cores / s->wanted);
}

static double by_bubble(const seen *s)
{
    return s->bubble * s->step;
}

static double by_optimizer(const seen *s)
{
    return s->held && s->devices > 1 ? s->optimizer + waited_for_holder(s, s->optimizer) : 0;
}

static double by_copies(const seen *s)
{
    return s->held && s->devices > 1 ? s->copy + waited_for_holder(s, s->copy) : 0;
}

/* Of a divided model the first part gathers, and the others wait for it. */
static double by_loader(const seen *s)
{
    return s->gather + (s->divided ? waited_for(s, s->gather) : 0);
}

/* How much more devices wait than the one that waits least; other rules cover what towers wait for
 * besides. */
static double by_rank(const seen *s)
{
    if (s->replicas < 2 || s->bubble > 0 || s->nobody_waits)
        return 0;
    const double more = s->wait - s->least_wait;
    return s->held ? fmin(more, s->wait - waited_for_holder(s, s->copy + s->optimizer)) : more;
}

static bool is_small(const seen *s)
{
    return s->samples > 0 && s->samples <= few_samples && s->mfu < little_use && s->devices > 0;
}

static double by_bandwidth(const seen *s)
{
    return is_small(s) && s->state >= large_state && streamed(s) >= many_bytes_s
               ? s->compute + (s->held ? 0 : s->optimizer)
               : 0;
}

/* All that does not grow with the batch, including barriers between devices. */
static double by_batch(const seen *s)
{
    if (!is_small(s) || s->state >= large_state)
        return 0;
    const double meeting =
        s->linked || s->crowded || s->servers > 0 || s->bubble > 0 ? 0 : s->exposed;
    return s->compute + s->harness + s->optimizer + meeting;
}

/* ---- Where no cause is known: the largest part ----------------------------------------------- */

/* All waiting; of towers and stages, what no other rule covers. */
static double by_wait(const seen *s)
{
    const double known = s->held ? waited_for_holder(s, s->copy + s->optimizer) : 0;
    return s->bubble > 0 || s->nobody_waits ? 0 : s->wait - known - by_rank(s);
}

static double by_delay(const seen *s)
{
    return s->nobody_waits ? s->wait : 0;
}

static const char sent[] = "a step sends {Btraffic.bytes_sent} in {#traffic.messages_sent} "
                           "messages{over}, and {%exchange} of it is communication and copies that "
                           "nothing hides";
static const char larger[] =
    "--batch {#larger}: what a step costs whatever its samples is shared by more";

static const rule rules[] = {
    {"a slow link", by_link, sent, "{faster}", 0},
    {"one server", by_servers,
     "the one server is busy {%busy} of the time, while {#replicas} workers wait for it",
     "--ps-servers 2{threads}: each has half of the variables", 0},
    {"oversubscription", by_crowd,
     "{#wanted} devices share {#provenance.cores_allowed} cores, so that one works while others "
     "wait for a core",
     "--devices {#fitting}: each has its cores for itself", 0},
    {"the pipeline's bubble", by_bubble,
     "stages are idle {%pipeline.bubble} of the time, with {#case.pipeline_microbatches} "
     "micro-batches for {#devices} stages (equal stages: {%pipeline.bubble_equal})",
     "--pipeline-microbatches {#pieces}", 0},
    {"the optimizer on one device", by_optimizer,
     "the variable device alone updates ({update} ms a step, {case.optimizer}), and the other "
     "devices wait",
     "--strategy mirrored: each device updates its own copy", 0},
    {"copies of towers", by_copies,
     "{#devices} towers fetch the variables and bring gradients, {Btraffic.bytes_sent} a step; "
     "copies are {%copies}, waiting {%waits} of it",
     "{fetch}", 0},
    {"the loader", by_loader,
     "gathering the samples of a batch takes {gather} ms of a step, computation "
     "{waterfall.compute_ms} ms",
     "{plainer}", 0},
    {"a slow rank", by_rank,
     "rank {#rank} ({device}) waits {least_wait} ms of a step for others, and these {others_wait} "
     "ms in the mean{planted}",
     "--strategy ps --ps-backup-workers 1: nobody waits for the slowest", 0},
    {"a delay", by_delay, "a device sleeps, and no other waits for it{planted}",
     "--strategy mirrored: devices meet in each step, and its wait shows which one is slow", 0},
    {"memory bandwidth", by_bandwidth,
     "a step goes over {Bstate} of parameters, gradients and optimizer state ({Bstreamed}/s at "
     "least) for {#samples} samples; products reach {%time.mfu} of the roof",
     larger, 0},
    {"a small batch", by_batch,
     "a device has {#samples} of the batch, a step takes {step} ms, and products reach {%time.mfu} "
     "of the roof",
     larger, 0},
    {"computation", NULL, "{waterfall.compute_ms} ms of a step's {step} ms{reached}",
     "{more_cores}", offsetof(seen, compute)},
    {"communication", NULL, sent, "{exchanges}", offsetof(seen, exposed)},
    {"waiting for other devices", by_wait,
     "devices wait {waterfall.wait_ms} ms of a step for each other, and work {work} ms", larger, 0},
    {"copies between devices", NULL, sent, larger, offsetof(seen, copy)},
    {"the optimizer", NULL,
     "{case.optimizer} takes {waterfall.optimizer_ms} ms of a step, computation "
     "{waterfall.compute_ms} ms",
     larger, offsetof(seen, optimizer)},
    {"the harness", NULL, "{waterfall.harness_ms} ms of a step's {step} ms are no operation's",
     larger, offsetof(seen, harness)},
};

/* ---- Words ----------------------------------------------------------------------------------- */

static void say_figure(FILE *stream, const seen *s, const char *name)
{
    const char how = strchr("%#B", *name) ? *name++ : 0;
    char bytes[32];
    json_t *value = json_incref(json_object_get(s->figures, name));
    if (!value)
        value = ls_row_find(s->row, name);
    const double number = json_number_value(value);
    if (json_is_string(value))
        fprintf(stream, "%.160s", json_string_value(value));
    else if (how == 'B')
        fputs(ls_format_bytes(number, bytes), stream);
    else if (how)
        fprintf(stream, how == '%' ? "%.0f%%" : "%.0f", how == '%' ? 100 * number : number);
    else
        fprintf(stream, "%.4g", number);
    json_decref(value);
}

static void say(FILE *stream, const seen *s, const char *words)
{
    char name[64];
    for (const char *at = words; *at; at++) {
        if (*at != '{') {
            fputc(*at, stream);
            continue;
        }
        const size_t length = strcspn(at + 1, "}");
        snprintf(name, sizeof name, "%.*s", (int)length, at + 1);
        say_figure(stream, s, name);
        at += length + 1;
    }
}

char *ls_results_bound(const json_t *row)
{
    const seen s = look(row);
    const rule *best = NULL;
    double most = 0;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream) {
        json_decref(s.figures);
        return NULL;
    }
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const double ms = rules[i].explains ? rules[i].explains(&s)
                                            : *(const double *)((const char *)&s + rules[i].part);
        if (ms > most) {
            most = ms;
            best = &rules[i];
        }
    }
    if (best) {
        fprintf(stream,
                "Bound by %s: %.0f%% of the mean step (%.4g of %.4g ms).\nEvidence: ", best->cause,
                100 * most / s.step, most, s.step);
        say(stream, &s, best->evidence);
        fputs(".\nTry ", stream);
        say(stream, &s, best->option);
        fputs(".\n", stream);
    }
    json_decref(s.figures);
    fclose(stream);
    return text;
}
