/* SPDX-License-Identifier: MIT */
/* Kinds of figures of lines; see figure_kinds.h. */
#include "bench/report/figure_kinds.h"

static const char *const model[] = {"case.model", NULL};
static const char *const batch[] = {"case.model", "case.batch_global", NULL};
static const char *const operation[] = {"micro.op", "micro.ranks", "micro.shape", "micro.comm",
                                        NULL};

#define DEVICES    "several numbers of devices: --devices 1,2,4"
#define BASELINE   DEVICES " --baseline yes"
#define DELAYED    "several --inject delay=RANK:TIME"
#define BY_ARRIVAL "--strategy ps --ps-mode ssp,async"

enum {
    FALLS = LS_LINE_FALLS,
    LOG_X = LS_LINE_LOG_X,
    LOG_Y = LS_LINE_LOG_Y,
    ONE = LS_LINE_ONE,
    SCALES = LS_LINE_SCALES,
    FIRST = LS_LINE_FIRST,
    SHARES = LS_LINE_SHARES
};

/* name, x, y, unit, of, at, title, means, want, group, flags */
const ls_line_kind ls_line_kinds[] = {
    {"throughput", "devices", "samples/s", "samples/s", "time.samples_per_s", NULL,
     "%s reaches %s on %s devices", "samples/s of the median step", BASELINE, batch,
     .flags = FIRST | SCALES, .ideal = "linear"},
    {"speed-up", "devices", "speed-up over one device", "times", "time.speedup", NULL,
     "%s is %s as fast on %s devices", "speed-up over single on one like device", BASELINE, batch,
     .flags = FIRST | SCALES, .ideal = "linear"},
    {"efficiency", "devices", "efficiency", "%", "time.efficiency", NULL,
     "%s keeps %s on %s devices", "speed-up over single on one like device, over the devices",
     BASELINE, batch, .flags = FIRST | SCALES, .ideal = "one"},
    {"memory-devices", "devices", "peak of the fullest device", "bytes", "memory.devices.peak",
     NULL, "%s needs %s on %s devices", "most that one device held", DEVICES, batch,
     .flags = FALLS | LOG_Y | SCALES},
    {"memory-batch", "global batch", "peak of the fullest device", "bytes", "memory.devices.peak",
     "case.batch_global", "%s needs %s for a batch of %s", "most that one device held",
     "several --batch", model, .flags = FALLS | LOG_X | LOG_Y},
    {"memory-growth", "devices", "growth in a step", "bytes", "memory.growth_per_step", NULL,
     "%s grows by %s a step on %s devices", "growth of the devices' memory from step to step",
     DEVICES, batch, .flags = FALLS | SCALES},
    {"program", "devices", "nodes of a step's program", "nodes", "program.nodes", NULL,
     "%s needs %s on %s devices", "number of nodes in the program of one step", DEVICES, batch,
     .flags = FALLS | LOG_X | LOG_Y | SCALES},
    {"build", "devices", "time to build the program, ms", "ms", "time.build_ms", NULL,
     "%s builds in %s on %s devices", "time to build the program of one step", DEVICES, batch,
     .flags = FALLS | LOG_X | LOG_Y | SCALES},
    {"bus-bandwidth", "bytes", "bus bandwidth, GB/s", "GB/s", "micro.busbw_gbs", "micro.size_bytes",
     "%s reaches %s at %s bytes", "bus bandwidth by nccl-tests' formula",
     "rows of lockstep micro allreduce --allreduce .. --sizes ..", operation, .flags = LOG_X,
     .by = "micro.kernel"},
    {"pipeline-idle", "micro-batches", "idle share", "%", "pipeline.bubble",
     "case.pipeline_microbatches", "%s is idle for %s with %s micro-batches",
     "share of the stages' time that they wait",
     "--strategy pipeline --pipeline-microbatches 1,2,4", batch, .flags = FALLS | LOG_X,
     .formula = "pipeline.bubble_equal"},
    {"staleness", "updates by others", "share of gradients", "%", "staleness.histogram", NULL,
     "%s: %s are %s updates late",
     "share of the gradients with so many updates by others since their pull", BY_ARRIVAL, batch,
     .flags = ONE | SHARES},
    {"lead", "steps ahead of the slowest", "share of gradients", "%", "lead.histogram", NULL,
     "%s: %s are %s steps ahead",
     "share of the gradients whose worker was so many steps ahead of the slowest", BY_ARRIVAL,
     batch, .flags = ONE | SHARES},
    {"loss-steps", "step", "loss", "", "train.losses", NULL, "%s has loss %s after %s steps",
     "loss of a batch", "rows of --verbose", batch, .flags = FALLS | ONE, .from = "case.warmup"},
    {"loss-time", "seconds", "loss", "", "train.losses", NULL, "%s has loss %s after %s s",
     "loss of a batch, at the mean step's pace", "rows of --verbose", batch, .flags = FALLS | ONE,
     .from = "case.warmup", .pace = "time.step_ms.mean"},
    {"accuracy", "timed steps", "accuracy on the test set", "%", "train.accuracy", "case.steps",
     "%s reaches %s after %s steps", "accuracy on the test set after all steps",
     "several --steps of one case", batch, .flags = LOG_X},
    {"stragglers", "delay of one worker, ms", "time to the target, s", "s",
     "train.seconds_to_target", "case.inject", "%s is there in %s with %s ms delay",
     "time to the target of --target", "--target loss=.. with " DELAYED, batch, .flags = FALLS},
    {"stragglers-step", "delay of one worker, ms", "median step, ms", "ms", "time.step_ms.median",
     "case.inject", "%s takes %s a step with %s ms delay", "median step", DELAYED, batch,
     .flags = FALLS},
};

const size_t ls_line_kind_count = sizeof ls_line_kinds / sizeof *ls_line_kinds;
