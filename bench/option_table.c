/* SPDX-License-Identifier: MIT */
/*
 * Option table: see option_table.h. One entry an option, in the order of `--help`; an option that
 * another one's `applies` looks at comes before it.
 *
 * An entry without a setter is known but concerns no case that this version can run: it is in
 * `--help`, and refused with what it concerns.
 */
#include "bench/option_table.h"

#include "bench/launch.h"
#include "bench/option_gpu.h"
#include "bench/option_ps.h"
#include "bench/option_values.h"
#include "bench/results_db.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define IN_CASE(field)    .sweeps = true, .offset = offsetof(ls_case, field)
#define IN_REQUEST(field) .offset = offsetof(ls_request, field)

enum {
    RUN_VERIFY = LS_FOR_RUN | LS_FOR_VERIFY,
    MACHINE = RUN_VERIFY | LS_FOR_MICRO | LS_FOR_DEVICES,
    PRINTING = RUN_VERIFY
};

#define MANY 2147483647

static const ls_option table[] = {
    {"model", "NAME[:SIZES]", "mlp", "", "what is trained; any in `lockstep list models`",
     RUN_VERIFY | LS_FOR_MICRO, .set = ls_set_model, IN_CASE(model),
     .high = sizeof(((ls_case *)0)->model)},
    {"data", "NAME[:PATH]", "the model's", "",
     "what it is trained on; any in `lockstep list data`; synthetic:N samples; file:PATH",
     RUN_VERIFY | LS_FOR_MICRO, .set = ls_set_data, IN_CASE(data),
     .high = sizeof(((ls_case *)0)->data)},
    {"augment", "yes|no", "yes", "", "random crop and flip of images (no: the centre crop)",
     RUN_VERIFY, .is_switch = true, .set = ls_set_switch, IN_CASE(augment),
     .applies = ls_applies_augment, .concerns = "cases with --data cifar10"},
    {"strategy", "NAME", "single", "", "how the work is spread; any in `lockstep list strategies`",
     RUN_VERIFY, .set = ls_set_strategy, IN_CASE(strategy),
     .high = sizeof(((ls_case *)0)->strategy)},
    {"devices", "N|NAME+NAME", "1", "devices",
     "that many of the best kind here, or names: cpu:0+cpu:1, gpu:0/0+gpu:0/1",
     RUN_VERIFY | LS_FOR_MICRO, .set = ls_set_devices, IN_CASE(devices), .low = 1, .high = 1024},
    {"cpu-devices", "N", "cores / cores per device", "devices", "CPU devices that have a name",
     MACHINE, .set = ls_set_int, IN_REQUEST(cpu_devices), .low = 1, .high = 1024},
    {"cores-per-device", "N", "1", "cores", "cores that a CPU device holds", MACHINE,
     .set = ls_set_int, IN_REQUEST(cores_per_device), .low = 1, .high = 64},
    {"logical-gpus", "N", "1", "devices", "each GPU counts as N: gpu:G/0 to gpu:G/N-1", MACHINE,
     .set = ls_set_int, IN_REQUEST(logical_gpus), .low = 1, .high = 64},
    {"batch", "B", "the model's", "samples", "batch of a step: global, or per device (weak)",
     RUN_VERIFY | LS_FOR_MICRO, .set = ls_set_int64, IN_CASE(batch), .low = 1, .high = MANY},
    {"scaling", "strong|weak", "strong", "",
     "strong: --batch is the global batch; weak: it is that of each device", RUN_VERIFY,
     .set = ls_set_scaling, IN_CASE(scaling)},
    {"steps", "N", "100", "steps", "timed steps; not with --epochs", RUN_VERIFY,
     .set = ls_set_int64, IN_CASE(steps), .low = 0, .high = MANY},
    {"epochs", "N", "none", "epochs", "passes over the data, in place of --steps", RUN_VERIFY,
     .set = ls_set_epochs, IN_CASE(epochs), .low = 1, .high = 1000000},
    {"warmup", "N", "10", "steps", "steps trained but not timed; with --epochs the first of them",
     RUN_VERIFY, .set = ls_set_int64, IN_CASE(warmup), .low = 0, .high = MANY},
    {"blocks", "N", "5", "blocks", "blocks of timed steps, the cases taking turns", LS_FOR_RUN,
     .set = ls_set_int64, IN_REQUEST(blocks), .low = 1, .high = 100000},
    {"optimizer", "NAME[:VALUES]", "the model's", "",
     "any in `lockstep list optimizers`: momentum:0.9, adam:beta1=0.9,beta2=0.999,eps=1e-8",
     RUN_VERIFY | LS_FOR_MICRO, .continues = true, .set = ls_set_optimizer, IN_CASE(optimizer),
     .high = sizeof(((ls_case *)0)->optimizer)},
    {"lr", "RATE", "the model's", "", "learning rate", RUN_VERIFY, .set = ls_set_learning_rate,
     IN_CASE(learning_rate)},
    {"seed", "N", "1", "", "of the initial values and the order of samples", RUN_VERIFY,
     .set = ls_set_seed, IN_CASE(seed), .low = 0, .high = INT64_MAX},
    {"target", "accuracy=A|loss=L", "none", "",
     "noted as steps_to_target when reached: accuracy each epoch, loss each 10 steps", RUN_VERIFY,
     .set = ls_set_target, IN_CASE(target)},
    {"shuffle", "yes|no", "yes", "", "no: samples in file order", RUN_VERIFY, .is_switch = true,
     .set = ls_set_switch, IN_CASE(shuffle)},
    {"load", "FILE", "none", "", "parameters before the first step (safetensors)", RUN_VERIFY,
     .set = ls_set_text, IN_REQUEST(load)},
    {"save", "FILE", "none", "", "parameters after the last step (safetensors); one case only",
     RUN_VERIFY, .set = ls_set_text, IN_REQUEST(save)},
    {"reduce", "fast|exact", "fast", "", "exact: the same bits from every synchronous strategy",
     RUN_VERIFY, .set = ls_set_reduce, IN_CASE(reduce)},
    {"micro-shards", "S", "16", "shards", "shards that an exact case cuts a batch into", RUN_VERIFY,
     .set = ls_set_int64, IN_CASE(micro_shards), .low = 1, .high = MANY,
     .applies = ls_applies_exact, .concerns = "cases with --reduce exact"},
    {"gate-steps", "N", "10", "steps",
     "steps compared with the reference; 0: not compared (verify compares all)", LS_FOR_RUN,
     .set = ls_set_int64, IN_CASE(gate_steps), .low = 0, .high = MANY},
    {"baseline", "yes|no", "no", "", "adds the row of single on one like device", LS_FOR_RUN,
     .is_switch = true, .set = ls_set_switch, IN_REQUEST(baseline)},
    {"allreduce", "NAME", "auto", "", "algorithm; any in `lockstep list`",
     RUN_VERIFY | LS_FOR_MICRO, .set = ls_set_allreduce, IN_CASE(allreduce),
     .high = sizeof(((ls_case *)0)->allreduce), .applies = ls_applies_mirrored,
     .concerns = "cases with --strategy mirrored, local-sgd or hybrid"},
    {"bucket-bytes", "SIZE", "auto", "bytes", "bucket of an all-reduce: 25MiB; 0: one per variable",
     RUN_VERIFY, .set = ls_set_bucket, IN_CASE(bucket_bytes), .applies = ls_applies_buckets,
     .concerns = "cases with --strategy mirrored, local-sgd or hybrid and --reduce fast"},
    {"comm", "auto|thread|mpi|nccl|device", "auto", "",
     "auto: mpi under mpirun, else thread, which on GPUs is device", RUN_VERIFY | LS_FOR_MICRO,
     .set = ls_set_comm, IN_CASE(comm)},
    {"ranks", "N", "1", "ranks", "ranks as threads of this process (--comm thread)",
     RUN_VERIFY | LS_FOR_MICRO, .set = ls_set_ranks, IN_CASE(ranks), .low = 1, .high = 1024},
    {"memory", "growth|all|fraction=F", "growth; all on GPUs", "of a device's capacity",
     "how a device takes memory", RUN_VERIFY, .set = ls_set_memory, IN_CASE(memory_text),
     .high = sizeof(((ls_case *)0)->memory_text)},
    {"link", "latency=T,bandwidth=R", "none", "time, bytes/s",
     "delays copies and messages between devices: latency=50us,bandwidth=1GB/s, or one of them",
     RUN_VERIFY | LS_FOR_MICRO, .continues = true, .set = ls_set_link, IN_CASE(link_text),
     .high = sizeof(((ls_case *)0)->link_text), .applies = ls_applies_link,
     .concerns = "cases with a strategy of several devices"},
    {"variable-device", "NAME", "/cpu:0", "", "device that holds the variables", RUN_VERIFY,
     .set = ls_set_device, IN_CASE(variable_device),
     .high = sizeof(((ls_case *)0)->variable_device), .applies = ls_applies_variable_device,
     .concerns = "cases with --strategy towers, or ps in one process"},
    {"colocate-gradients", "yes|no", "yes", "", "no: backward on the variable device", RUN_VERIFY,
     .is_switch = true, .set = ls_set_switch, IN_CASE(colocate_gradients),
     .applies = ls_applies_towers, .concerns = "cases with --strategy towers"},
    {"soft-placement", "yes|no", "no", "", "yes: a device that is not here may be replaced",
     RUN_VERIFY, .is_switch = true, .set = ls_set_switch, IN_REQUEST(soft_placement)},
    {"log-placement", "yes|no", "no", "", "yes: prints where each node runs", RUN_VERIFY,
     .is_switch = true, .set = ls_set_switch, IN_REQUEST(log_placement)},
    {"math", "float32|tf32", "float32", "", "arithmetic of products (tf32 on GPUs only)",
     RUN_VERIFY, .set = ls_set_math, IN_CASE(math)},
    {"convolution", "auto|cudnn|own", "auto", "",
     "on GPUs: by cuDNN where it is here and takes the shape; cudnn: or not at all; own: by "
     "products",
     RUN_VERIFY | LS_FOR_MICRO, .set = ls_set_convolution, IN_CASE(convolution),
     .applies = ls_applies_convolution, .concerns = "cases with --model cifar10 or resnet"},
    {"capture", "yes|no", "yes", "", "no: steps are put one by one, not as a program", RUN_VERIFY,
     .is_switch = true, .set = ls_set_switch, IN_CASE(capture)},
    {"inject", "bitflip=D:S|kill=R:S|..", "none", "device:step, rank:step",
     "breaks something, to see the checks work; also stop=, exit=, hang=R:S; delay=R:T", RUN_VERIFY,
     .continues = true, .set = ls_set_inject, IN_CASE(flip_device)},
    {"timeout", "TIME", "20s", "time", "without progress of another rank, or of a GPU", RUN_VERIFY,
     .set = ls_set_timeout, IN_REQUEST(timeout_ns), .applies = ls_applies_timeout,
     .concerns = "cases with several devices or ranks, or a GPU that --devices names"},
    {"launcher", "auto|none", "auto", "",
     "auto: ranks meet as the launcher's variables say; none: each of its tasks runs alone",
     MACHINE, .set = ls_set_launcher},
    {"towers-staged", "yes|no", "no", "", "variables of the next step fetched ahead", RUN_VERIFY,
     .is_switch = true, .set = ls_set_switch, IN_CASE(towers_staged), .applies = ls_applies_towers,
     .concerns = "cases with --strategy towers"},
    {"ps-mode", "sync|async|ssp", "sync", "",
     "gradients are applied: of a step together; each when it comes; the same, within a bound",
     RUN_VERIFY, .set = ls_set_ps_mode, IN_CASE(ps_mode), .applies = ls_applies_ps,
     .concerns = "cases with --strategy ps"},
    {"ps-staleness", "K", "2", "steps", "a worker is at most K steps ahead of the slowest",
     RUN_VERIFY, .set = ls_set_int, IN_CASE(ps_staleness), .low = 0, .high = 1000000,
     .applies = ls_applies_ssp, .concerns = "cases with --strategy ps and --ps-mode ssp"},
    {"ps-servers", "N", "1", "ranks", "ranks that are servers, the first ones", RUN_VERIFY,
     .set = ls_set_int, IN_CASE(ps_servers), .low = 1, .high = 1023, .applies = ls_applies_ps_ranks,
     .concerns = "cases with --strategy ps and several ranks"},
    {"ps-colocate", "yes|no", "no", "", "every rank works, servers too", RUN_VERIFY,
     .is_switch = true, .set = ls_set_switch, IN_CASE(ps_colocate), .applies = ls_applies_ps_ranks,
     .concerns = "cases with --strategy ps and several ranks"},
    {"ps-shard", "bytes|variable", "bytes", "",
     "bytes: as many on each server; variable: whole ones, greedily balanced", RUN_VERIFY,
     .set = ls_set_ps_shard, IN_CASE(ps_by_variable), .applies = ls_applies_ps_ranks,
     .concerns = "cases with --strategy ps and several ranks"},
    {"ps-backup-workers", "B", "0", "workers", "gradients that a step does not wait for",
     RUN_VERIFY, .set = ls_set_int, IN_CASE(ps_backup_workers), .low = 0, .high = 1022,
     .applies = ls_applies_ps_sync, .concerns = "cases with --strategy ps and --ps-mode sync"},
    {"ps-record", "FILE", "none", "", "the order in which servers served; one case only",
     LS_FOR_RUN, .set = ls_set_text, IN_REQUEST(ps_record), .applies = ls_applies_ps_order,
     .concerns = "cases with --strategy ps and --ps-mode async or ssp, or backup workers"},
    {"hybrid-replicas", "D", "2", "replicas", "copies of the split model", RUN_VERIFY,
     .set = ls_set_int, IN_CASE(hybrid_replicas), .low = 1, .high = 1024,
     .applies = ls_applies_hybrid, .concerns = "cases with --strategy hybrid"},
    {"local-sgd-every", "H", "10", "steps", "after which replicas average their parameters",
     RUN_VERIFY, .set = ls_set_int, IN_CASE(local_sgd_every), .low = 1, .high = 1000000,
     .applies = ls_applies_local_sgd, .concerns = "cases with --strategy local-sgd"},
    {"hybrid-inner", "model-parallel|pipeline", "model-parallel", "", "split of each replica",
     RUN_VERIFY, .set = ls_set_inner, IN_CASE(hybrid_pipeline), .applies = ls_applies_hybrid,
     .concerns = "cases with --strategy hybrid"},
    {"model-parallel-place", "NODE=DEVICE,..", "none", "",
     "device of each layer, dense0=cpu:0,dense1=cpu:1, or a file; none: balanced by their work",
     RUN_VERIFY, .continues = true, .set = ls_set_place, IN_CASE(place),
     .high = sizeof(((ls_case *)0)->place), .applies = ls_applies_model_parallel,
     .concerns = "cases with --strategy model-parallel, also within hybrid"},
    {"pipeline-microbatches", "M", "4", "micro-batches", "parts of a batch", RUN_VERIFY,
     .set = ls_set_int, IN_CASE(microbatches), .low = 1, .high = 1024,
     .applies = ls_applies_pipeline,
     .concerns = "cases with --strategy pipeline, also within hybrid"},
    {"pipeline-schedule", "gpipe|1f1b", "gpipe", "", "order of the parts' passes", RUN_VERIFY,
     .set = ls_set_schedule, IN_CASE(one_f_one_b), .applies = ls_applies_pipeline,
     .concerns = "cases with --strategy pipeline, also within hybrid"},
    {"sync-bn", "yes|no", "no", "", "batch statistics over all replicas", RUN_VERIFY,
     .is_switch = true, .set = ls_set_switch, IN_CASE(sync_bn), .applies = ls_applies_sync_bn,
     .concerns = "cases with --model resnet"},
    {"sizes", "SIZE,SIZE", "the operation's", "bytes", "sizes to measure: 4KiB,1MiB", LS_FOR_MICRO,
     .sweeps = true, .set = ls_set_nothing},
    {"label", "TEXT", "none", "", "text kept in the row", PRINTING, .set = ls_set_text,
     IN_REQUEST(label)},
    {"format", "NAME", "table", "", "table, jsonl, json, csv or md",
     PRINTING | LS_FOR_MICRO | LS_FOR_RESULTS | LS_FOR_DEVICES, .set = ls_set_format,
     IN_REQUEST(format)},
    {"results", "FILE|none", LS_RESULTS_DEFAULT, "", "database that rows are kept in",
     PRINTING | LS_FOR_RESULTS, .set = ls_set_results, IN_REQUEST(results)},
    {"plan", "FILE", "none", "", "YAML file with these names as keys; values or lists", RUN_VERIFY,
     .set = ls_set_nothing},
    {"print-step", "yes|no", "no", "", "prints the tasks of the step, and trains nothing",
     LS_FOR_RUN, .is_switch = true, .set = ls_set_switch, IN_REQUEST(print_step)},
    {"progress", "auto|yes|no", "auto", "", "progress on stderr; auto: on a terminal", RUN_VERIFY,
     .set = ls_set_progress, IN_REQUEST(progress)},
    {"quiet", "yes|no", "no", "", "nothing on stderr but refusals and errors", PRINTING,
     .is_switch = true, .set = ls_set_quiet, IN_REQUEST(log)},
    {"verbose", "yes|no", "no", "", "more on stderr, and the loss of each step in the row",
     PRINTING, .is_switch = true, .set = ls_set_verbose, IN_REQUEST(log)},
};

enum { COUNT = sizeof table / sizeof *table };

const ls_option *ls_option_table(size_t *count)
{
    *count = COUNT;
    return table;
}

const ls_option *ls_option_find(const char *name, size_t length)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strlen(table[i].name) == length && memcmp(table[i].name, name, length) == 0)
            return &table[i];
    return NULL;
}
