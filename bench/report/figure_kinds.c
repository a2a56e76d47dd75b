/* SPDX-License-Identifier: MIT */
/* Kinds of figures of lines; see figure_kinds.h. */
#include "bench/report/figure_kinds.h"

#include "bench/report/case_keys.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void ls_figure_point(json_t *out, double x, double y, double low, double high)
{
    if (isfinite(x) && isfinite(y))
        json_array_append_new(out, json_pack("[f,f,f,f]", x, y, low, high));
}

static void rate(const json_t *row, json_t *out)
{
    const double y = ls_report_number(row, "time.samples_per_s", 0);
    const json_t *step = json_object_get(json_object_get(row, "time"), "step_ms");
    const json_t *ci95 = json_object_get(step, "ci95");
    const double median = json_number_value(json_object_get(step, "median"));
    const double low = json_number_value(json_array_get(ci95, 0));
    const double high = json_number_value(json_array_get(ci95, 1));
    const bool known = low > 0 && high > 0 && median > 0;
    if (y > 0)
        ls_figure_point(out, ls_report_devices(row), y, known ? y * median / high : y,
                        known ? y * median / low : y);
}

static void simple(const json_t *row, json_t *out, double x, const char *path)
{
    const double y = ls_report_number(row, path, -1);
    if (y >= 0 && x >= 0)
        ls_figure_point(out, x, y, y, y);
}

static void efficiency(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_devices(row), "time.efficiency");
}

static void speedup(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_devices(row), "time.speedup");
}

static void nodes(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_devices(row), "program.nodes");
}

static void build(const json_t *row, json_t *out)
{
    if (ls_report_number(row, "program.nodes", 0) > 0)
        simple(row, out, ls_report_devices(row), "time.build_ms");
}

static void peak(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_devices(row), "memory.devices.peak");
}

static void peak_of_batch(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_number(row, "case.batch_global", -1), "memory.devices.peak");
}

static void bus(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_number(row, "micro.size_bytes", -1), "micro.busbw_gbs");
}

static void bubble(const json_t *row, json_t *out)
{
    simple(row, out, ls_report_number(row, "case.pipeline_microbatches", -1), "pipeline.bubble");
}

static void accuracy(const json_t *row, json_t *out)
{
    simple(row, out,
           ls_report_number(row, "case.steps", 0) + ls_report_number(row, "case.warmup", 0),
           "train.accuracy");
}

/* Milliseconds that a worker sleeps each step. */
static double delay_of(const json_t *row)
{
    char text[128];
    const char *colon = strchr(ls_report_text(row, "case.inject", text, sizeof text), ':');
    if (!*text)
        return 0;
    if (strncmp(text, "delay=", 6) != 0 || !colon)
        return -1;
    char *unit;
    const double value = strtod(colon + 1, &unit);
    return strcmp(unit, "us") == 0 ? value / 1e3 : strcmp(unit, "s") == 0 ? value * 1e3 : value;
}

static void to_target(const json_t *row, json_t *out)
{
    if (strcmp(ls_report_strategy(row), "ps") == 0)
        simple(row, out, delay_of(row), "train.seconds_to_target");
}

static void slow_step(const json_t *row, json_t *out)
{
    if (strcmp(ls_report_strategy(row), "ps") == 0)
        simple(row, out, delay_of(row), "time.step_ms.median");
}

static void histogram(const json_t *group, json_t *out)
{
    const json_t *counts = json_object_get(group, "histogram");
    double sum = 0;
    for (size_t i = 0; i < json_array_size(counts); i++)
        sum += json_number_value(json_array_get(counts, i));
    for (size_t i = 0; sum > 0 && i < json_array_size(counts); i++) {
        const double share = json_number_value(json_array_get(counts, i)) / sum;
        ls_figure_point(out, (double)i, share, share, share);
    }
}

static void staleness(const json_t *row, json_t *out)
{
    histogram(json_object_get(row, "staleness"), out);
}

static void lead(const json_t *row, json_t *out)
{
    histogram(json_object_get(row, "lead"), out);
}

/* At most some 100 of a row's losses. */
static void losses_at(const json_t *row, json_t *out, double each)
{
    const json_t *losses = json_object_get(json_object_get(row, "train"), "losses");
    const size_t count = json_array_size(losses), stride = count / 100 + 1;
    const double first = ls_report_number(row, "case.warmup", 0);
    for (size_t i = 0; i < count; i += stride) {
        const double loss = json_number_value(json_array_get(losses, i));
        if (json_is_number(json_array_get(losses, i)))
            ls_figure_point(out, each * (first + (double)i), loss, loss, loss);
    }
}

static void losses(const json_t *row, json_t *out)
{
    losses_at(row, out, 1);
}

static void losses_in_time(const json_t *row, json_t *out)
{
    losses_at(row, out, ls_report_number(row, "time.step_ms.mean", NAN) / 1e3);
}

#define MODEL_BATCH                                                                                \
    {                                                                                              \
        "case.model", "case.data", "case.batch_global", "case.reduce"                              \
    }
#define DEVICES  "several numbers of devices: --devices 1,2,4"
#define BASELINE DEVICES " --baseline yes"

const ls_line_kind ls_line_kinds[] = {
    {.name = "throughput-strong",
     .x = "devices",
     .y = "samples/s",
     .unit = "samples/s",
     .title = "%s reaches %s on %s devices",
     .means = "samples/s of the median step",
     .group = {"case.model", "case.batch_global"},
     .points = rate,
     .want = BASELINE,
     .better = 1,
     .scaling = "strong",
     .ideal = "linear"},
    {.name = "throughput-weak",
     .x = "devices",
     .y = "samples/s",
     .unit = "samples/s",
     .title = "%s reaches %s on %s devices",
     .means = "samples/s of the median step, the batch growing with the devices",
     .group = {"case.model"},
     .points = rate,
     .want = "--scaling weak on " BASELINE,
     .better = 1,
     .scaling = "weak",
     .ideal = "linear"},
    {.name = "speed-up",
     .x = "devices",
     .y = "speed-up over one device",
     .unit = "times",
     .title = "%s is %s as fast on %s devices",
     .means = "speed-up over single on one like device",
     .group = {"case.model", "case.batch_global"},
     .points = speedup,
     .want = BASELINE,
     .better = 1,
     .ideal = "linear",
     .scaling = "strong"},
    {.name = "efficiency",
     .x = "devices",
     .y = "efficiency",
     .unit = "%",
     .title = "%s keeps %s on %s devices",
     .means = "speed-up over single on one like device, over the devices",
     .group = {"case.model", "case.batch_global"},
     .points = efficiency,
     .want = BASELINE,
     .better = 1,
     .ideal = "one",
     .scaling = "strong"},
    {.name = "efficiency-weak",
     .x = "devices",
     .y = "efficiency",
     .unit = "%",
     .title = "%s keeps %s on %s devices",
     .means = "efficiency over single on one like device, the batch growing with the devices",
     .group = {"case.model"},
     .points = efficiency,
     .want = "--scaling weak on " BASELINE,
     .better = 1,
     .ideal = "one",
     .scaling = "weak"},
    {.name = "memory-devices",
     .x = "devices",
     .y = "peak of the fullest device",
     .unit = "bytes",
     .title = "%s needs %s on %s devices",
     .means = "most that one device held",
     .group = MODEL_BATCH,
     .points = peak,
     .want = DEVICES,
     .better = -1,
     .log_y = true},
    {.name = "memory-batch",
     .x = "global batch",
     .y = "peak of the fullest device",
     .unit = "bytes",
     .title = "%s needs %s for a batch of %s",
     .means = "most that one device held",
     .group = {"case.model", "case.devices"},
     .points = peak_of_batch,
     .want = "several --batch",
     .better = -1,
     .log_x = true,
     .log_y = true},
    {.name = "program",
     .x = "devices",
     .y = "nodes of a step's program",
     .unit = "nodes",
     .title = "%s needs %s on %s devices",
     .means = "number of nodes in the program of one step",
     .group = {"case.model"},
     .points = nodes,
     .want = DEVICES,
     .better = -1,
     .log_x = true,
     .log_y = true},
    {.name = "build",
     .x = "devices",
     .y = "time to build the program, ms",
     .unit = "ms",
     .title = "%s builds in %s on %s devices",
     .means = "time to build the program of one step",
     .group = {"case.model"},
     .points = build,
     .want = DEVICES,
     .better = -1,
     .log_x = true,
     .log_y = true},
    {.name = "bus-bandwidth",
     .x = "bytes",
     .y = "bus bandwidth, GB/s",
     .unit = "GB/s",
     .title = "%s reaches %s at %s bytes",
     .means = "bus bandwidth by nccl-tests' formula",
     .group = {"micro.op", "micro.ranks", "micro.shape", "micro.comm"},
     .points = bus,
     .want = "rows of lockstep micro allreduce --allreduce .. --sizes ..",
     .better = 1,
     .by = "micro.kernel",
     .log_x = true},
    {.name = "pipeline-idle",
     .x = "micro-batches",
     .y = "idle share",
     .unit = "%",
     .title = "%s is idle for %s with %s micro-batches",
     .means = "share of the stages' time that they wait",
     .group = {"case.model", "case.batch_global", "case.devices"},
     .points = bubble,
     .want = "--strategy pipeline --pipeline-microbatches 1,2,4",
     .better = -1,
     .log_x = true,
     .apart = "pipeline_microbatches",
     .formula = "pipeline.bubble_equal"},
    {.name = "staleness",
     .x = "updates by others",
     .y = "share of gradients",
     .unit = "%",
     .title = "%s: %s are %s updates late",
     .means = "share of the gradients with so many updates by others since their pull",
     .group = MODEL_BATCH,
     .points = staleness,
     .want = "--strategy ps --ps-mode ssp,async",
     .better = 1,
     .one = true},
    {.name = "lead",
     .x = "steps ahead of the slowest",
     .y = "share of gradients",
     .unit = "%",
     .title = "%s: %s are %s steps ahead",
     .means = "share of the gradients whose worker was so many steps ahead of the slowest",
     .group = MODEL_BATCH,
     .points = lead,
     .want = "--strategy ps --ps-mode ssp,async",
     .better = 1,
     .one = true},
    {.name = "loss-steps",
     .x = "step",
     .y = "loss",
     .unit = "",
     .title = "%s has loss %s after %s steps",
     .means = "loss of a batch",
     .group = MODEL_BATCH,
     .points = losses,
     .want = "rows of --verbose",
     .better = -1,
     .one = true},
    {.name = "loss-time",
     .x = "seconds",
     .y = "loss",
     .unit = "",
     .title = "%s has loss %s after %s s",
     .means = "loss of a batch, at the mean step's pace",
     .group = MODEL_BATCH,
     .points = losses_in_time,
     .want = "rows of --verbose",
     .better = -1,
     .one = true},
    {.name = "accuracy",
     .x = "steps",
     .y = "accuracy on the test set",
     .unit = "%",
     .title = "%s reaches %s after %s steps",
     .means = "accuracy on the test set after all steps",
     .group = MODEL_BATCH,
     .points = accuracy,
     .want = "several --steps of one case",
     .better = 1,
     .log_x = true},
    {.name = "stragglers",
     .x = "delay of one worker, ms",
     .y = "time to the target, s",
     .unit = "s",
     .title = "%s is there in %s with %s ms delay",
     .means = "time to the target of --target",
     .group = MODEL_BATCH,
     .points = to_target,
     .want = "--strategy ps --target loss=.. with several --inject delay=RANK:TIME",
     .better = -1,
     .apart = "inject"},
    {.name = "stragglers-step",
     .x = "delay of one worker, ms",
     .y = "median step, ms",
     .unit = "ms",
     .title = "%s takes %s a step with %s ms delay",
     .means = "median step",
     .group = MODEL_BATCH,
     .points = slow_step,
     .want = "--strategy ps with several --inject delay=RANK:TIME",
     .better = -1,
     .apart = "inject"},
};

const size_t ls_line_kind_count = sizeof ls_line_kinds / sizeof *ls_line_kinds;
