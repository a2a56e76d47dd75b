/* SPDX-License-Identifier: MIT */
/* Options of commands that play steps on devices that are not here: part of the option table. */
#include "bench/cli/option_table.h"
#include "bench/cli/option_values.h"

enum { VIRTUAL = LS_FOR_PREDICT | LS_FOR_ADVISE };

static const char *const engines[] = {"auto", "simgrid", "ports", NULL};
static const char *const expansions[] = {"flows", "messages", "formula", NULL};

const ls_option ls_virtual_options[] = {
    {"platform", "NETWORK", "none", "",
     "between virtual devices: flat:latency=10us,bandwidth=1GB/s; "
     "two-level:host=1us@10GB/s,net=10us@25Gbps; FILE.xml of SimGrid; --platform list prints "
     "those with a name",
     VIRTUAL, .group = LS_HELP_STRATEGY, .set = ls_set_text, IN_REQUEST(prediction.platform)},
    {"devices-per-host", "K", "1", "devices",
     "devices that share a host, and this machine's cores while durations are measured", VIRTUAL,
     .group = LS_HELP_STRATEGY, .set = ls_set_int, IN_REQUEST(prediction.devices_per_host),
     .low = 1, .high = 1024},
    {"durations", "measured|FILE|flops=RATE", "measured", "",
     "of operations: measured here; from predict --calibrate; or FLOPs over a rate, a guess",
     VIRTUAL, .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(prediction.durations)},
    {"engine", "auto|simgrid|ports", "auto", "",
     "what plays the steps; auto: ports for flat platforms, else simgrid", VIRTUAL,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_word, IN_REQUEST(prediction.engine),
     .words = engines},
    {"collectives", "flows|messages|formula", "flows", "",
     "flows: a ring's messages to one rank are one; messages: each by itself; formula: an "
     "all-reduce is a time, and shares no port",
     VIRTUAL, .group = LS_HELP_MEASUREMENT, .set = ls_set_word, IN_REQUEST(prediction.collectives),
     .words = expansions},
    {"draws", "N", "32; above 256 devices 8", "draws",
     "plays with durations drawn from the measured spread; 1: medians alone", VIRTUAL,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_int, IN_REQUEST(prediction.draws), .low = 1,
     .high = 10000},
    {"slowdown", "RANK=FACTOR", "none", "", "durations of a device are multiplied by it", VIRTUAL,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(prediction.slowdown)},
    {"memory-limit", "SIZE", "none", "bytes",
     "of each device; a case that needs more is an error row, which says how much", VIRTUAL,
     .group = LS_HELP_STRATEGY, .set = ls_set_text, IN_REQUEST(prediction.memory_limit)},
    {"goal", "FILE", "none", "",
     "for one case: the graph of all steps for other simulators, in GOAL (LogGOPSim, ATLAHS)",
     LS_FOR_PREDICT, .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(prediction.goal)},
    {"chakra", "DIR", "none", "",
     "for one case: the same as Chakra execution traces (ASTRA-sim), steps.RANK.et of each device",
     LS_FOR_PREDICT, .group = LS_HELP_MEASUREMENT, .set = ls_set_text,
     IN_REQUEST(prediction.chakra)},
    {"trace", "FILE", "none", "",
     "for one case: the counted steps, as Chrome's and Perfetto's JSON", LS_FOR_PREDICT,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(prediction.trace)},
    {"calibrate", "yes|no", "no", "",
     "measures durations, writes them to --out FILE for --durations, and predicts nothing",
     LS_FOR_PREDICT, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch,
     IN_REQUEST(prediction.calibrate)},
    {"validate", "yes|no", "no", "",
     "compares with measured rows of the same cases in --results, and prints the errors",
     LS_FOR_PREDICT, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch,
     IN_REQUEST(prediction.validate)},
    {0},
};
