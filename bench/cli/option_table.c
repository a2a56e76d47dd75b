/* SPDX-License-Identifier: MIT */
/*
 * Option table: see option_table.h. One entry per option, in the order of `--help`; an option that
 * another one's `applies` reads comes before it. Options that strategies, models and data sets
 * declare follow; then the options that are `late`, since declared ones decide which cases have
 * them.
 */
#include "bench/cli/option_table.h"

#include "bench/cli/option_values.h"
#include "bench/output/results_db.h"
#include "common/base/escape.h"
#include "common/data/data.h"
#include "common/nn/divide/graph_split.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"
#include "common/nn/rate.h"

#include <stdlib.h>
#include <string.h>
#include <threads.h>

#define IN_CASE(field)      .sweeps = true, .offset = offsetof(ls_case, field)
#define TEXT_IN_CASE(field) IN_CASE(field), .high = sizeof(((ls_case *)0)->field)

enum {
    RUN_VERIFY = LS_FOR_RUN | LS_FOR_VERIFY,
    MACHINE = RUN_VERIFY | LS_FOR_MICRO | LS_FOR_DEVICES,
    PRINTING = RUN_VERIFY
};

#define MANY 2147483647

/* Options that this build does not have are not in the help, and are refused by name. */
#ifdef LOCKSTEP_MPI
#define COMM_MPI  "|mpi"
#define COMM_HELP "auto: mpi under mpirun (between GPUs nccl), else thread, which on GPUs is device"
#else
#define COMM_MPI  ""
#define COMM_HELP "auto: thread, which on GPUs is device"
#endif
#if LS_HAS_NCCL
#define COMM_NCCL "|nccl"
#else
#define COMM_NCCL ""
#endif

static const char *const progresses[] = {"auto", "no", "yes", NULL}; /* numbers from -1 */

static bool reduces(const ls_strategy *strategy)
{
    return ls_strategy_reduces(strategy) || ls_strategy_splits(strategy);
}

static const char *const failures[] = {"stop", "shrink", NULL};
static const char *const launchers[] = {"auto", "none", NULL};
static const char *const comms[] = {"auto", "thread", "mpi", "nccl", "device", NULL};
static const char durations[] = "a time from 1ms to 86400s: 20s, 500ms, 2min";

/* Whether replicas are alike, hold the variables, and sum their gradients. */
static bool is_elastic(const ls_strategy *strategy)
{
    return strategy->spreads.gradients.on[LS_MEMBER] == LS_PARTIAL &&
           strategy->spreads.parameters.on[LS_MEMBER] == LS_WHOLE;
}

static bool is_elastic_case(const ls_case *one)
{
    return is_elastic(one->strategy);
}

static bool may_shrink(const ls_case *one)
{
    return is_elastic(one->strategy) && one->fault.kind == LS_FAULT_KILL;
}

static const char lr_decays[] = "cases with --lr-schedule linear, cosine or wsd";

static const ls_option general[] = {
    {"model", "NAME[:SIZES]", "mlp", "",
     "model to train; any in `lockstep list models`; graph:FILE.yaml: a list of layers",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_TRAINING, .set = ls_set_model,
     .check_list = ls_check_models, .noun = "model", .registry = &ls_model_families,
     TEXT_IN_CASE(model)},
    {"data", "NAME[:PATH]", "the model's", "",
     "data to train on; any in `lockstep list data`; synthetic:N samples; file:PATH",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_TRAINING, .set = ls_set_data, .noun = "data set",
     .registry = &ls_data_sources, TEXT_IN_CASE(data)},
    {"strategy", "NAME|all", "single", "",
     "parallel strategy; any in `lockstep list strategies`, or all", RUN_VERIFY,
     .group = LS_HELP_STRATEGY, .set = ls_set_strategy, .noun = "strategy",
     .registry = &ls_strategies, IN_CASE(strategy), .otherwise = LS_FOR_ADVISE,
     .otherwise_fallback = "all"},
    {"devices", "N|all|NAME+NAME", "1", "devices",
     "that many of the best kind here; all: 1 to as many as there are; or names: "
     "cpu:0+cpu:1, gpu:0/0+gpu:0/1",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_STRATEGY, .set = ls_set_devices,
     TEXT_IN_CASE(devices), .valid = "a number from 1 to 4096, or names as cpu:0+cpu:1"},
    {"cpu-devices", "N", "cores / cores per device", "devices", "number of CPU devices", MACHINE,
     .group = LS_HELP_STRATEGY, .set = ls_set_int, IN_REQUEST(cpu_devices), .low = 1, .high = 4096},
    {"cores-per-device", "N", "1", "cores", "cores of each CPU device", MACHINE,
     .group = LS_HELP_STRATEGY, .set = ls_set_int, IN_REQUEST(cores_per_device), .low = 1,
     .high = 64},
    {"logical-gpus", "N", "1", "devices", "each GPU counts as N: gpu:G/0 to gpu:G/N-1", MACHINE,
     .group = LS_HELP_STRATEGY, .set = ls_set_int, IN_REQUEST(logical_gpus), .low = 1, .high = 64},
    {"batch", "B", "the model's", "samples",
     "batch of a step: global, or per device (weak; profiles)", RUN_VERIFY | LS_FOR_MICRO,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(batch), .low = 1, .high = MANY},
    {"gradient-accumulation-steps", "A", "1", "pieces",
     "of a replica's part of a batch, one after the other", RUN_VERIFY, .group = LS_HELP_TRAINING,
     .set = ls_set_int64, IN_CASE(accumulation), .low = 1, .high = MANY},
    {"recompute", "none|mlp|full|N", "none", "units",
     "forward outputs that backward computes again", RUN_VERIFY, .group = LS_HELP_TRAINING,
     .set = ls_set_recompute, IN_CASE(drops)},
    {"scaling", "strong|weak", "strong", "",
     "strong: --batch is the global batch; weak: the batch per device, the default of profile:",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_word, IN_CASE(scaling),
     .words = ls_scaling_words},
    {"steps", "N", "100", "steps", "timed steps; not with --epochs", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(steps), .low = 0, .high = MANY,
     .otherwise = LS_FOR_PREDICT | LS_FOR_ADVISE, /* virtual steps are alike, so that few say all */
     .otherwise_fallback = "5"},
    {"epochs", "N", "none", "epochs",
     "times that the whole data are trained on, instead of --steps", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_epochs, IN_CASE(epochs), .low = 1, .high = 1000000},
    {"warmup", "N", "10", "steps", "steps trained but not timed; with --epochs the first of them",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(warmup), .low = 0,
     .high = MANY, .otherwise = LS_FOR_PREDICT | LS_FOR_ADVISE, .otherwise_fallback = "3"},
    {"blocks", "N", "5", "blocks", "blocks of timed steps; cases take turns", LS_FOR_RUN,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_int64, IN_REQUEST(blocks), .low = 1,
     .high = 100000},
    {"until-precision", "P%", "none", "of the median",
     "adds blocks, as long as the others or 0.1 s, until half of the interval is that "
     "narrow, 20 blocks or more; not with --epochs, --save or --ps-record",
     LS_FOR_RUN, .group = LS_HELP_MEASUREMENT, .set = ls_set_precision,
     .valid = "from 0.01% to 50%: 1%, 0.5%"},
    {"max-time", "TIME", "60s; regress: 1min a case, at most 10min", "time",
     "--until-precision adds no more blocks after this time, for up to 8 cases in turns; "
     "regress: time of a comparison, which ends earlier if it is clear",
     LS_FOR_RUN | LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_duration,
     IN_REQUEST(max_time_ns), .valid = durations},
    {"optimizer", "NAME[:VALUES]", "the model's", "",
     "any in `lockstep list optimizers`: momentum:0.9, adam:beta1=0.9,beta2=0.999,eps=1e-8",
     RUN_VERIFY | LS_FOR_MICRO, .continues = true, .group = LS_HELP_TRAINING,
     .set = ls_set_optimizer, .noun = "optimizer", .registry = &ls_optimizer_rules,
     TEXT_IN_CASE(optimizer)},
    {"clip", "X", "none", "",
     "gradients are scaled by min(1, X / (norm + 1e-6)), norm over all variables", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_real, IN_CASE(clip), .least = 1e-30, .most = 1e30,
     .valid = "none, or a norm above 0, from 1e-30 to 1e30"},
    {"lr", "RATE", "the model's", "", "learning rate", RUN_VERIFY, .group = LS_HELP_TRAINING,
     .set = ls_set_real, IN_CASE(learning_rate), .least = 1e-30, .most = 1e6,
     .valid = "a number above 0, from 1e-30 to 1e6"},
    {"lr-schedule", "NAME", "the model's", "",
     "any in `lockstep list lr-schedules`; the model's is constant but for cifar10's", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_named, .noun = "learning-rate schedule",
     .registry = &ls_rate_rules, TEXT_IN_CASE(lr_schedule)},
    {"lr-warmup-steps", "W", "0", "steps",
     "step t, from 0, of the first W has the rate lr (t + 1) / W", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(lr_warmup), .low = 0, .high = MANY},
    {"lr-decay-steps", "N", "all the run's steps", "steps",
     "where the schedule ends, counted from the first step, untimed ones included", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(lr_decay), .low = 1, .high = MANY,
     .applies = ls_case_lr_decays, .concerns = lr_decays},
    {"min-lr", "RATE", "0", "", "learning rate at the schedule's end", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_real, IN_CASE(min_lr), .least = 0, .most = 1e6,
     .valid = "a number from 0 to 1e6", .applies = ls_case_lr_decays, .concerns = lr_decays},
    {"lr-wsd-decay-steps", "D", "a tenth of N", "steps",
     "the last of the schedule's steps, in which the rate falls; at most N - W", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(lr_wsd_decay), .low = 1, .high = MANY,
     .applies = ls_case_lr_is_wsd, .concerns = "cases with --lr-schedule wsd"},
    {"seed", "N", "1", "", "seed of the initial values and the order of samples", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(seed), .low = 0, .high = INT64_MAX},
    {"target", "accuracy=A|loss=L", "none", "",
     "looked at after each epoch (accuracy) or 10 steps (loss); the row says after how many steps "
     "it was reached",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_target, .sweeps = true,
     .valid = "accuracy=A with A above 0 and at most 1, or loss=L with L above 0"},
    {"shuffle", "yes|no", "yes", "", "no: samples in file order", RUN_VERIFY, .is_switch = true,
     .group = LS_HELP_TRAINING, .set = ls_set_switch, IN_CASE(shuffle)},
    {"load", "FILE", "none", "",
     "parameters before the first step: safetensors, or the index of several such files",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_text, IN_REQUEST(load)},
    {"save", "FILE", "none", "", "parameters after the last step (safetensors); one case only",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_text, IN_REQUEST(save)},
    {"checkpoint", "DIR", "none", "",
     "writes the state after the last step, and at an interrupt, to DIR/step-N; one case only",
     LS_FOR_RUN, .group = LS_HELP_TRAINING, .set = ls_set_text, IN_REQUEST(checkpoint)},
    {"checkpoint-interval", "K", "none", "steps", "also writes it after every K-th step",
     LS_FOR_RUN, .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_REQUEST(checkpoint_interval),
     .low = 1, .high = MANY},
    {"checkpoint-keep", "N", "all", "checkpoints",
     "the newest N stay; older ones are removed once a new one is complete", LS_FOR_RUN,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_REQUEST(checkpoint_keep), .low = 1,
     .high = MANY},
    {"resume-from-checkpoint", "PATH|auto", "none", "",
     "goes on from a checkpoint, or the newest in a folder; auto: of --checkpoint, if there is one",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_text, IN_REQUEST(resume_from)},
    {"reduce", "fast|exact", "fast", "", "exact: the same bits from every synchronous strategy",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_word, IN_CASE(reduce),
     .words = ls_reduce_words},
    {"micro-shards", "S", "16", "shards", "shards into which exact mode divides a batch",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(micro_shards), .low = 1,
     .high = MANY, .applies = ls_case_is_exact, .concerns = "cases with --reduce exact"},
    {"micro-splits", "Z", "1", "slices",
     "slices into which exact mode splits pairs of dense layers", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(micro_splits), .low = 1,
     .high = LS_SPLITS, .applies = ls_case_has_slices, .of = ls_strategy_slices, .late = true,
     .concerns = "--reduce exact"},
    {"gate-steps", "N", "10", "steps",
     "steps compared with the reference; 0: not compared (verify compares all)", LS_FOR_RUN,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_int64, IN_CASE(gate_steps), .low = 0,
     .high = MANY},
    {"eval-samples", "auto|N|all", "auto", "samples",
     "test samples evaluated after the last step; auto: all with --epochs, else as many as were "
     "trained, at least 1,000 (64 windows of tokens); 0: none",
     RUN_VERIFY, .group = LS_HELP_MEASUREMENT, .set = ls_set_eval_samples, IN_CASE(eval_samples),
     .low = 0, .high = MANY, .valid = "auto, all, or a number of samples from 0 to 2147483647"},
    {"baseline", "yes|no", "no", "", "adds the row of single on one like device", LS_FOR_RUN,
     .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch, IN_REQUEST(baseline)},
    {"waterfall", "yes|no", "yes", "",
     "yes: measures where the time of the steps goes, and what exact mode adds", LS_FOR_RUN,
     .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch, IN_REQUEST(waterfall)},
    {"allreduce", "NAME|auto", "auto", "",
     "any in `lockstep list`; auto: by sizes, ranks, hosts and links", RUN_VERIFY | LS_FOR_MICRO,
     .group = LS_HELP_STRATEGY, .set = ls_set_named, .noun = "all-reduce algorithm",
     .registry = &ls_allreduces, TEXT_IN_CASE(allreduce), .applies = ls_case_reduces,
     .of = reduces},
    {"bucket-bytes", "SIZE", "auto", "bytes", "bucket of an all-reduce: 25MiB; 0: one per variable",
     RUN_VERIFY, .group = LS_HELP_STRATEGY, .set = ls_set_bucket, .sweeps = true,
     .valid = "auto, 0 for one per variable, or a size as 25MiB", .applies = ls_case_has_buckets,
     .of = ls_strategy_reduces, .late = true, .concerns = "--reduce fast"},
    {"comm", "auto|thread" COMM_MPI COMM_NCCL "|device", "auto", "", COMM_HELP,
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_STRATEGY, .set = ls_set_comm, .sweeps = true,
     .words = comms},
    {"ranks", "N", "1", "ranks", "ranks as threads of this process (--comm thread)",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_STRATEGY, .set = ls_set_ranks, IN_CASE(ranks),
     .low = 1, .high = 1024},
    {"memory", "growth|all|fraction=F", "growth; all on GPUs", "of a device's capacity",
     "how a device allocates memory", RUN_VERIFY, .group = LS_HELP_STRATEGY, .set = ls_set_memory,
     TEXT_IN_CASE(memory_text),
     .valid = "valid are: growth, all, fraction=F with F above 0 and at most 1"},
    {"link", "latency=T,bandwidth=R", "none", "time, bytes/s",
     "delays copies and messages between devices: latency=50us,bandwidth=1GB/s (or 10Gbps), or one "
     "of them",
     RUN_VERIFY | LS_FOR_MICRO, .continues = true, .group = LS_HELP_STRATEGY, .set = ls_set_link,
     TEXT_IN_CASE(link_text), .applies = ls_case_has_links,
     .concerns = "cases with a strategy of several devices"},
    {"soft-placement", "yes|no", "no", "",
     "yes: a device that this machine lacks is replaced by one that it has", RUN_VERIFY,
     .is_switch = true, .group = LS_HELP_STRATEGY, .set = ls_set_switch,
     IN_REQUEST(soft_placement)},
    {"log-placement", "yes|no", "no", "", "yes: prints where each node runs", RUN_VERIFY,
     .is_switch = true, .group = LS_HELP_STRATEGY, .set = ls_set_switch, IN_REQUEST(log_placement)},
    {"math", "float32|tf32", "float32", "", "arithmetic of products (tf32 on GPUs only)",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_gpu_word, IN_CASE(math),
     .words = ls_math_words},
    {"precision", "float32|bf16", "float32", "",
     "bf16: outputs, their gradients and a copy of the parameters are stored in bfloat16",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_word, IN_CASE(precision),
     .words = ls_precision_words},
    {"convolution", "auto|cudnn|own", "auto", "",
     "on GPUs: own kernels, or cuDNN where it is faster; cudnn, own: all by that",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_TRAINING, .set = ls_set_gpu_word,
     .words = ls_convolution_words, IN_CASE(convolution), .applies = ls_case_convolves,
     .concerns = "cases with --model cifar10 or resnet, or a graph with conv"},
    {"capture", "yes|no", "yes", "", "no: operations are enqueued one by one, not as a program",
     RUN_VERIFY, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch,
     IN_CASE(capture)},
    {"inject", "bitflip=D:S|kill=R:S|..", "none", "device:step, rank:step",
     "plants a fault, to test the checks; also stop=, exit=, hang=R:S; delay=R:T", RUN_VERIFY,
     .continues = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_inject, IN_CASE(fault)},
    {"on-failure", "stop|shrink", "stop", "",
     "shrink: the replicas of a killed rank are gone, and the others redo its step", RUN_VERIFY,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_word, IN_CASE(shrinks), .words = failures,
     .of = is_elastic, .applies = may_shrink, .concerns = "--inject kill=RANK:STEP"},
    {"elastic", "leave=D:S,join=D:S,..", "none", "replica:step",
     "replica D is out, or in, from before step S on; it begins outside if it joins first",
     RUN_VERIFY, .continues = true, .group = LS_HELP_STRATEGY, .set = ls_set_elastic,
     .of = is_elastic, .applies = is_elastic_case, TEXT_IN_CASE(elastic),
     .valid = "leave=REPLICA:STEP or join=REPLICA:STEP, up to 64 with commas between them"},
    {"timeout", "TIME", "20s", "time",
     "fails when another rank, or a GPU, makes no progress for this time", RUN_VERIFY,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_duration, IN_REQUEST(timeout_ns),
     .valid = durations, .applies = ls_case_has_timeout,
     .concerns = "cases with several devices or ranks, or a GPU that --devices names"},
    {"launcher", "auto|none", "auto", "",
     "auto: ranks connect as the launcher's variables say; none: each of its tasks runs alone",
     MACHINE, .group = LS_HELP_STRATEGY, .set = ls_set_launcher, .words = launchers},
    {"ps-record", "FILE", "none", "", "records the order in which servers serve; one case only",
     LS_FOR_RUN, .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(ps_record),
     .applies = ls_case_by_arrival,
     .concerns = "cases with --strategy ps and --ps-mode async or ssp, or backup workers"},
    {"sizes", "SIZE,SIZE", "the operation's", "bytes", "sizes to measure: 4KiB,1MiB", LS_FOR_MICRO,
     .sweeps = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"label", "TEXT", "none", "", "text kept in the row", PRINTING | LS_FOR_MICRO,
     .group = LS_HELP_OUTPUT, .whole = true, .set = ls_setting_array, TEXT_IN_CASE(label)},
    {"format", "table|jsonl|json|csv|md", "table", "",
     "of regress: table, json, md, junit, github, or several with --out NAME (NAME.md, ..)",
     PRINTING | LS_FOR_MICRO | LS_FOR_RESULTS | LS_FOR_DEVICES | LS_FOR_REGRESS,
     .group = LS_HELP_OUTPUT, .set = ls_set_format, IN_REQUEST(format)},
    {"results", "FILE|none", LS_RESULTS_DEFAULT, "",
     "database for the rows; for report also JSON lines, and several files",
     PRINTING | LS_FOR_MICRO | LS_FOR_RESULTS | LS_FOR_REGRESS | LS_FOR_REPORT,
     .repeats = LS_FOR_REPORT, .group = LS_HELP_OUTPUT, .set = ls_set_results, IN_REQUEST(results)},
    {"where", "KEY=VALUE,..", "all rows", "",
     "rows that meet all conditions: =, !=, >, <, >=, <=, ~ (contains); a key is a field of a row, "
     "as case.strategy or strategy",
     LS_FOR_RESULTS | LS_FOR_REGRESS | LS_FOR_REPORT, .group = LS_HELP_OUTPUT,
     .set = ls_set_nothing},
    {"since", "AGE|DAY", "all times", "", "rows not older than this: 2d, 12h, or 2026-11-20 (UTC)",
     LS_FOR_RESULTS, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"last", "N", "all", "rows", "the newest of the selected rows", LS_FOR_RESULTS,
     .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"sort", "KEY|-KEY", "time", "", "by a key; -: the largest first", LS_FOR_RESULTS,
     .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"columns", "KEY,..", "what differs, and figures", "",
     "only these fields of a row, by path or last part: strategy,time.step_ms.median",
     PRINTING | LS_FOR_RESULTS, .group = LS_HELP_OUTPUT, .set = ls_set_columns,
     IN_REQUEST(columns)},
    {"to", "jsonl|csv|md|google-benchmark|benchmark-action|mlperf", "none", "",
     "for export: the format", LS_FOR_RESULTS, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"out", "FILE|DIR", "standard output", "",
     "for export and regress; results trend: a picture; required: trace (a file), report (folder)",
     LS_FOR_RESULTS | LS_FOR_TRACE | LS_FOR_REGRESS | LS_FOR_REPORT | LS_FOR_PREDICT,
     .group = LS_HELP_OUTPUT, .set = ls_set_text, IN_REQUEST(out)},
    {"trace-steps", "N", "3", "steps", "steps that are traced, after the warm-up", LS_FOR_TRACE,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_int, IN_REQUEST(trace_steps), .low = 1,
     .high = 1000},
    {"against", "KEY", "none", "", "values of a key side by side: provenance.commit, label",
     LS_FOR_REPORT, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"bare", "yes|no", "no", "", "PDFs without title and footer, for a paper", LS_FOR_REPORT,
     .is_switch = true, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"font-size", "SIZE", "6.2pt", "", "letters of PDFs, which are 8.6 cm wide", LS_FOR_REPORT,
     .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"url", "URL", "none", "", "where the report or your project is, for BibTeX", LS_FOR_REPORT,
     .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"yes", "yes|no", "no", "", "for prune: deletes the rows", LS_FOR_RESULTS, .is_switch = true,
     .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"all", "yes|no", "no", "", "for show and diff: everything that rows have", LS_FOR_RESULTS,
     .is_switch = true, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"threshold", "P%", "3%", "of the time", "smallest change that counts as slower or faster",
     LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"fail-on", "KEY,..", "none", "",
     "fields of a row that may not become worse, besides gates, bytes, messages and memory by "
     "formula; KEY=5% allows 5%: program.nodes,allocations,binary_bytes=1%,rss_peak=5%",
     LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"instructions", "yes|no", "no", "",
     "also counts instructions of a step (callgrind; by default batch 32 and synthetic:512)",
     LS_FOR_REGRESS, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"calibrate", "N", "none", "comparisons",
     "PROGRAM against itself, N times unchanged and N times counted 1, 2, 3, 5, 10% slower: "
     "frequency of each verdict",
     LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"bisect", "GOOD", "none", "",
     "names the script that finds the commit after GOOD, up to BAD, that made it slower",
     LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"build", "COMMAND", "none", "",
     "of that script: builds build/lockstep in a commit's work tree", LS_FOR_REGRESS,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"plan", "FILE", "none", "",
     "YAML file with these names as keys; values, or lists of values, which are not split at "
     "commas; or with `cases:`, a list of such mappings, `defaults:`, `exclude:`, `repeat: N`, "
     "`budget: 2min`",
     RUN_VERIFY, .group = LS_HELP_PLANS, .set = ls_set_nothing},
    {"dry-run", "yes|no", "no", "",
     "prints cases and estimates of their time and memory; trains nothing", RUN_VERIFY,
     .is_switch = true, .group = LS_HELP_PLANS, .set = ls_set_switch, IN_REQUEST(dry_run)},
    {"resume", "yes|no", "no", "",
     "skips cases that have an ok row of this label, commit and machine in the results", RUN_VERIFY,
     .is_switch = true, .group = LS_HELP_PLANS, .set = ls_set_switch, IN_REQUEST(resume)},
    {"print-step", "yes|no", "no", "", "prints the tasks of the step, and trains nothing",
     LS_FOR_RUN, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch,
     IN_REQUEST(print_step)},
    {"progress", "auto|yes|no", "auto", "",
     "progress on stderr; auto: on a terminal, and of several cases now and then",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_OUTPUT, .set = ls_set_word, IN_REQUEST(progress),
     .low = -1, .words = progresses},
    {"quiet", "yes|no", "no", "", "nothing on stderr but refusals and errors", PRINTING,
     .is_switch = true, .group = LS_HELP_OUTPUT, .set = ls_set_level, .low = LS_LOG_QUIET},
    {"verbose", "yes|no", "no", "", "more on stderr, and the loss of each step in the row",
     PRINTING, .is_switch = true, .group = LS_HELP_OUTPUT, .set = ls_set_level,
     .low = LS_LOG_VERBOSE},
};

/* ---- Declared options ----------------------------------------------------------------------- */

enum { CAPACITY = 160 };

/* All options: created before the first lookup, and never changed. */
static ls_option table[CAPACITY];
static size_t table_count;
static once_flag table_made = ONCE_FLAG_INIT;

static void append(const ls_option *option)
{
    if (table_count == CAPACITY)
        abort();
    table[table_count++] = *option;
}

/* Registries that declare options, and the option that selects an entry of each. */
static const struct {
    const ls_registry *registry;
    const char *option;
} owners[] = {
    {&ls_strategies, "strategy"}, {&ls_model_families, "model"}, {&ls_data_sources, "data"}};

/* Appends each option of a list. One that is in the table already moves to the end, so that it
 * follows the options that decide whether the last owner's cases have it. */
static void append_declared(const ls_declared_option *const *list)
{
    for (; list && *list; list++) {
        const ls_declared_option *d = *list;
        const ls_option option = {d->name,
                                  d->placeholder,
                                  d->fallback,
                                  d->unit,
                                  d->help,
                                  RUN_VERIFY,
                                  .sweeps = true,
                                  .continues = d->continues,
                                  .is_switch = d->type == LS_DECLARED_SWITCH,
                                  .group = LS_HELP_DECLARED,
                                  .set = ls_set_declared,
                                  .declared = d};
        for (size_t i = 0; i < table_count; i++) {
            if (table[i].declared != d)
                continue;
            memmove(&table[i], &table[i + 1], (table_count - i - 1) * sizeof *table);
            table_count--;
        }
        append(&option);
    }
}

static void make_table(void)
{
    const size_t count = sizeof general / sizeof *general;
    for (size_t i = 0; i < count; i++)
        if (!general[i].late)
            append(&general[i]);
    for (const ls_option *o = ls_virtual_options; o->name; o++)
        append(o);
    for (size_t o = 0; o < sizeof owners / sizeof *owners; o++)
        for (const void *const *entry = owners[o].registry->entries; *entry; entry++)
            append_declared(((const ls_declared_owner *)*entry)->options);
    for (size_t i = 0; i < count; i++)
        if (general[i].late)
            append(&general[i]);
}

const ls_option *ls_option_table(size_t *count)
{
    call_once(&table_made, make_table);
    *count = table_count;
    return table;
}

/* ---- Which cases an option applies to
 * --------------------------------------------------------- */

bool ls_option_applies(const ls_option *option, const ls_case *one)
{
    if (option->declared)
        return ls_case_has(one, option->declared) || ls_case_ignores(one, option->declared);
    return !option->applies || option->applies(one);
}

/* Whether the registry's entry with that number has the option. */
static bool concerns_entry(const ls_option *option, size_t number, const void *entry)
{
    const ls_declared_owner *owner = entry;
    return option->declared ? ls_declared_has(owner->options, option->declared)
                            : number == 0 && option->of && option->of(entry);
}

char *ls_option_concerns(const ls_option *option, char *text, size_t size)
{
    const char *when = option->declared ? option->declared->when : option->concerns;
    *text = 0;
    for (size_t o = 0; o < sizeof owners / sizeof *owners; o++) {
        char before[64];
        snprintf(before, sizeof before, "cases with --%s ", owners[o].option);
        for (const void *const *entry = owners[o].registry->entries; *entry; entry++)
            if (concerns_entry(option, o, *entry))
                ls_text_add(text, size, "%s%s", *text ? ", " : before,
                            ((const ls_declared_owner *)*entry)->name);
    }
    char *last = strrchr(text, ',');
    if (last) { /* "a, b or c" */
        char name[64];
        snprintf(name, sizeof name, "%s", last + 2);
        snprintf(last, size - (size_t)(last - text), " or %s", name);
    }
    return when ? ls_text_add(text, size, "%s%s", *text ? " and " : "", when) : text;
}
