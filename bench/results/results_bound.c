/* SPDX-License-Identifier: MIT */
/*
 * What limits a step, in three lines: the cause, the evidence, the option most worth trying. Each
 * rule of a table computes from the row's fields how much of the mean step its cause explains, or
 * 0. The cause that explains most is reported (the first among equals) if it is at least a fourth
 * of the step; otherwise the largest part of the step. Parts of the waterfall are means over the
 * devices. So if one device works while the n - 1 others wait for it, that explains n times its
 * part, at most the waiting time. Less than a fifth of a device's peak is low utilization; 32
 * samples are few, since products gain little from more.
 */
#include "bench/results/results_seen.h"

#include "common/base/escape.h"
#include "common/base/numbers.h"
#include "common/device/link.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static const double little_use = 0.2, large_state = 16 << 20, many_bytes_s = 5e8, busy_server = 0.5,
                    much_to_do = 0.08, link_share = 0.25, worth = 0.25;

typedef struct rule {
    const char *cause;
    /* ms of the mean step that it explains; 0: none. */
    double (*explains)(const ls_seen *s);
    /* The second and third line, without their beginnings. {name} is a figure of the row by its
     * path, or one of ls_seen.figures; before the name, % means percent, # a whole number, B
     * bytes. */
    const char *evidence, *option;
    size_t part; /* if there is no function: the part of ls_seen that it explains */
} rule;

/* ---- Causes ---------------------------------------------------------------------------------- */

/* How long the others wait while one device spends `part` (a mean) on its own work. */
static double waited_for(const ls_seen *s, double part)
{
    return fmin(s->wait, part * fmax(s->devices - 1, 0));
}

/* The same for towers, which wait for the device with the variables if that has much work,
 * otherwise for a slow tower. */
static double waited_for_holder(const ls_seen *s, double part)
{
    const double all = s->copy + s->optimizer;
    return all >= much_to_do * s->step ? s->wait * part / all : waited_for(s, part);
}

/* The longest that links of --link can take, messages in sequence; without --link, the whole
 * step. */
static double most_of_link(const ls_seen *s)
{
    ls_link link = {0};
    ls_status status = *s->link ? ls_link_parse(s->link, &link) : LS_OK;
    const bool known = *s->link && !status;
    ls_status_free(status);
    const double bytes_s = link.bytes_per_s > 0 ? s->sent / link.bytes_per_s : 0;
    return known ? 1e3 * bytes_s + 1e-6 * (double)link.latency_ns * s->messages : s->step;
}

/* Ranks that communicate over links also wait for others' messages: explains all waiting. */
static double by_link(const ls_seen *s)
{
    if (!s->linked || s->sent <= 0)
        return 0;
    const double most = most_of_link(s);
    const double wait = s->servers > 0  ? s->wait
                        : s->has_holder ? waited_for_holder(s, s->copy)
                        : s->divided    ? waited_for(s, s->copy)
                                        : fmin(s->least_wait, fmax(most - s->exposed, 0));
    const double all = s->exposed + s->copy + wait;
    return most >= link_share * all ? all : most; /* otherwise links are too fast to be the cause */
}

/* How much longer devices wait than the one that waits least; other rules cover other waiting of
 * towers. */
static double by_rank(const ls_seen *s)
{
    if (s->replicas < 2 || s->bubble > 0)
        return 0;
    const double more = s->wait - s->least_wait;
    return s->has_holder ? fmin(more, s->wait - waited_for_holder(s, s->copy + s->optimizer))
                         : more;
}

static double by_servers(const ls_seen *s)
{
    if (s->servers != 1 || s->replicas < 2 || s->busy < busy_server || s->bubble > 0)
        return 0;
    return s->exposed + s->wait + s->copy - by_link(s) - by_rank(s);
}

static double by_crowd(const ls_seen *s)
{
    if (!s->crowded || s->cores <= 0 || s->wanted <= s->cores)
        return s->crowded ? s->wait : 0;
    return s->step * (1 - s->cores / s->wanted);
}

/* More than twice the idle share of equal stages has another cause. */
static double by_bubble(const ls_seen *s)
{
    return s->bubble <= 2 * s->equal ? s->bubble * s->step : 0;
}

static double by_pieces(const ls_seen *s)
{
    const bool small = s->piece > 0 && s->piece <= LS_FEW_SAMPLES / 4 && s->mfu < little_use;
    return small ? fmin(s->step, s->compute + fmax(s->bubble - s->equal, 0) * s->step) : 0;
}

static double by_stages(const ls_seen *s)
{
    return by_bubble(s) > 0 ? 0 : (s->formula - s->equal) * s->step;
}

static double by_exact(const ls_seen *s)
{
    return s->exact_cost > 1 ? s->step * (1 - 1 / s->exact_cost) : 0;
}

static double by_backward(const ls_seen *s)
{
    return s->apart && s->devices > 1 ? s->wait : 0;
}

static double by_optimizer(const ls_seen *s)
{
    return s->has_holder && s->devices > 1 ? s->optimizer + waited_for_holder(s, s->optimizer) : 0;
}

static double by_copies(const ls_seen *s)
{
    return s->has_holder && s->devices > 1 ? s->copy + waited_for_holder(s, s->copy) : 0;
}

/* In a divided model the first part gathers, and the others wait for it. */
static double by_loader(const ls_seen *s)
{
    return s->gather + (s->divided ? waited_for(s, s->gather) : 0);
}

/* In a divided model without micro-batches or branches, one part works at a time. */
static double by_turns(const ls_seen *s)
{
    return s->divided && s->piece <= 0 && s->devices > 1 ? s->wait - by_rank(s) : 0;
}

static bool is_small(const ls_seen *s)
{
    return s->samples > 0 && s->samples <= LS_FEW_SAMPLES && s->mfu < little_use && s->devices > 0;
}

static double by_bandwidth(const ls_seen *s)
{
    return is_small(s) && s->state >= large_state && ls_seen_streamed(s) >= many_bytes_s
               ? s->compute + (s->has_holder ? 0 : s->optimizer)
               : 0;
}

/* All that does not grow with the batch, including barriers between devices. */
static double by_batch(const ls_seen *s)
{
    if (!is_small(s) || s->state >= large_state)
        return 0;
    const double meeting =
        s->linked || s->crowded || s->servers > 0 || s->bubble > 0 ? 0 : s->exposed;
    return s->compute + s->harness + s->optimizer + meeting;
}

/* ---- Where no cause is known: the largest part ----------------------------------------------- */

/* All waiting; for towers and stages, what no other rule covers, nor the schedule explains. */
static double by_wait(const ls_seen *s)
{
    const double known = s->has_holder ? waited_for_holder(s, s->copy + s->optimizer) : 0;
    return s->wait - known - by_rank(s) - s->formula * s->step;
}

static const char sent[] = "a step sends {Btraffic.bytes_sent} in {#traffic.messages_sent} "
                           "messages{over}; communication and copies that nothing hides are "
                           "{%exchange} of the mean step{waiting}";
static const char larger[] = "--batch {#larger}: more samples share the fixed cost of a step";

static const rule causes[] = {
    {"a slow link", by_link, sent, "{faster}", 0},
    {"one server", by_servers,
     "the one server is busy {%busy} of the time, while {#replicas} workers wait for it",
     "--ps-servers 2{threads}: each has half of the variables", 0},
    {"oversubscription", by_crowd,
     "{#wanted} devices share {#provenance.cores_allowed} cores, so that one works while others "
     "wait for a core",
     "--devices {#fitting}: each has its cores for itself", 0},
    {"small micro-batches", by_pieces,
     "a micro-batch has {#piece} samples, stages hand {#case.pipeline_microbatches} of them on in "
     "a "
     "step, and products reach {%time.mfu} of the roof",
     "--pipeline-microbatches {#fewer}", 0},
    {"unequal stages", by_stages,
     "stages are idle {%pipeline.bubble} of the time: the schedule gives "
     "{%pipeline.bubble_formula} for their work, of "
     "which the slowest has {pipeline.slowest_stage} times the mean, and would give "
     "{%pipeline.bubble_equal} if it were equal",
     "--strategy mirrored: replicas have equal work", 0},
    {"parts of the model in turns", by_turns,
     "{#devices} devices have a part of the model each, and wait {%waits} of the step for the "
     "others' "
     "parts",
     "--strategy pipeline: micro-batches keep all parts at work", 0},
    {"exact mode", by_exact,
     "a step takes {time.exact_cost} times as long as in fast mode, timed alternately with "
     "it",
     "--reduce fast: equal within a bound, not bitwise", 0},
    {"backward on one device", by_backward,
     "the variable device alone goes backward, for {#devices} towers, and the other devices wait",
     "--colocate-gradients yes: each device computes its own backward pass", 0},
    {"the pipeline's bubble", by_bubble,
     "stages are idle {%pipeline.bubble} of the time, with {#case.pipeline_microbatches} "
     "micro-batches for {#devices} stages (equal stages: {%pipeline.bubble_equal})",
     "--pipeline-microbatches {#pieces}", 0},
    {"the optimizer on one device", by_optimizer,
     "the variable device alone updates ({update} ms a step, {case.optimizer}): in the mean over "
     "devices {%updates} of the step{waiting}",
     "--strategy mirrored: each device updates its own copy", 0},
    {"copies of towers", by_copies,
     "{#devices} towers fetch the variables and bring gradients, {Btraffic.bytes_sent} a step; "
     "copies are {%copies} of the mean step{waiting}",
     "{fetch}", 0},
    {"the loader", by_loader,
     "gathering the samples of a batch takes {gather} ms of a step, computation "
     "{waterfall.compute_ms} ms",
     "{plainer}", 0},
    {"a slow rank", by_rank,
     "rank {#rank} ({device}) waits {least_wait} ms of a step for others, and a device in the mean "
     "{waterfall.wait_ms} ms{planted}",
     "--strategy ps --ps-backup-workers 1: no device waits for the slowest", 0},
    {"memory bandwidth", by_bandwidth,
     "a step reads and writes {Bstate} of parameters, gradients and optimizer state ({Bstreamed}/s "
     "at "
     "least) for {#samples} samples; products reach {%time.mfu} of the roof",
     larger, 0},
    {"a small batch", by_batch,
     "a device has {#samples} of the batch, a step takes {step} ms, and products reach {%time.mfu} "
     "of the roof",
     larger, 0},
};

static const rule parts[] = {
    {"computation", NULL, "{waterfall.compute_ms} ms of a step's {step} ms{reached}",
     "{more_cores}", offsetof(ls_seen, compute)},
    {"communication", NULL, sent, "{exchanges}", offsetof(ls_seen, exposed)},
    {"waiting for other devices", by_wait,
     "devices wait {waterfall.wait_ms} ms of a step for each other, and work {work} ms", larger, 0},
    {"copies between devices", NULL, sent, larger, offsetof(ls_seen, copy)},
    {"the optimizer", NULL,
     "{case.optimizer} takes {waterfall.optimizer_ms} ms of a step, computation "
     "{waterfall.compute_ms} ms",
     larger, offsetof(ls_seen, optimizer)},
    {"the harness", NULL, "{waterfall.harness_ms} ms of a step's {step} ms are no operation's",
     "{start}", offsetof(ls_seen, harness)},
};

/* ---- Words ----------------------------------------------------------------------------------- */

static void say_figure(FILE *stream, const ls_seen *s, const char *name)
{
    const char how = strchr("%#B", *name) ? *name++ : 0;
    char bytes[32];
    json_auto_t *value = json_incref(json_object_get(s->figures, name));
    if (!value)
        value = ls_row_find(s->row, name);
    const double number = json_number_value(value);
    if (json_is_string(value))
        ls_escape_put(stream, json_string_value(value), 160, LS_ESCAPE_LINE);
    else if (how == 'B')
        fputs(ls_format_bytes(number, bytes), stream);
    else if (how)
        fprintf(stream, how == '%' ? "%.0f%%" : "%.0f", how == '%' ? 100 * number : number);
    else
        fprintf(stream, "%.4g", number);
}

static void print_words(FILE *stream, const ls_seen *s, const char *words)
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

/* The first rule that explains more than `most` and more than all others; NULL: none. */
static const rule *find_best(const ls_seen *s, const rule *rules, size_t count, double *most)
{
    const rule *best = NULL;
    for (size_t i = 0; i < count; i++) {
        const double ms = rules[i].explains ? rules[i].explains(s)
                                            : *(const double *)((const char *)s + rules[i].part);
        if (ms > *most) {
            *most = ms;
            best = &rules[i];
        }
    }
    return best;
}

/* What of the `most` ms that a rule explains is the work itself, and no waiting for it. */
static double own_of(const ls_seen *s, const rule *best, double most)
{
    return best->evidence == sent           ? s->exposed + s->copy
           : best->explains == by_copies    ? s->copy
           : best->explains == by_optimizer ? s->optimizer
                                            : most;
}

/* What others took while the row was timed, as its note says; NULL: nothing to speak of. */
static const char *noise_of(const json_t *row)
{
    static const char word[] = "noisy: ";
    const json_t *notes = json_object_get(json_object_get(row, "result"), "notes");
    for (size_t i = 0; i < json_array_size(notes); i++) {
        const char *text = json_string_value(json_array_get(notes, i));
        if (text && strncmp(text, word, strlen(word)) == 0)
            return text + strlen(word);
    }
    return NULL;
}

char *ls_results_bound(const json_t *row)
{
    ls_seen s = ls_seen_look(row);
    const char *noise = noise_of(row);
    double most = 0;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream) {
        ls_seen_close(&s);
        return NULL;
    }
    const rule *best = NULL; /* of no step: where its time went is not known */
    if (s.step > 0)
        best = find_best(&s, causes, sizeof causes / sizeof *causes, &most);
    const rule *part = NULL;
    if (most < worth * s.step)
        part = find_best(&s, parts, sizeof parts / sizeof *parts, &most);
    best = part ? part : best;
    if (best) {
        const double median = ls_row_number(row, "time.step_ms.median");
        ls_seen_put_waiting(&s, most - own_of(&s, best, most));
        if (noise)
            fprintf(stream,
                    "Noise first: %.*s.\nMeasure again while nothing else runs; if it stays so:\n",
                    (int)strcspn(noise, ";"), noise);
        fprintf(stream, "Bound by %s: %.0f%% of the mean step (%.4g of %.4g ms", best->cause,
                100 * most / s.step, most, s.step);
        if (median > 0)
            fprintf(stream, "; median step %.4g ms", median);
        fputs(").\nEvidence: ", stream);
        print_words(stream, &s, best->evidence);
        fputs(".\nTry ", stream);
        print_words(stream, &s, best->option);
        fputs(".\n", stream);
    }
    ls_seen_close(&s);
    fclose(stream);
    return text;
}
