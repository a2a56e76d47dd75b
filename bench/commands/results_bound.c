/* SPDX-License-Identifier: MIT */
/*
 * What bounds a step, in words: the largest part of the row's waterfall, what the row knows about
 * it (roof, traffic, bubble), and the part that follows where it is a fifth of the step or more.
 */
#include "bench/commands/results_verbs.h"

#include "common/base/numbers.h"

#include <string.h>

typedef struct step_part {
    const char *field, *name;
    /** Says more; may be NULL. */
    void (*more)(FILE *stream, const json_t *row, double step_ms);
} step_part;

/* NaN-free: 0 where there is none. */
static double number_at(const json_t *row, const char *path)
{
    json_t *value = ls_row_find(row, path);
    const double number = json_number_value(value);
    json_decref(value);
    return number;
}

static void tell_roof(FILE *stream, const json_t *row, double step_ms)
{
    const double mfu = number_at(row, "time.mfu"), roof = number_at(row, "time.roof_gflops");
    (void)step_ms;
    if (mfu <= 0)
        return;
    fprintf(stream, "Products reach %.0f%% of the roof", 100.0 * mfu);
    if (roof > 0)
        fprintf(stream, " (%.4g GFLOP/s)", roof);
    fputs(mfu < 0.3 ? "; a larger batch per device may help.\n" : ".\n", stream);
}

static void tell_traffic(FILE *stream, const json_t *row, double step_ms)
{
    const double bytes = number_at(row, "traffic.bytes_sent");
    const double messages = number_at(row, "traffic.messages_sent");
    char text[32];
    if (bytes <= 0 || step_ms <= 0)
        return;
    fprintf(stream,
            "A step sends %s in %.0f messages (%.3g GB/s); see --allreduce, --bucket-bytes.\n",
            ls_format_bytes(bytes, text), messages, bytes / step_ms / 1e6);
}

static void tell_wait(FILE *stream, const json_t *row, double step_ms)
{
    json_t *bubble = ls_row_find(row, "pipeline.bubble");
    (void)step_ms;
    if (bubble)
        fprintf(
            stream,
            "The pipeline's bubble is %.0f%% of the step, %.0f%% by formula; more micro-batches "
            "make it smaller.\n",
            100.0 * json_number_value(bubble), 100.0 * number_at(row, "pipeline.bubble_formula"));
    else if (json_is_true(json_object_get(json_object_get(row, "provenance"), "oversubscribed")))
        fputs("The devices share cores (oversubscribed): they wait for each other's turn.\n",
              stream);
    else
        fputs("Devices wait for others that are not ready: uneven shares, or cores that others "
              "use.\n",
              stream);
    json_decref(bubble);
}

static const step_part parts[] = {
    {"compute_ms", "computation", tell_roof},
    {"comm_exposed_ms", "communication that nothing hides", tell_traffic},
    {"wait_ms", "waiting for other devices", tell_wait},
    {"copy_ms", "copies between devices", tell_traffic},
    {"optimizer_ms", "the optimizer's update", NULL},
    {"harness_ms", "the harness and what no operation covers", NULL},
};

enum { PARTS = sizeof parts / sizeof *parts };

char *ls_results_bound(const json_t *row)
{
    const json_t *waterfall = json_object_get(row, "waterfall");
    double sum = 0, ms[PARTS];
    size_t first = 0, second = 1, size;
    char *text = NULL;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    for (size_t i = 0; i < PARTS; i++) {
        ms[i] = json_number_value(json_object_get(waterfall, parts[i].field));
        sum += ms[i];
        if (ms[i] > ms[first])
            first = i;
    }
    second = first == 0 ? 1 : 0;
    for (size_t i = 0; i < PARTS; i++)
        if (i != first && ms[i] > ms[second])
            second = i;
    if (sum > 0) {
        fprintf(stream, "Bound by %s: %.0f%% of the mean step (%.4g of %.4g ms).\n",
                parts[first].name, 100.0 * ms[first] / sum, ms[first], sum);
        if (parts[first].more)
            parts[first].more(stream, row, sum);
        if (ms[second] >= 0.2 * sum)
            fprintf(stream, "Next: %s, %.0f%% (%.4g ms).\n", parts[second].name,
                    100.0 * ms[second] / sum, ms[second]);
    }
    fclose(stream);
    return text;
}
