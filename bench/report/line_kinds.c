/* SPDX-License-Identifier: MIT */
/* The table of line figures, and the points that a row has in each; see line_kinds.h. Over a
 * worker's delay, x is the delay in ms of a row with a fault, and 0 without. */
#include "bench/report/line_kinds.h"

#include "bench/output/format_parts.h"
#include "bench/report/case_keys.h"
#include "common/base/numbers.h"
#include "common/device/link.h"

#include <math.h>
#include <string.h>

enum { POINTS_OF_A_LIST = 50 };

static const char *const model[] = {"case.model", NULL};
static const char *const batch[] = {"case.model", "case.batch_global", NULL};
static const char *const operation[] = {"micro.op",   "micro.ranks", "micro.shape", "micro.comm",
                                        "micro.type", "micro.redop", "micro.link",  NULL};

const char ls_line_link[] = "case.link";

#define DEVICES    "several numbers of devices: --devices 1,2,4"
#define BASELINE   DEVICES " --baseline yes"
#define DELAYED    "several --inject delay=RANK:TIME"
#define BY_ARRIVAL "--strategy ps --ps-mode ssp,async"
#define OF_STEP    " of the median step, or of the mean one where steps are not alike"
#define PACE       (LS_LINE_PACED | LS_LINE_PACE)

/* name, x, y, unit, of, at, title, means, want, group, flags */
const ls_line_kind ls_line_kinds[] = {
    {"throughput", "devices", "samples/s", "samples/s", "time.samples_per_s", NULL,
     "%s reaches %s on %s devices", "samples/s" OF_STEP, BASELINE, batch,
     .flags = LS_LINE_FIRST | LS_LINE_SCALES | LS_LINE_LINEAR | PACE},
    {"speed-up", "devices", "speed-up over one device", "times", "time.speedup", NULL,
     "%s is %s as fast on %s devices", "speed-up over single on one like device", BASELINE, batch,
     .flags = LS_LINE_FIRST | LS_LINE_SCALES | LS_LINE_LINEAR | LS_LINE_PACED},
    {"efficiency", "devices", "efficiency", "%", "time.efficiency", NULL,
     "%s keeps %s on %s devices", "speed-up over single on one like device, over the devices",
     BASELINE, batch, .flags = LS_LINE_FIRST | LS_LINE_SCALES | LS_LINE_FLAT | LS_LINE_PACED},
    {"memory-devices", "devices", "peak of the fullest device", "bytes", "memory.devices.peak",
     NULL, "%s needs %s on %s devices", "most that one device held", DEVICES, batch,
     .flags = LS_LINE_FALLS | LS_LINE_LOG_Y | LS_LINE_SCALES},
    {"memory-batch", "global batch", "peak of the fullest device", "bytes", "memory.devices.peak",
     "case.batch_global", "%s needs %s for a batch of %s", "most that one device held",
     "several --batch", model, .flags = LS_LINE_FALLS | LS_LINE_LOG_X | LS_LINE_LOG_Y},
    {"throughput-batch", "global batch", "samples/s", "samples/s", "time.samples_per_s",
     "case.batch_global", "%s reaches %s with a batch of %s", "samples/s" OF_STEP,
     "several --batch", model, .flags = LS_LINE_LOG_X | PACE},
    {"memory-growth", "devices", "growth in a step", "bytes", "memory.growth_per_step", NULL,
     "%s grows by %s a step on %s devices", "growth of the devices' memory from step to step",
     DEVICES, batch, .flags = LS_LINE_FALLS | LS_LINE_SCALES},
    {"program", "devices", "nodes of a step's program", "nodes", "program.nodes", NULL,
     "%s needs %s on %s devices", "number of nodes in the program of one step", DEVICES, batch,
     .flags = LS_LINE_FALLS | LS_LINE_LOG_X | LS_LINE_LOG_Y | LS_LINE_SCALES},
    {"build", "devices", "time to build the program, ms", "ms", "time.build_ms", NULL,
     "%s builds in %s on %s devices", "time to build the program of one step", DEVICES, batch,
     .flags = LS_LINE_FALLS | LS_LINE_LOG_X | LS_LINE_LOG_Y | LS_LINE_SCALES},
    {"bus-bandwidth", "bytes", "bus bandwidth, GB/s", "GB/s", "micro.busbw_gbs", "micro.size_bytes",
     "%s reaches %s at %s", "bus bandwidth by nccl-tests' formula",
     "rows of lockstep micro allreduce --allreduce .. --sizes ..", operation,
     .flags = LS_LINE_LOG_X, .by = "micro.kernel"},
    {"pipeline-idle", "micro-batches", "idle share", "%", "pipeline.bubble",
     "case.pipeline_microbatches", "%s is idle for %s with %s micro-batches",
     "share of the stages' time that they wait",
     "--strategy pipeline --pipeline-microbatches 1,2,4", batch,
     .flags = LS_LINE_FALLS | LS_LINE_LOG_X, .formula = "pipeline.bubble_equal"},
    {"staleness", "updates by others", "share of gradients", "%", "staleness.histogram", NULL,
     "%s has %s of its gradients %s updates late",
     "share of the gradients with so many updates by others since their pull", BY_ARRIVAL, batch,
     .flags = LS_LINE_ONE | LS_LINE_SHARES},
    {"lead", "steps ahead of the slowest", "share of gradients", "%", "lead.histogram", NULL,
     "%s has %s of its gradients %s steps ahead",
     "share of the gradients whose worker was so many steps ahead of the slowest", BY_ARRIVAL,
     batch, .flags = LS_LINE_ONE | LS_LINE_SHARES},
    {"loss-steps", "step", "loss", "", "train.losses", NULL, "%s has loss %s after %s steps",
     "loss of a batch", "rows of --verbose", batch, .flags = LS_LINE_FALLS | LS_LINE_ONE,
     .from = "case.warmup"},
    {"loss-time", "seconds", "loss", "", "train.losses", NULL, "%s has loss %s after %s s",
     "loss of a batch, at the mean step's pace", "rows of --verbose", batch,
     .flags = LS_LINE_FALLS | LS_LINE_ONE, .from = "case.warmup", .pace = "time.step_ms.mean"},
    {"accuracy", "timed steps", "accuracy on the test set", "%", "train.accuracy", "case.steps",
     "%s reaches %s after %s steps",
     "accuracy after all steps, on the test samples that the row has evaluated",
     "several --steps of one case", batch, .flags = LS_LINE_LOG_X},
    {"stragglers", "delay of one worker, ms", "time to the target, s", "s",
     "train.seconds_to_target", "case.inject", "%s reaches the target in %s with %s ms delay",
     "time to the target of --target", "--target loss=.. with " DELAYED, batch,
     .flags = LS_LINE_FALLS},
    {"step-bandwidth", "bandwidth of a link, MB/s", "step, ms", "ms", "time.step_ms.median",
     ls_line_link, "%s takes %s a step at %s MB/s", "time" OF_STEP,
     "several --link bandwidth=.. of one latency", batch,
     .flags = LS_LINE_FALLS | LS_LINE_LOG_X | LS_LINE_LOG_Y | PACE},
    {"stragglers-step", "delay of one worker, ms", "step, ms", "ms", "time.step_ms.median",
     "case.inject", "%s takes %s a step with %s ms delay", "time" OF_STEP, DELAYED, batch,
     .flags = LS_LINE_FALLS | PACE},
};

const size_t ls_line_kind_count = sizeof ls_line_kinds / sizeof *ls_line_kinds;

/* ---- Points --------------------------------------------------------------------------------- */

double ls_line_bandwidth(const json_t *row, uint64_t *latency_ns)
{
    static const char flat[] = "flat:";
    char text[128];
    ls_link link = {0};
    ls_report_text(row, "case.link", text, sizeof text);
    if (!*text) /* where it is predicted */
        ls_report_text(row, "prediction.platform", text, sizeof text);
    const char *its = text + (strncmp(text, flat, strlen(flat)) == 0 ? strlen(flat) : 0);
    if (*text)
        ls_status_free(ls_link_parse(its, &link));
    *latency_ns = link.latency_ns;
    return link.bytes_per_s > 0 ? link.bytes_per_s * 1e-6 : -1;
}

double ls_line_x(const json_t *row, const char *at)
{
    char text[128];
    uint64_t ns;
    if (!at)
        return ls_report_devices(row);
    if (strcmp(at, ls_line_link) == 0)
        return ls_line_bandwidth(row, &ns);
    if (strcmp(at, "case.inject") != 0)
        return ls_report_number(row, at, -1);
    const char *colon = strchr(ls_report_text(row, at, text, sizeof text), ':');
    if (!*text)
        return 0;
    return strncmp(text, "delay=", 6) == 0 && colon && ls_parse_duration(colon + 1, &ns)
               ? (double)ns * 1e-6
               : -1;
}

/* Adds some of the list's elements, including the first and the last. */
static void list_points(const json_t *row, const ls_line_kind *kind, const json_t *list,
                        json_t *series)
{
    const size_t count = json_array_size(list), stride = count / POINTS_OF_A_LIST + 1;
    const double first = kind->from ? ls_report_number(row, kind->from, 0) : 0;
    const double pace = kind->pace ? ls_report_number(row, kind->pace, NAN) / 1e3 : 1;
    double sum = kind->flags & LS_LINE_SHARES ? 0 : 1;
    for (size_t i = 0; i < count && kind->flags & LS_LINE_SHARES; i++)
        sum += json_number_value(json_array_get(list, i));
    for (size_t i = 0; i < count; i++) {
        const json_t *element = json_array_get(list, i);
        const double y = json_number_value(element) / sum;
        if ((i % stride == 0 || i + 1 == count) && json_is_number(element)) /* null: not finite */
            ls_figure_point(series, pace * (first + (double)i), y, y, y);
    }
}

void ls_line_add(const json_t *row, const ls_line_kind *kind, json_t *series)
{
    const double x = ls_line_x(row, kind->at);
    double y = ls_report_number(row, kind->of, -1);
    json_t *value = ls_row_value(row, kind->of);
    ls_interval own = ls_report_rate(row);
    double low = 1, high = 1; /* range of y */
    if (kind->flags & LS_LINE_FALLS && !ls_row_pace(row, &own))
        own.low = 0;
    if (kind->flags & LS_LINE_PACE && y > 0 && own.value > 0)
        y = own.value;
    if (kind->flags & LS_LINE_PACED && own.low > 0) {
        low = own.low / own.value;
        high = own.high / own.value;
    }
    if (json_is_array(value))
        list_points(row, kind, value, series);
    else if (x >= 0 && y >= 0)
        ls_figure_point(series, x, y, y * low, y * high);
    json_decref(value);
}
