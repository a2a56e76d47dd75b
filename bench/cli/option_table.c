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
#define COMM_MPI "|mpi"
#define COMM_HELP                                                                                  \
    "how ranks exchange; auto: mpi under mpirun (nccl between GPUs), else thread (device between " \
    "GPUs)"
#else
#define COMM_MPI  ""
#define COMM_HELP "how ranks exchange; auto: thread (device between GPUs)"
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
static const char durations[] = "a time from 1ms to 86400s, such as 500ms or 2min";

/* Whether replicas are alike, hold the variables, and sum their gradients. */
static bool is_elastic(const ls_strategy *strategy)
{
    return strategy->spreads.gradients.on[LS_MEMBER] == LS_PARTIAL &&
           strategy->spreads.parameters.on[LS_MEMBER] == LS_WHOLE;
}

static bool may_shrink(const ls_case *one)
{
    return one->fault.kind == LS_FAULT_KILL;
}

static const char lr_decays[] = "cases with --lr-schedule linear, cosine or wsd";

static const ls_option general[] = {
    {"model", "NAME[:SIZES]", "mlp", "",
     "model to train, one of `lockstep list models`; graph:FILE.yaml: a model of your own",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_TRAINING, .set = ls_set_model,
     .check_list = ls_check_models, .noun = "model", .registry = &ls_model_families,
     TEXT_IN_CASE(model)},
    {"data", "NAME[:PATH]", "the model's", "",
     "data set to train on, one of `lockstep list data`, such as synthetic:N (N samples) or "
     "file:PATH",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_TRAINING, .set = ls_set_data, .noun = "data set",
     .registry = &ls_data_sources, TEXT_IN_CASE(data)},
    {"strategy", "NAME|all", "single", "",
     "parallel strategy, one of `lockstep list strategies`; all: a case for each", RUN_VERIFY,
     .group = LS_HELP_STRATEGY, .set = ls_set_strategy, .noun = "strategy",
     .registry = &ls_strategies, IN_CASE(strategy), .otherwise = LS_FOR_ADVISE,
     .otherwise_fallback = "all"},
    {"devices", "N|all|NAME+NAME", "1", "devices",
     "number of devices (GPUs if there are any), or their names joined by +, such as cpu:0+cpu:1; "
     "all: a case for each number of devices",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_STRATEGY, .set = ls_set_devices,
     TEXT_IN_CASE(devices), .valid = "a number from 1 to 4096, or names such as cpu:0+cpu:1"},
    {"cpu-devices", "N", "cores / cores per device", "devices", "number of CPU devices", MACHINE,
     .group = LS_HELP_STRATEGY, .set = ls_set_int, IN_REQUEST(cpu_devices), .low = 1, .high = 4096},
    {"cores-per-device", "N", "1", "cores", "cores of each CPU device", MACHINE,
     .group = LS_HELP_STRATEGY, .set = ls_set_int, IN_REQUEST(cores_per_device), .low = 1,
     .high = 64},
    {"logical-gpus", "N", "1", "devices",
     "splits each GPU into N logical devices, gpu:G/0 to gpu:G/N-1", MACHINE,
     .group = LS_HELP_STRATEGY, .set = ls_set_int, IN_REQUEST(logical_gpus), .low = 1, .high = 64},
    {"batch", "B", "the model's", "samples",
     "samples in one step; with --scaling weak, in one step on each device",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(batch),
     .low = 1, .high = MANY},
    {"gradient-accumulation-steps", "A", "1", "pieces",
     "pieces into which a replica cuts its part of a batch, to compute them one after the other",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(accumulation), .low = 1,
     .high = MANY},
    {"recompute", "none|mlp|full|N", "none", "units",
     "activations that the backward pass computes again; mlp: of gelu and layer norms (gpt); full: "
     "all but each block's input; N: all but the input of every N-th block",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_recompute, IN_CASE(drops)},
    {"scaling", "strong|weak", "strong", "",
     "strong: --batch is the global batch; weak: --batch is per device (the default of profile: "
     "models)",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_word, IN_CASE(scaling),
     .words = ls_scaling_words},
    {"steps", "N", "100", "steps", "timed steps; cannot be used with --epochs", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(steps), .low = 0, .high = MANY,
     .otherwise = LS_FOR_PREDICT | LS_FOR_ADVISE, /* virtual steps are alike, so that few say all */
     .otherwise_fallback = "5"},
    {"epochs", "N", "none", "epochs", "passes over the whole data set, instead of --steps",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_epochs, IN_CASE(epochs), .low = 1,
     .high = 1000000},
    {"warmup", "N", "10", "steps",
     "steps that are trained but not timed; with --epochs, the first steps of the epochs",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(warmup), .low = 0,
     .high = MANY, .otherwise = LS_FOR_PREDICT | LS_FOR_ADVISE, .otherwise_fallback = "3"},
    {"blocks", "N", "5", "blocks",
     "blocks into which timed steps are divided; several cases take turns, block by block",
     LS_FOR_RUN, .group = LS_HELP_MEASUREMENT, .set = ls_set_int64, IN_REQUEST(blocks), .low = 1,
     .high = 100000},
    {"until-precision", "P%", "none", "of the median",
     "times further blocks of steps until there are at least 20 and the median's confidence "
     "interval is narrower than +- P%; cannot be used with --epochs, --save or --ps-record",
     LS_FOR_RUN, .group = LS_HELP_MEASUREMENT, .set = ls_set_precision,
     .valid = "0.01% to 50%, such as 1%"},
    {"max-time", "TIME", "60s; in regress 1min a case, at most 10min", "",
     "run: longest time for --until-precision, in each group of up to 8 cases; regress: longest "
     "time of the comparison",
     LS_FOR_RUN | LS_FOR_REGRESS, .group = LS_HELP_MEASUREMENT, .set = ls_set_duration,
     IN_REQUEST(max_time_ns), .valid = durations},
    {"optimizer", "NAME[:VALUES]", "the model's", "",
     "optimizer, one of `lockstep list optimizers`, with values: momentum:0.9, "
     "adam:beta1=0.9,beta2=0.999,eps=1e-8",
     RUN_VERIFY | LS_FOR_MICRO, .continues = true, .group = LS_HELP_TRAINING,
     .set = ls_set_optimizer, .noun = "optimizer", .registry = &ls_optimizer_rules,
     TEXT_IN_CASE(optimizer)},
    {"clip", "X", "none", "",
     "scales gradients by min(1, X / (norm + 1e-6)); the norm is over all variables", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_real, IN_CASE(clip), .least = 1e-30, .most = 1e30,
     .valid = "none, or a norm above 0, from 1e-30 to 1e30"},
    {"lr", "RATE", "the model's", "", "learning rate", RUN_VERIFY, .group = LS_HELP_TRAINING,
     .set = ls_set_real, IN_CASE(learning_rate), .least = 1e-30, .most = 1e6,
     .valid = "a number above 0, from 1e-30 to 1e6"},
    {"lr-schedule", "NAME", "the model's", "",
     "one of `lockstep list lr-schedules`; constant by default, except for --model cifar10",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_named, .noun = "learning-rate schedule",
     .registry = &ls_rate_rules, TEXT_IN_CASE(lr_schedule)},
    {"lr-warmup-steps", "W", "0", "steps",
     "first steps, in which the learning rate rises: in step t (from 0) it is lr (t + 1) / W",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(lr_warmup), .low = 0,
     .high = MANY},
    {"lr-decay-steps", "N", "all the run's steps", "steps",
     "step at which the schedule ends, counted from the first step, warm-up included", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(lr_decay), .low = 1, .high = MANY,
     .applies = ls_case_lr_decays, .concerns = lr_decays},
    {"min-lr", "RATE", "0", "", "learning rate at the schedule's end", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_real, IN_CASE(min_lr), .least = 0, .most = 1e6,
     .valid = "a number from 0 to 1e6", .applies = ls_case_lr_decays, .concerns = lr_decays},
    {"lr-wsd-decay-steps", "D", "a tenth of --lr-decay-steps", "steps",
     "number of last steps of the schedule, over which the learning rate falls; at most "
     "--lr-decay-steps minus --lr-warmup-steps",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(lr_wsd_decay), .low = 1,
     .high = MANY, .applies = ls_case_lr_is_wsd, .concerns = "cases with --lr-schedule wsd"},
    {"seed", "N", "1", "", "seed of the initial values and the order of samples", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(seed), .low = 0, .high = INT64_MAX},
    {"target", "accuracy=A|loss=L", "none", "",
     "accuracy or loss to reach; the row says after how many steps it was reached (accuracy is "
     "checked after each epoch, loss every 10 steps)",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_target, .sweeps = true,
     .valid = "accuracy=A with A above 0 and at most 1, or loss=L with L above 0"},
    {"shuffle", "yes|no", "yes", "", "no: takes the samples in the order of the file", RUN_VERIFY,
     .is_switch = true, .group = LS_HELP_TRAINING, .set = ls_set_switch, IN_CASE(shuffle)},
    {"load", "FILE", "none", "",
     "reads the initial parameters from a safetensors file, or from the index of several",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_text, IN_REQUEST(load)},
    {"save", "FILE", "none", "",
     "writes the parameters after the last step (safetensors); one case only", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_text, IN_REQUEST(save)},
    {"checkpoint", "DIR", "none", "",
     "writes the training state to DIR/step-N after the last step, or when interrupted; one case "
     "only",
     LS_FOR_RUN, .group = LS_HELP_TRAINING, .set = ls_set_text, IN_REQUEST(checkpoint)},
    {"checkpoint-interval", "K", "none", "steps", "also writes a checkpoint after every K-th step",
     LS_FOR_RUN, .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_REQUEST(checkpoint_interval),
     .low = 1, .high = MANY},
    {"checkpoint-keep", "N", "all", "checkpoints",
     "keeps the newest N checkpoints; an old one is removed once a new one is complete", LS_FOR_RUN,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_REQUEST(checkpoint_keep), .low = 1,
     .high = MANY},
    {"resume-from-checkpoint", "PATH|auto", "none", "",
     "continues from a checkpoint, or from the newest one in a folder; auto: from the newest one "
     "in the --checkpoint folder, if there is one",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_text, IN_REQUEST(resume_from)},
    {"reduce", "fast|exact", "fast", "",
     "exact: every synchronous strategy computes the same bits, on any number of devices",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_word, IN_CASE(reduce),
     .words = ls_reduce_words},
    {"micro-shards", "S", "16", "shards",
     "number of shards into which --reduce exact divides a batch", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(micro_shards), .low = 1, .high = MANY,
     .applies = ls_case_is_exact, .concerns = "cases with --reduce exact"},
    {"micro-splits", "Z", "1", "slices",
     "number of parts into which --reduce exact splits pairs of dense layers", RUN_VERIFY,
     .group = LS_HELP_TRAINING, .set = ls_set_int64, IN_CASE(micro_splits), .low = 1,
     .high = LS_SPLITS, .applies = ls_case_is_exact, .of = ls_strategy_slices, .late = true,
     .concerns = "--reduce exact"},
    {"gate-steps", "N", "10", "steps",
     "steps compared with the reference before timing; 0: none (verify compares all steps)",
     LS_FOR_RUN, .group = LS_HELP_MEASUREMENT, .set = ls_set_int64, IN_CASE(gate_steps), .low = 0,
     .high = MANY},
    {"eval-samples", "auto|N|all", "auto", "samples",
     "test samples evaluated after the last step; auto: all with --epochs, else as many as were "
     "trained, at least 1,000 (64 windows of tokens); 0: none",
     RUN_VERIFY, .group = LS_HELP_MEASUREMENT, .set = ls_set_eval_samples, IN_CASE(eval_samples),
     .low = 0, .high = MANY, .valid = "auto, all, or a number of samples from 0 to 2147483647"},
    {"baseline", "yes|no", "no", "",
     "adds a row of --strategy single on one device of the same type", LS_FOR_RUN,
     .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch, IN_REQUEST(baseline)},
    {"waterfall", "yes|no", "yes", "",
     "yes: also measures the parts of a step's time, and for --reduce exact the time of a step "
     "with --reduce fast",
     LS_FOR_RUN, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch,
     IN_REQUEST(waterfall)},
    {"allreduce", "NAME|auto", "auto", "",
     "algorithm that sums gradients, one of `lockstep list`; auto: chosen by sizes, ranks, hosts "
     "and links",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_STRATEGY, .set = ls_set_named,
     .noun = "all-reduce algorithm", .registry = &ls_allreduces, TEXT_IN_CASE(allreduce),
     .of = reduces},
    {"bucket-bytes", "SIZE", "auto", "bytes",
     "size of the buckets in which gradients are summed, such as 25MiB; 0: a bucket for each "
     "variable",
     RUN_VERIFY, .group = LS_HELP_STRATEGY, .set = ls_set_bucket, .sweeps = true,
     .valid = "auto, 0 (a bucket each), or a size such as 25MiB", .applies = ls_case_has_buckets,
     .of = ls_strategy_reduces, .late = true, .concerns = "--reduce fast"},
    {"comm", "auto|thread" COMM_MPI COMM_NCCL "|device", "auto", "", COMM_HELP,
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_STRATEGY, .set = ls_set_comm, .sweeps = true,
     .words = comms},
    {"ranks", "N", "1", "ranks", "number of ranks, as threads of this process (--comm thread)",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_STRATEGY, .set = ls_set_ranks, IN_CASE(ranks),
     .low = 1, .high = 1024},
    {"memory", "growth|all|fraction=F", "growth; all on GPUs", "of a device's capacity",
     "growth: a device allocates memory as needed; all, fraction=F: at the start", RUN_VERIFY,
     .group = LS_HELP_STRATEGY, .set = ls_set_memory, TEXT_IN_CASE(memory_text),
     .valid = "growth, all, or fraction=F with F above 0 and at most 1"},
    {"link", "latency=T,bandwidth=R", "none", "time, bytes/s",
     "simulates a network: delays copies and messages between devices; "
     "latency=50us,bandwidth=1GB/s (or 10Gbps), or only one of the two",
     RUN_VERIFY | LS_FOR_MICRO, .continues = true, .group = LS_HELP_STRATEGY, .set = ls_set_link,
     TEXT_IN_CASE(link_text), .applies = ls_case_has_links,
     .concerns = "cases with a strategy of several devices"},
    {"soft-placement", "yes|no", "no", "",
     "yes: a device that does not exist here is replaced by one that does", RUN_VERIFY,
     .is_switch = true, .group = LS_HELP_STRATEGY, .set = ls_set_switch,
     IN_REQUEST(soft_placement)},
    {"log-placement", "yes|no", "no", "", "yes: prints on which device each node of the model runs",
     RUN_VERIFY, .is_switch = true, .group = LS_HELP_STRATEGY, .set = ls_set_switch,
     IN_REQUEST(log_placement)},
    {"math", "float32|tf32", "float32", "", "arithmetic of products (tf32 on GPUs only)",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_gpu_word, IN_CASE(math),
     .words = ls_math_words},
    {"precision", "float32|bf16", "float32", "",
     "bf16: outputs, their gradients and a copy of the parameters are stored in bfloat16",
     RUN_VERIFY, .group = LS_HELP_TRAINING, .set = ls_set_word, IN_CASE(precision),
     .words = ls_precision_words},
    {"convolution", "auto|cudnn|own", "auto", "",
     "library of convolutions on GPUs; own: lockstep's kernels; auto: the faster one for each",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_TRAINING, .set = ls_set_gpu_word,
     .words = ls_convolution_words, IN_CASE(convolution), .applies = ls_case_convolves,
     .concerns = "cases with --model cifar10 or resnet, or a graph with conv"},
    {"capture", "yes|no", "yes", "",
     "no: enqueues the operations of a step one by one, not as a captured program (CUDA graph)",
     RUN_VERIFY, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch,
     IN_CASE(capture)},
    {"inject", "bitflip=D:S|kill=R:S|..", "none", "device:step, rank:step",
     "plants a fault, to test the checks: on device D or rank R in step S; also stop=, exit=, "
     "hang=R:S, and delay=R:TIME",
     RUN_VERIFY, .continues = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_inject,
     IN_CASE(fault)},
    {"on-failure", "stop|shrink", "stop", "",
     "shrink: when a rank is killed, the other ranks repeat the step without its replicas",
     RUN_VERIFY, .group = LS_HELP_MEASUREMENT, .set = ls_set_word, IN_CASE(shrinks),
     .words = failures, .of = is_elastic, .applies = may_shrink,
     .concerns = "--inject kill=RANK:STEP"},
    {"elastic", "leave=D:S,join=D:S,..", "none", "replica:step",
     "replica D leaves or joins before step S (it takes no part before it joins)", RUN_VERIFY,
     .continues = true, .group = LS_HELP_STRATEGY, .set = ls_set_elastic, .of = is_elastic,
     TEXT_IN_CASE(elastic),
     .valid = "leave=REPLICA:STEP or join=REPLICA:STEP, up to 64 with commas between them"},
    {"timeout", "TIME", "20s", "",
     "fails when another rank, or a GPU, makes no progress for this time", RUN_VERIFY,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_duration, IN_REQUEST(timeout_ns),
     .valid = durations, .applies = ls_case_has_timeout,
     .concerns = "cases with several devices or ranks, or a GPU that --devices names"},
    {"launcher", "auto|none", "auto", "",
     "auto: the tasks that mpirun or srun started connect as ranks; none: each task runs alone",
     MACHINE, .group = LS_HELP_STRATEGY, .set = ls_set_launcher, .words = launchers},
    {"ps-record", "FILE", "none", "",
     "writes the order in which servers served requests to a file; one case only", LS_FOR_RUN,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_text, IN_REQUEST(ps_record),
     .applies = ls_case_by_arrival,
     .concerns = "cases with --strategy ps and --ps-mode async or ssp, or backup workers"},
    {"sizes", "SIZE,SIZE", "a list for each operation", "bytes",
     "sizes of messages or arrays to measure, such as 4KiB,1MiB", LS_FOR_MICRO, .sweeps = true,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_nothing},
    {"label", "TEXT", "none", "", "text to find the rows by", PRINTING | LS_FOR_MICRO,
     .group = LS_HELP_OUTPUT, .whole = true, .set = ls_setting_array, TEXT_IN_CASE(label)},
    {"format", "table|jsonl|json|csv|md", "table", "",
     "format of what is printed; regress: table, json, md, junit, github, or several with --out "
     "NAME, which writes NAME.md, ..",
     PRINTING | LS_FOR_MICRO | LS_FOR_RESULTS | LS_FOR_DEVICES | LS_FOR_REGRESS,
     .group = LS_HELP_OUTPUT, .set = ls_set_format, IN_REQUEST(format)},
    {"results", "FILE|none", LS_RESULTS_DEFAULT, "",
     "database to which rows are added; report also reads JSON lines, and several files",
     PRINTING | LS_FOR_MICRO | LS_FOR_RESULTS | LS_FOR_REGRESS | LS_FOR_REPORT,
     .repeats = LS_FOR_REPORT, .group = LS_HELP_OUTPUT, .set = ls_set_results, IN_REQUEST(results)},
    {"where", "KEY=VALUE,..", "all rows", "",
     "rows that meet all conditions: =, !=, >, <, >=, <=, ~ (contains); a key is a field of a row, "
     "as case.strategy or strategy",
     LS_FOR_RESULTS | LS_FOR_REGRESS | LS_FOR_REPORT, .group = LS_HELP_OUTPUT,
     .set = ls_set_nothing},
    {"since", "AGE|DAY", "all times", "", "rows not older than this: 2d, 12h, or 2026-11-20 (UTC)",
     LS_FOR_RESULTS, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"last", "N", "all", "rows", "keeps only the newest N of the selected rows", LS_FOR_RESULTS,
     .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"sort", "KEY|-KEY", "time", "", "sorts by a key; -KEY: the largest first", LS_FOR_RESULTS,
     .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"columns", "KEY,..", "what differs, and figures", "",
     "columns to print: fields of a row, by path or last part: strategy,time.step_ms.median",
     PRINTING | LS_FOR_RESULTS, .group = LS_HELP_OUTPUT, .set = ls_set_columns,
     IN_REQUEST(columns)},
    {"to", "jsonl|csv|md|google-benchmark|benchmark-action|mlperf", "none", "", "format of export",
     LS_FOR_RESULTS, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"out", "FILE|DIR", "standard output", "",
     "file to write; results trend: a picture; required for trace (a file) and report (a folder)",
     LS_FOR_RESULTS | LS_FOR_TRACE | LS_FOR_REGRESS | LS_FOR_REPORT | LS_FOR_PREDICT,
     .group = LS_HELP_OUTPUT, .set = ls_set_text, IN_REQUEST(out)},
    {"trace-steps", "N", "3", "steps", "steps that are traced, after the warm-up", LS_FOR_TRACE,
     .group = LS_HELP_MEASUREMENT, .set = ls_set_int, IN_REQUEST(trace_steps), .low = 1,
     .high = 1000},
    {"yes", "yes|no", "no", "", "prune: really deletes the rows", LS_FOR_RESULTS, .is_switch = true,
     .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"all", "yes|no", "no", "", "show and diff: prints all fields of the rows", LS_FOR_RESULTS,
     .is_switch = true, .group = LS_HELP_OUTPUT, .set = ls_set_nothing},
    {"plan", "FILE", "none", "",
     "YAML file whose keys are options of run, with a value or a list of values each; or with "
     "`cases:` (a list of such mappings), `defaults:`, `exclude:`, `repeat: N`, `budget: 2min`",
     RUN_VERIFY, .group = LS_HELP_PLANS, .set = ls_set_nothing},
    {"dry-run", "yes|no", "no", "",
     "prints cases and estimates of their time and memory; trains nothing", RUN_VERIFY,
     .is_switch = true, .group = LS_HELP_PLANS, .set = ls_set_switch, IN_REQUEST(dry_run)},
    {"resume", "yes|no", "no", "",
     "skips cases that already have a row with status ok, of this label, commit and machine",
     RUN_VERIFY, .is_switch = true, .group = LS_HELP_PLANS, .set = ls_set_switch,
     IN_REQUEST(resume)},
    {"print-step", "yes|no", "no", "", "prints the tasks of the step, and trains nothing",
     LS_FOR_RUN, .is_switch = true, .group = LS_HELP_MEASUREMENT, .set = ls_set_switch,
     IN_REQUEST(print_step)},
    {"progress", "auto|yes|no", "auto", "",
     "prints progress on stderr; auto: on a terminal, and now and then if there are several cases",
     RUN_VERIFY | LS_FOR_MICRO, .group = LS_HELP_OUTPUT, .set = ls_set_word, IN_REQUEST(progress),
     .low = -1, .words = progresses},
    {"quiet", "yes|no", "no", "", "prints only refusals and errors on stderr", PRINTING,
     .is_switch = true, .group = LS_HELP_OUTPUT, .set = ls_set_level, .low = LS_LOG_QUIET},
    {"verbose", "yes|no", "no", "",
     "prints more on stderr, and keeps the loss of each step in the row", PRINTING,
     .is_switch = true, .group = LS_HELP_OUTPUT, .set = ls_set_level, .low = LS_LOG_VERBOSE},
};

/* ---- Declared options ----------------------------------------------------------------------- */

/* All options: created before the first lookup, and never changed. */
static ls_option table[LS_OPTIONS_MOST];
static size_t table_count;
static once_flag table_made = ONCE_FLAG_INIT;

static void append(const ls_option *option)
{
    if (table_count + 1 == LS_OPTIONS_MOST)
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
    for (const ls_option *o = ls_other_options; o->name; o++)
        append(o);
    for (size_t o = 0; o < sizeof owners / sizeof *owners; o++)
        for (const void *const *entry = owners[o].registry->entries; *entry; entry++)
            append_declared(((const ls_declared_owner *)*entry)->options);
    for (size_t i = 0; i < count; i++)
        if (general[i].late)
            append(&general[i]);
}

const ls_option *ls_option_table(void)
{
    call_once(&table_made, make_table);
    return table;
}

/* ---- Which cases an option applies to
 * --------------------------------------------------------- */

bool ls_option_applies(const ls_option *option, const ls_case *one)
{
    if (option->declared)
        return ls_case_has(one, option->declared) || ls_case_ignores(one, option->declared);
    return (!option->of || option->of(one->strategy)) && (!option->applies || option->applies(one));
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
