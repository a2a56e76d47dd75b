/* SPDX-License-Identifier: MIT */
/* Options of predict, advise, regress and report alone: part of the option table. */
#include "bench/cli/option_table.h"
#include "bench/cli/option_values.h"

enum { VIRTUAL = LS_FOR_PREDICT | LS_FOR_ADVISE };

static const char *const engines[] = {"auto", "simgrid", "ports", NULL};
static const char *const expansions[] = {"flows", "messages", "formula", NULL};

const ls_option ls_other_options[] = {
    {"platform", "NETWORK", "none", "",
     "network between the simulated devices: flat:latency=10us,bandwidth=1GB/s; "
     "two-level:host=1us@10GB/s,net=10us@25Gbps; FILE.xml of SimGrid; or a name that --platform "
     "list prints",
     VIRTUAL, .group = LS_HELP_STRATEGY, .set = ls_set_text, IN_REQUEST(prediction.platform)},
    {"devices-per-host", "K", "1", "devices",
     "number of simulated devices on each host; as many share this machine's cores while durations "
     "are measured",
     VIRTUAL, .group = LS_HELP_STRATEGY, .set = ls_set_int, IN_REQUEST(prediction.devices_per_host),
     .low = 1, .high = 1024},
    {"durations", "measured|FILE|flops=RATE", "measured", "",
     "durations of operations; measured: on this machine; FILE: as predict --calibrate wrote; "
     "flops=RATE: estimated as FLOPs / RATE",
     VIRTUAL, .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(prediction.durations)},
    {"engine", "auto|simgrid|ports", "auto", "",
     "simulator of the steps; auto: ports for flat platforms, else simgrid", VIRTUAL,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_word, IN_REQUEST(prediction.engine),
     .words = engines},
    {"collectives", "flows|messages|formula", "flows", "",
     "how an all-reduce is simulated; messages: each message; flows: a ring's messages to one rank "
     "as one; formula: as one duration, without contention",
     VIRTUAL, .group = LS_HELP_MEASUREMENT, .set = ls_set_word, IN_REQUEST(prediction.collectives),
     .words = expansions},
    {"draws", "N", "32; above 256 devices 8", "draws",
     "number of simulations, each with durations drawn from the measured ones; 1: medians only",
     VIRTUAL, .group = LS_HELP_MEASUREMENT, .set = ls_set_int, IN_REQUEST(prediction.draws),
     .low = 1, .high = 10000},
    {"slowdown", "RANK=FACTOR", "none", "", "multiplies the durations of device RANK by FACTOR",
     VIRTUAL, .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(prediction.slowdown)},
    {"memory-limit", "SIZE", "none", "bytes",
     "memory of each device; a case that needs more gives an error row, which says how much it "
     "needs",
     VIRTUAL, .group = LS_HELP_STRATEGY, .set = ls_set_text, IN_REQUEST(prediction.memory_limit)},
    {"goal", "FILE", "none", "",
     "writes one case's graph of all steps in GOAL format, for LogGOPSim or ATLAHS", LS_FOR_PREDICT,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(prediction.goal)},
    {"chakra", "DIR", "none", "",
     "writes one case's graph as Chakra execution traces, for ASTRA-sim: a file steps.RANK.et for "
     "each device",
     LS_FOR_PREDICT, .group = LS_HELP_MEASUREMENT, .set = ls_set_text,
     IN_REQUEST(prediction.chakra)},
    {"trace", "FILE", "none", "",
     "writes one case's simulated steps as a trace for Chrome or Perfetto (JSON)", LS_FOR_PREDICT,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(prediction.trace)},
    {"calibrate", "yes|no", "no", "",
     "measures durations, writes them to --out FILE for --durations, and predicts nothing",
     LS_FOR_PREDICT, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch,
     IN_REQUEST(prediction.calibrate)},
    {"validate", "yes|no", "no", "",
     "compares with measured rows of the same cases in --results, and prints the errors",
     LS_FOR_PREDICT, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch,
     IN_REQUEST(prediction.validate)},
    {"threshold", "P%", "3%", "of the time", "smallest change that counts as slower or faster",
     LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"fail-on", "KEY,..", "none", "",
     "fields of a row that must not get worse, in addition to gates, bytes, messages and computed "
     "memory; KEY=5% allows 5%; for example program.nodes,rss_peak=5%",
     LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"instructions", "yes|no", "no", "",
     "also counts the instructions of a step (with callgrind; by default with batch 32 and "
     "synthetic:512)",
     LS_FOR_REGRESS, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"calibrate", "N", "none", "comparisons",
     "compares PROGRAM with itself N times, and N times each with its times raised by 1, 2, 3, 5, "
     "10%; prints how often each verdict came",
     LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"bisect", "GOOD", "none", "",
     "prints the command that finds which commit after GOOD made the program slower",
     LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"build", "COMMAND", "none", "",
     "with --bisect: command that builds build/lockstep in a commit's work tree", LS_FOR_REGRESS,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"against", "KEY", "none", "",
     "shows the values of this key side by side, such as provenance.commit or label", LS_FOR_REPORT,
     .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"bare", "yes|no", "no", "", "PDFs without title and footer, for a paper", LS_FOR_REPORT,
     .is_switch = true, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"font-size", "SIZE", "6.2pt", "", "size of letters in PDFs, which are 8.6 cm wide",
     LS_FOR_REPORT, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"url", "URL", "none", "", "address of the report or of your project, for its BibTeX entry",
     LS_FOR_REPORT, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {0},
};
