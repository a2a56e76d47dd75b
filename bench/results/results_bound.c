/* SPDX-License-Identifier: MIT */
/*
 * What bounds a step, in three lines: the cause, the evidence, the option most worth trying.
 *
 * A table of rules: each says how much of the mean step its cause explains, from the row's fields
 * alone, or 0. The rule that explains most is told; of equals the first. Parts of the waterfall are
 * means over the devices. So what one device does while the n - 1 others wait for it explains n
 * times its part, at most as much as there is waiting. A fifth of a device's peak is little use of
 * it, and 32 samples are few: beyond, products gain little by more of them.
 */
#include "bench/results/results_verbs.h"

#include "common/base/numbers.h"
#include "common/device/link.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double little_use = 0.2, few_samples = 32, large_state = 16 << 20, many_bytes_s = 5e8,
                    busy_server = 0.5, much_to_do = 0.08;

/* The row's fields that rules look at; 0 where there is none. Times in ms of the mean step. */
typedef struct seen {
    const json_t *row;
    double step, compute, exposed, wait, copy, gather, optimizer, harness; /* copy: no gathering */
    double devices, replicas, batch, samples, mfu, sent, messages;
    double cores, wanted;  /* cores there are, and that the devices would have */
    double servers, busy;  /* parameter servers, and how busy the busiest is: 0..1 */
    double bubble, pieces; /* of a pipeline: share of the step; micro-batches */
    double state;          /* bytes of parameters, gradients, optimizer of the fullest device */
    const json_t *slowest; /* of device_load: who waits least; NULL: not known */
    double least_wait;     /* what that one waits */
    double others_wait;    /* what the others do, in the mean */
    bool crowded, linked;
    const char *strategy, *link, *inject, *optimizer_name;
    bool staged;
} seen;

typedef struct rule {
    const char *cause;
    /** ms of the mean step that it explains; 0: it is not the cause. */
    double (*explains)(const seen *s);
    /** The second and the third line, without what they begin with and without newline. */
    void (*evidence)(FILE *stream, const seen *s);
    void (*option)(FILE *stream, const seen *s); /* NULL: it is this text */
    const char *text;
} rule;

/* ---- The row --------------------------------------------------------------------------------- */

static double number_at(const json_t *row, const char *path)
{
    json_t *value = ls_row_find(row, path);
    const double number = json_number_value(value);
    json_decref(value);
    return number;
}

static const char *text_of(const json_t *group, const char *name)
{
    const char *text = json_string_value(json_object_get(group, name));
    return text ? text : "";
}

static double sum_of(const json_t *list)
{
    double sum = 0;
    for (size_t i = 0; i < json_array_size(list); i++)
        sum += json_number_value(json_array_get(list, i));
    return sum;
}

static double largest_state(const json_t *row)
{
    const json_t *devices = json_object_get(json_object_get(row, "memory"), "devices");
    double most = 0;
    for (size_t i = 0; i < json_array_size(devices); i++) {
        const json_t *d = json_array_get(devices, i);
        most = fmax(most, json_number_value(json_object_get(d, "parameters")) +
                              json_number_value(json_object_get(d, "gradients")) +
                              json_number_value(json_object_get(d, "optimizer")));
    }
    return most;
}

static void look_at_servers(const json_t *row, seen *s)
{
    const json_t *load = json_object_get(row, "server_load");
    s->servers = (double)json_array_size(load);
    for (size_t i = 0; i < json_array_size(load); i++)
        s->busy =
            fmax(s->busy, json_number_value(json_object_get(json_array_get(load, i), "busy")));
}

/* Gathering a batch is a copy of the waterfall's, and nothing that devices exchange. */
static void look_at_devices(const json_t *row, seen *s)
{
    const json_t *loads = json_object_get(row, "device_load"), *load;
    const double count = (double)json_array_size(loads);
    double all = 0;
    for (size_t i = 0; (load = json_array_get(loads, i)) != NULL; i++) {
        const double wait = json_number_value(json_object_get(load, "wait_ms"));
        all += wait;
        s->gather += json_number_value(json_object_get(load, "gather_ms")) / count;
        if (s->slowest && wait >= s->least_wait)
            continue;
        s->slowest = load;
        s->least_wait = wait;
    }
    s->others_wait = (all - s->least_wait) / fmax(count - 1, 1);
    s->gather = fmin(s->gather, s->copy);
    s->copy -= s->gather;
}

static seen look(const json_t *row)
{
    const json_t *c = json_object_get(row, "case"), *from = json_object_get(row, "provenance");
    const json_t *shares = json_object_get(c, "batch_per_device");
    seen s = {.row = row,
              .compute = number_at(row, "waterfall.compute_ms"),
              .exposed = number_at(row, "waterfall.comm_exposed_ms"),
              .wait = number_at(row, "waterfall.wait_ms"),
              .copy = number_at(row, "waterfall.copy_ms"),
              .optimizer = number_at(row, "waterfall.optimizer_ms"),
              .harness = number_at(row, "waterfall.harness_ms"),
              .devices = (double)json_array_size(json_object_get(c, "devices")),
              .batch = number_at(row, "case.batch_global"),
              .mfu = number_at(row, "time.mfu"),
              .sent = number_at(row, "traffic.bytes_sent"),
              .messages = number_at(row, "traffic.messages_sent"),
              .cores = number_at(row, "provenance.cores_allowed"),
              .wanted = sum_of(json_object_get(from, "cores_per_device")),
              .bubble = number_at(row, "pipeline.bubble"),
              .pieces = number_at(row, "case.pipeline_microbatches"),
              .state = largest_state(row),
              .crowded = json_is_true(json_object_get(from, "oversubscribed")),
              .staged = json_is_true(json_object_get(c, "towers_staged")),
              .strategy = text_of(c, "strategy"),
              .link = text_of(c, "link"),
              .inject = text_of(c, "inject"),
              .optimizer_name = text_of(c, "optimizer")};
    s.step = s.compute + s.exposed + s.wait + s.copy + s.optimizer + s.harness;
    s.linked = *s.link || number_at(row, "case.hosts") > 1;
    for (size_t i = 0; i < json_array_size(shares); i++) {
        const double share = json_number_value(json_array_get(shares, i));
        s.replicas += share > 0;
        s.samples = fmax(s.samples, share);
    }
    look_at_servers(row, &s);
    look_at_devices(row, &s);
    return s;
}

static bool is(const seen *s, const char *strategy)
{
    return strcmp(s->strategy, strategy) == 0;
}

/* Whether its model is cut into parts, so that activations travel. */
static bool is_divided(const seen *s)
{
    return is(s, "pipeline") || is(s, "model-parallel") || is(s, "hybrid");
}

/* Devices that have a core each for every thread. */
static double fitting_devices(const seen *s)
{
    return fmax(floor(s->cores * fmax(s->devices, 1) / fmax(s->wanted, 1)), 1);
}

static double percent(const seen *s, double ms)
{
    return s->step > 0 ? 100 * ms / s->step : 0;
}

/* What the others wait while one device spends `part`, of the mean, on something that is its own.
 */
static double waited_for(const seen *s, double part)
{
    return fmin(s->wait, part * fmax(s->devices - 1, 0));
}

/* The same of towers, which wait for nothing but the holder of the variables where this has much
 * to do; where it has little, for a slow one. */
static double waited_for_holder(const seen *s, double part)
{
    const double all = s->copy + s->optimizer;
    return all >= much_to_do * s->step ? s->wait * part / all : waited_for(s, part);
}

/* ---- Causes ---------------------------------------------------------------------------------- */

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
    const double wait = s->servers > 0    ? s->wait
                        : is(s, "towers") ? waited_for_holder(s, s->copy)
                                          : waited_for(s, s->copy);
    return fmin(s->exposed + s->copy + wait, most_of_link(s));
}

static void tell_sent(FILE *stream, const seen *s)
{
    char text[32];
    fprintf(stream, "a step sends %s in %.0f messages", ls_format_bytes(s->sent, text),
            s->messages);
    if (*s->link)
        fprintf(stream, " over links of %s", s->link);
    fprintf(stream, ", and %.0f%% of it is communication and copies that nothing hides",
            percent(s, s->exposed + s->copy));
}

static void try_link(FILE *stream, const seen *s)
{
    if (is(s, "towers"))
        fputs("--strategy mirrored: gradients alone travel, and while backward still runs", stream);
    else if (is_divided(s))
        fputs("--strategy mirrored: gradients travel once a step, whatever the batch", stream);
    else
        fprintf(stream, "--batch %.0f: as many bytes a step, for four times the samples",
                4 * s->batch);
}

static double by_servers(const seen *s)
{
    if (s->servers != 1 || s->replicas < 2 || s->busy < busy_server || s->bubble > 0)
        return 0;
    return s->exposed + s->wait + s->copy - by_link(s);
}

static void tell_servers(FILE *stream, const seen *s)
{
    fprintf(stream, "the one server is busy %.0f%% of the time, while %.0f workers wait for it",
            100 * fmin(s->busy, 1), s->replicas);
}

static void try_servers(FILE *stream, const seen *s)
{
    fprintf(stream, "--ps-servers 2%s: each has half of the variables",
            number_at(s->row, "case.ranks") > 1 ? "" : " --ranks 4");
}

static double by_crowd(const seen *s)
{
    if (!s->crowded || s->cores <= 0 || s->wanted <= s->cores)
        return s->crowded ? s->wait : 0;
    return s->step * (1 - s->cores / s->wanted);
}

static void tell_crowd(FILE *stream, const seen *s)
{
    fprintf(stream, "%.0f devices share %.0f cores, so that one works while others wait for a core",
            s->wanted, s->cores);
}

static void try_crowd(FILE *stream, const seen *s)
{
    fprintf(stream, "--devices %.0f: each has its cores for itself", fitting_devices(s));
}

static double by_bubble(const seen *s)
{
    return s->bubble * s->step;
}

static void tell_bubble(FILE *stream, const seen *s)
{
    fprintf(stream,
            "stages are idle %.0f%% of the time, with %.0f micro-batches for %.0f stages "
            "(equal stages: %.0f%%)",
            100 * s->bubble, s->pieces, s->devices,
            100 * number_at(s->row, "pipeline.bubble_equal"));
}

static void try_bubble(FILE *stream, const seen *s)
{
    fprintf(stream, "--pipeline-microbatches %.0f", fmin(4 * fmax(s->pieces, 1), s->batch));
}

static double by_optimizer(const seen *s)
{
    return is(s, "towers") && s->devices > 1 ? s->optimizer + waited_for_holder(s, s->optimizer)
                                             : 0;
}

static void tell_optimizer(FILE *stream, const seen *s)
{
    fprintf(stream,
            "the variable device alone updates (%.4g ms a step, %.28s), and the other devices wait",
            s->optimizer * s->devices, s->optimizer_name);
}

static double by_copies(const seen *s)
{
    return is(s, "towers") && s->devices > 1 ? s->copy + waited_for_holder(s, s->copy) : 0;
}

static void tell_copies(FILE *stream, const seen *s)
{
    char text[32];
    fprintf(stream,
            "%.0f towers fetch the variables and bring gradients, %s a step; copies are %.0f%%, "
            "waiting %.0f%% of it",
            s->devices, ls_format_bytes(s->sent, text), percent(s, s->copy), percent(s, s->wait));
}

static void try_copies(FILE *stream, const seen *s)
{
    fputs(s->staged ? "--strategy mirrored: each device has the variables"
                    : "--towers-staged yes: variables are fetched as soon as they are updated",
          stream);
}

/* Of a divided model the first part gathers, and the others wait for it. */
static double by_loader(const seen *s)
{
    return s->gather + (is_divided(s) ? waited_for(s, s->gather) : 0);
}

static void tell_loader(FILE *stream, const seen *s)
{
    fprintf(stream, "gathering the samples of a batch takes %.4g ms of a step, computation %.4g ms",
            s->gather, s->compute);
}

static void try_loader(FILE *stream, const seen *s)
{
    const json_t *augment = json_object_get(json_object_get(s->row, "case"), "augment");
    fputs(json_is_true(augment) ? "--augment no: samples as they are"
                                : "--shuffle no: samples that lie one after the other",
          stream);
}

/* What devices wait more than the one that waits least; what towers would also wait for is told by
 * other rules. */
static double by_rank(const seen *s)
{
    if (s->replicas < 2 || s->bubble > 0 || !s->slowest)
        return 0;
    const double more = s->wait - s->least_wait;
    return is(s, "towers") ? fmin(more, s->wait - waited_for_holder(s, s->copy + s->optimizer))
                           : more;
}

static void tell_rank(FILE *stream, const seen *s)
{
    fprintf(stream,
            "rank %lld (%s) waits %.4g ms of a step for others, and these %.4g ms in the mean",
            (long long)json_integer_value(json_object_get(s->slowest, "rank")),
            text_of(s->slowest, "device"), s->least_wait, s->others_wait);
    if (strncmp(s->inject, "delay", strlen("delay")) == 0)
        fprintf(stream, "; --inject %s is one", s->inject);
}

static bool is_small(const seen *s)
{
    return s->samples > 0 && s->samples <= few_samples && s->mfu < little_use && s->devices > 0;
}

/* Bytes a second of a pass forward and backward over the variables, and of the update. */
static double streamed(const seen *s)
{
    const double ms = s->compute + s->optimizer;
    return ms > 0 ? 2 * s->state / ms * 1e3 : 0;
}

static double by_bandwidth(const seen *s)
{
    return is_small(s) && s->state >= large_state && streamed(s) >= many_bytes_s
               ? s->compute + (is(s, "towers") ? 0 : s->optimizer)
               : 0;
}

static void tell_bandwidth(FILE *stream, const seen *s)
{
    char state[32], rate[32];
    fprintf(stream,
            "a step goes over %s of parameters, gradients and optimizer state (%s/s at least) for "
            "%.0f samples; products reach %.0f%% of the roof",
            ls_format_bytes(s->state, state), ls_format_bytes(streamed(s), rate), s->samples,
            100 * s->mfu);
}

static void try_larger(FILE *stream, const seen *s)
{
    fprintf(stream, "--batch %.0f: what a step costs whatever its samples is shared by more",
            fmax(8 * s->batch, 1));
}

/* All that does not grow with the batch; where devices meet, the meeting, too. */
static double by_batch(const seen *s)
{
    if (!is_small(s) || s->state >= large_state)
        return 0;
    const double meeting =
        s->linked || s->crowded || s->servers > 0 || s->bubble > 0 ? 0 : s->exposed;
    return s->compute + s->harness + s->optimizer + meeting;
}

static void tell_batch(FILE *stream, const seen *s)
{
    fprintf(stream,
            "a device has %.0f of the batch, a step takes %.4g ms, and products reach %.0f%% of "
            "the roof",
            s->samples, s->step, 100 * s->mfu);
}

/* ---- Where no cause is known: the largest part ----------------------------------------------- */

static double by_compute(const seen *s)
{
    return s->compute;
}

static void tell_compute(FILE *stream, const seen *s)
{
    const double roof = number_at(s->row, "time.roof_gflops");
    fprintf(stream, "%.4g ms of a step's %.4g ms", s->compute, s->step);
    if (s->mfu > 0)
        fprintf(stream, "; products reach %.0f%% of the roof", 100 * s->mfu);
    if (s->mfu > 0 && roof > 0)
        fprintf(stream, " (%.4g GFLOP/s)", roof);
}

static void try_compute(FILE *stream, const seen *s)
{
    if (s->crowded || s->cores <= s->wanted)
        fprintf(stream, "--cores-per-device %.0f, where there are more cores",
                fmax(2 * s->wanted / fmax(s->devices, 1), 2));
    else
        fprintf(stream, "--strategy mirrored --devices %.0f", fitting_devices(s));
}

static double by_exchange(const seen *s)
{
    return s->exposed;
}

/* What all wait; towers and stages, what the other rules are not about. */
static double by_wait(const seen *s)
{
    const double known = is(s, "towers") ? waited_for_holder(s, s->copy + s->optimizer) : 0;
    return s->bubble > 0 ? 0 : s->wait - known - by_rank(s);
}

static void tell_wait(FILE *stream, const seen *s)
{
    fprintf(stream, "devices wait %.4g ms of a step for each other, and work %.4g ms", s->wait,
            s->compute + s->optimizer);
}

static double by_copy(const seen *s)
{
    return s->copy;
}

static double by_update(const seen *s)
{
    return s->optimizer;
}

static void tell_update(FILE *stream, const seen *s)
{
    fprintf(stream, "%.28s takes %.4g ms of a step, computation %.4g ms", s->optimizer_name,
            s->optimizer, s->compute);
}

static double by_harness(const seen *s)
{
    return s->harness;
}

static void tell_harness(FILE *stream, const seen *s)
{
    fprintf(stream, "%.4g ms of a step's %.4g ms are no operation's", s->harness, s->step);
}

static const rule rules[] = {
    {"a slow link", by_link, tell_sent, try_link, NULL},
    {"one server", by_servers, tell_servers, try_servers, NULL},
    {"oversubscription", by_crowd, tell_crowd, try_crowd, NULL},
    {"the pipeline's bubble", by_bubble, tell_bubble, try_bubble, NULL},
    {"the optimizer on one device", by_optimizer, tell_optimizer, NULL,
     "--strategy mirrored: each device updates its own copy"},
    {"copies of towers", by_copies, tell_copies, try_copies, NULL},
    {"the loader", by_loader, tell_loader, try_loader, NULL},
    {"a slow rank", by_rank, tell_rank, NULL,
     "--strategy ps --ps-backup-workers 1: nobody waits for the slowest"},
    {"memory bandwidth", by_bandwidth, tell_bandwidth, try_larger, NULL},
    {"a small batch", by_batch, tell_batch, try_larger, NULL},
    {"computation", by_compute, tell_compute, try_compute, NULL},
    {"communication", by_exchange, tell_sent, NULL,
     "--allreduce all: which exchange suits these sizes"},
    {"waiting for other devices", by_wait, tell_wait, try_larger, NULL},
    {"copies between devices", by_copy, tell_sent, try_larger, NULL},
    {"the optimizer", by_update, tell_update, try_larger, NULL},
    {"the harness", by_harness, tell_harness, try_larger, NULL},
};

char *ls_results_bound(const json_t *row)
{
    const seen s = look(row);
    const rule *best = NULL;
    double most = 0;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const double ms = rules[i].explains(&s);
        if (ms > most) {
            most = ms;
            best = &rules[i];
        }
    }
    if (best) {
        fprintf(stream,
                "Bound by %s: %.0f%% of the mean step (%.4g of %.4g ms).\nEvidence: ", best->cause,
                percent(&s, most), most, s.step);
        best->evidence(stream, &s);
        fputs(".\nTry ", stream);
        if (best->option)
            best->option(stream, &s);
        else
            fputs(best->text, stream);
        fputs(".\n", stream);
    }
    fclose(stream);
    return text;
}
