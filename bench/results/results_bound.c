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

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static const double little_use = 0.2, few_samples = 32, large_state = 16 << 20, many_bytes_s = 5e8,
                    busy_server = 0.5, much_to_do = 0.08;

/* The row's fields that rules look at; 0 where there is none. Times in ms of the mean step. */
typedef struct seen {
    const json_t *row;
    double step, compute, exposed, wait, copy, optimizer, harness;
    double devices, replicas, batch, samples, mfu, sent, messages;
    double cores, wanted;  /* cores there are, and that the devices would have */
    double servers, busy;  /* parameter servers, and how busy the busiest is: 0..1 */
    double bubble, pieces; /* of a pipeline: share of the step; micro-batches */
    double state;          /* bytes of parameters, gradients, optimizer of the fullest device */
    bool crowded, linked;
    bool held,
        divided; /* one device has the variables, as towers' has; a model's parts lie apart */
    bool staged;
    const char *link, *inject, *optimizer_name;
} seen;

typedef struct rule {
    const char *cause;
    /** ms of the mean step that it explains; 0: it is not the cause. NULL: `part`. */
    double (*explains)(const seen *s);
    /** The second and the third line, without what they begin with and without newline. */
    void (*evidence)(FILE *stream, const seen *s);
    void (*option)(FILE *stream, const seen *s); /**< NULL: `always` */
    const char *always;
    size_t part; /**< where in `seen` a part of the step is */
} rule;

/* ---- The row --------------------------------------------------------------------------------- */

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

static seen look(const json_t *row)
{
    const json_t *c = json_object_get(row, "case"), *from = json_object_get(row, "provenance");
    const json_t *shares = json_object_get(c, "batch_per_device");
    const ls_strategy *strategy = ls_row_strategy(row);
    seen s = {.row = row,
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
              .pieces = ls_row_number(row, "case.pipeline_microbatches"),
              .state = largest_state(row),
              .crowded = json_is_true(json_object_get(from, "oversubscribed")),
              .staged = json_is_true(json_object_get(c, "towers_staged")),
              .held = strategy && strategy->variables == LS_VARIABLES_HELD,
              .divided = strategy && ls_strategy_divides(strategy),
              .link = ls_row_text(row, "case", "link"),
              .inject = ls_row_text(row, "case", "inject"),
              .optimizer_name = ls_row_text(row, "case", "optimizer")};
    s.step = s.compute + s.exposed + s.wait + s.copy + s.optimizer + s.harness;
    s.linked = *s.link || ls_row_number(row, "case.hosts") > 1;
    for (size_t i = 0; i < json_array_size(shares); i++) {
        const double share = json_number_value(json_array_get(shares, i));
        s.replicas += share > 0;
        s.samples = fmax(s.samples, share);
    }
    look_at_servers(row, &s);
    return s;
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

static double by_link(const seen *s)
{
    if (!s->linked || s->sent <= 0)
        return 0;
    return s->exposed + s->copy +
           (s->held ? waited_for_holder(s, s->copy) : waited_for(s, s->copy));
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
    if (s->held)
        fputs("--strategy mirrored: gradients alone travel, and while backward still runs", stream);
    else
        fprintf(stream, "--batch %.0f: as many bytes a step, for four times the samples",
                4 * s->batch);
}

static double by_servers(const seen *s)
{
    if (s->servers != 1 || s->replicas < 2 || s->busy < busy_server || s->bubble > 0)
        return 0;
    return s->exposed + s->wait + s->copy;
}

static void tell_servers(FILE *stream, const seen *s)
{
    fprintf(stream, "the one server is busy %.0f%% of the time, while %.0f workers wait for it",
            100 * fmin(s->busy, 1), s->replicas);
}

static void try_servers(FILE *stream, const seen *s)
{
    fprintf(stream, "--ps-servers 2%s: each has half of the variables",
            ls_row_number(s->row, "case.ranks") > 1 ? "" : " --ranks 4");
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
    fprintf(stream, "--devices %.0f: one for each core", s->cores);
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
            100 * ls_row_number(s->row, "pipeline.bubble_equal"));
}

static void try_bubble(FILE *stream, const seen *s)
{
    fprintf(stream, "--pipeline-microbatches %.0f", fmin(4 * fmax(s->pieces, 1), s->batch));
}

static double by_optimizer(const seen *s)
{
    return s->held && s->devices > 1 ? s->optimizer + waited_for_holder(s, s->optimizer) : 0;
}

static void tell_optimizer(FILE *stream, const seen *s)
{
    fprintf(stream,
            "the variable device alone updates (%.4g ms a step, %.28s), and the other devices wait",
            s->optimizer * s->devices, s->optimizer_name);
}

static double by_copies(const seen *s)
{
    return s->held && s->devices > 1 ? s->copy + waited_for_holder(s, s->copy) : 0;
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

/* Copies that no strategy has said: a batch that is put together. */
static double by_loader(const seen *s)
{
    return s->linked || s->held || s->divided ? 0 : s->copy;
}

static void tell_loader(FILE *stream, const seen *s)
{
    fprintf(stream, "gathering the samples of a batch takes %.4g ms of a step, computation %.4g ms",
            s->copy, s->compute);
}

static void try_loader(FILE *stream, const seen *s)
{
    const json_t *augment = json_object_get(json_object_get(s->row, "case"), "augment");
    fputs(json_is_true(augment) ? "--augment no: samples as they are"
                                : "--shuffle no: samples that lie one after the other",
          stream);
}

/* All replicas wait for one: what they would also wait for is told by the other rules. */
static double by_rank(const seen *s)
{
    if (s->replicas < 2 || s->crowded || s->bubble > 0)
        return 0;
    return s->held ? fmax(s->wait - waited_for_holder(s, s->copy + s->optimizer), 0) : s->wait;
}

static void tell_rank(FILE *stream, const seen *s)
{
    fprintf(stream, "devices wait %.4g ms of a step for another one, and work %.4g ms", s->wait,
            s->compute + s->optimizer);
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
               ? s->compute + (s->held ? 0 : s->optimizer)
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

static void tell_compute(FILE *stream, const seen *s)
{
    const double roof = ls_row_number(s->row, "time.roof_gflops");
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
        fprintf(stream, "--strategy mirrored --devices %.0f", s->cores);
}

/* Towers and stages wait for what the other rules are about. */
static double by_wait(const seen *s)
{
    return s->held || s->bubble > 0 ? by_rank(s) : s->wait;
}

static void tell_update(FILE *stream, const seen *s)
{
    fprintf(stream, "%.28s takes %.4g ms of a step, computation %.4g ms", s->optimizer_name,
            s->optimizer, s->compute);
}

static void tell_harness(FILE *stream, const seen *s)
{
    fprintf(stream, "%.4g ms of a step's %.4g ms are no operation's", s->harness, s->step);
}

static const rule rules[] = {
    {"a slow link", by_link, tell_sent, .option = try_link},
    {"one server", by_servers, tell_servers, .option = try_servers},
    {"oversubscription", by_crowd, tell_crowd, .option = try_crowd},
    {"the pipeline's bubble", by_bubble, tell_bubble, .option = try_bubble},
    {"the optimizer on one device", by_optimizer, tell_optimizer,
     .always = "--strategy mirrored: each device updates its own copy"},
    {"copies of towers", by_copies, tell_copies, .option = try_copies},
    {"the loader", by_loader, tell_loader, .option = try_loader},
    {"a slow rank", by_rank, tell_rank,
     .always = "--strategy ps --ps-backup-workers 1: nobody waits for the slowest"},
    {"memory bandwidth", by_bandwidth, tell_bandwidth, .option = try_larger},
    {"a small batch", by_batch, tell_batch, .option = try_larger},
    {"computation", NULL, tell_compute, .option = try_compute, .part = offsetof(seen, compute)},
    {"communication", NULL, tell_sent,
     .always = "--allreduce all: which exchange suits these sizes",
     .part = offsetof(seen, exposed)},
    {"waiting for other devices", by_wait, tell_rank, .option = try_larger},
    {"copies between devices", NULL, tell_sent, .option = try_larger, .part = offsetof(seen, copy)},
    {"the optimizer", NULL, tell_update, .option = try_larger, .part = offsetof(seen, optimizer)},
    {"the harness", NULL, tell_harness, .option = try_larger, .part = offsetof(seen, harness)},
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
                percent(&s, most), most, s.step);
        best->evidence(stream, &s);
        fputs(".\nTry ", stream);
        if (best->option)
            best->option(stream, &s);
        else
            fputs(best->always, stream);
        fputs(".\n", stream);
    }
    fclose(stream);
    return text;
}
