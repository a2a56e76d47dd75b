/* SPDX-License-Identifier: MIT */
/*
 * CSV: the same columns for every row, those of bench/row.schema.json, with the groups' names
 * before the fields' ("time.step_ms.median"). A list is joined by '+'; of `memory.devices` the
 * fullest device stands, the one with the largest peak. Quoted as RFC 4180 says; lines end in a
 * line feed alone.
 */
#include "bench/output/format_parts.h"
#include "common/data/data.h"
#include "common/kernel/kernel.h"
#include "impl/strategy.h"

#include <stdlib.h>
#include <string.h>

#define KERNEL_COLUMN(entry, args) "provenance.kernels." #entry,

/* Here are the options that strategies, models and data sets declare (common/base/declared.h). */
#define DECLARED NULL

/* clang-format off */
static const char *const csv_columns[] = {
    "schema",
    "id",
    "timestamp",
    "command",
    "label",
    "case.model",
    "case.data",
    "case.strategy",
    "case.devices_asked",
    "case.devices",
    "case.ranks",
    "case.hosts",
    "case.batch_global",
    "case.batch_per_device",
    "case.scaling",
    "case.steps",
    "case.epochs",
    "case.warmup",
    "case.blocks",
    "case.seed",
    "case.shuffle",
    "case.optimizer",
    "case.lr",
    "case.reduce",
    "case.micro_shards",
    "case.allreduce",
    "case.bucket_bytes",
    "case.overlap",
    "case.link",
    "case.inject",
    "case.comm",
    "case.memory",
    "case.math",
    "case.convolution",
    "case.capture",
    "case.parameters",
    DECLARED,
    "case.ps_record",
    "result.status",
    "result.reason",
    "result.warnings",
    "result.notes",
    "time.step_ms.mean",
    "time.step_ms.median",
    "time.step_ms.p10",
    "time.step_ms.p90",
    "time.step_ms.p99",
    "time.step_ms.ci95",
    "time.step_ms.n",
    "time.blocks",
    "time.timed_s",
    "time.samples_per_s",
    "time.samples_per_s_mean",
    "time.discarded",
    "time.speedup",
    "time.efficiency",
    "time.exact_cost",
    "time.mfu",
    "time.roof_gflops",
    "time.build_ms",
    "time.host_us",
    "time.data_ms",
    "time.setup_ms",
    "time.reopen_ms",
    "time.harness_us",
    "waterfall.compute_ms",
    "waterfall.comm_exposed_ms",
    "waterfall.wait_ms",
    "waterfall.copy_ms",
    "waterfall.optimizer_ms",
    "waterfall.harness_ms",
    "gap.ideal_step_ms",
    "gap.compute_gap_ms",
    "gap.comm_exposed_gap_ms",
    "gap.wait_gap_ms",
    "gap.copy_gap_ms",
    "gap.optimizer_gap_ms",
    "gap.harness_gap_ms",
    "pipeline.bubble",
    "pipeline.bubble_formula",
    "pipeline.bubble_equal",
    "train.loss_first",
    "train.loss_last",
    "train.losses",
    "train.accuracy",
    "train.steps_to_target",
    "train.seconds_to_target",
    "train.target.accuracy",
    "train.target.loss",
    "equivalence.grade",
    "equivalence.pass",
    "equivalence.max_ulp",
    "equivalence.max_rel",
    "equivalence.bound",
    "equivalence.gradient_rel",
    "equivalence.library_rel",
    "equivalence.kernels",
    "equivalence.kernels_compared",
    "equivalence.digest",
    "equivalence.reference_digest",
    "equivalence.steps",
    "equivalence.oracle",
    "traffic.bytes_sent",
    "traffic.messages_sent",
    "traffic.bytes_formula",
    "traffic.messages_formula",
    "traffic.copies_put.peer_bytes",
    "traffic.copies_put.staged_bytes",
    "traffic.copies_put.host_bytes",
    "memory.devices.device",
    "memory.devices.parameters",
    "memory.devices.gradients",
    "memory.devices.optimizer",
    "memory.devices.activations",
    "memory.devices.communication",
    "memory.devices.workspace",
    "memory.devices.reserved",
    "memory.devices.peak",
    "memory.devices.formula.parameters",
    "memory.devices.formula.gradients",
    "memory.devices.formula.optimizer",
    "memory.devices.formula.activations",
    "memory.devices.formula.communication",
    "memory.devices.formula.workspace",
    "memory.devices.formula.reserved",
    "memory.devices.formula.peak",
    "memory.growth_per_step",
    "memory.rss_peak",
    "program.nodes",
    "program.bytes",
    "program.reorders",
    "program.reordered_bytes",
    "program.uncaptured",
    "lead.bound",
    "lead.max",
    "lead.histogram",
    "staleness.max",
    "staleness.mean",
    "staleness.histogram",
    "dropped",
    "device_load.device",
    "device_load.rank",
    "device_load.busy_ms",
    "device_load.waiting_ms",
    "device_load.gathering_ms",
    "server_load.device",
    "server_load.bytes",
    "server_load.busy",
    "server_load.received_bytes",
    "server_load.copied_bytes",
    "micro.op",
    "micro.shape",
    "micro.size_bytes",
    "micro.count",
    "micro.type",
    "micro.comm",
    "micro.redop",
    "micro.ranks",
    "micro.time_us",
    "micro.time_p10_us",
    "micro.time_p90_us",
    "micro.time_p99_us",
    "micro.algbw_gbs",
    "micro.busbw_gbs",
    "micro.gflops",
    "micro.roof_share",
    "micro.roof_us",
    "micro.roof",
    "micro.host_us",
    "micro.build_us",
    "micro.wrong",
    "micro.bytes_sent",
    "micro.messages_sent",
    "micro.kernel",
    "micro.link",
    "provenance.commit",
    "provenance.dirty",
    "provenance.version",
    "provenance.build_type",
    "provenance.compiler",
    "provenance.compiler_flags",
    "provenance.libraries.oneDNN",
    "provenance.libraries.hwloc",
    "provenance.libraries.SQLite",
    "provenance.libraries.jansson",
    "provenance.libraries.xxHash",
    "provenance.libraries.libfyaml",
    "provenance.libraries.zlib",
    "provenance.libraries.CUDA",
    "provenance.libraries.cuBLAS",
    "provenance.libraries.cuDNN",
    "provenance.libraries.NCCL",
    "provenance.libraries.OpenMPI",
    "provenance.kernels.table",
    "provenance.kernels.library",
    "provenance.kernels.allreduce",
    "provenance.kernels.exchange",
    "provenance.kernels.ps",
    "provenance.kernels.delay",
    LS_KERNEL_ENTRIES(KERNEL_COLUMN)
    "provenance.cpu",
    "provenance.isa",
    "provenance.arch",
    "provenance.os",
    "provenance.host",
    "provenance.cores_allowed",
    "provenance.memory_limit",
    "provenance.cores_per_device",
    "provenance.cores",
    "provenance.oversubscribed",
    "provenance.denormals_flushed",
    "provenance.huge_pages",
    "provenance.gpu",
    "provenance.driver",
    "provenance.gpus.device",
    "provenance.gpus.pci",
    "provenance.gpus.multiprocessors",
    "provenance.mpi",
    "provenance.ranks.host",
    "provenance.ranks.cores",
    "provenance.ci95",
};
/* clang-format on */

static const char of_devices[] = "memory.devices.";

static void print_field(FILE *stream, const char *text)
{
    if (!strpbrk(text, ",\"\r\n")) {
        fputs(text, stream);
        return;
    }
    fputc('"', stream);
    for (const char *c = text; *c; c++) {
        if (*c == '"')
            fputc('"', stream);
        fputc(*c, stream);
    }
    fputc('"', stream);
}

/* Each once: several strategies may have one. */
static void visit_declared(ls_path_visit visit, void *context)
{
    const ls_registry *const owners[] = {&ls_strategies, &ls_model_kinds, &ls_data_sources};
    const ls_declared_option *seen[64];
    size_t count = 0;
    for (size_t o = 0; o < sizeof owners / sizeof *owners; o++) {
        for (const void *const *entry = owners[o]->entries; *entry; entry++) {
            const ls_declared_owner *owner = *entry;
            for (size_t i = 0; owner->options && owner->options[i]; i++) {
                char path[80];
                seen[count] = NULL;
                if (ls_declared_has(seen, owner->options[i]) ||
                    count + 1 == sizeof seen / sizeof *seen)
                    continue;
                seen[count++] = owner->options[i];
                memcpy(path, "case.", sizeof "case.");
                visit(context, strcat(path, ls_declared_field(owner->options[i], (char[64]){0})));
            }
        }
    }
}

void ls_row_paths(ls_path_visit visit, void *context)
{
    for (size_t i = 0; i < sizeof csv_columns / sizeof *csv_columns; i++) {
        if (csv_columns[i])
            visit(context, csv_columns[i]);
        else
            visit_declared(visit, context);
    }
}

/* Of memory.devices the one with the largest peak, the first of several; borrowed. */
static const json_t *fullest_device(const json_t *row)
{
    const json_t *devices = json_object_get(json_object_get(row, "memory"), "devices");
    const json_t *fullest = json_array_get(devices, 0);
    if (json_is_object(devices)) /* of a part of a row (ls_row_part): the fullest already */
        return devices;
    for (size_t i = 1; i < json_array_size(devices); i++) {
        const json_t *device = json_array_get(devices, i);
        if (json_integer_value(json_object_get(device, "peak")) >
            json_integer_value(json_object_get(fullest, "peak")))
            fullest = device;
    }
    return fullest;
}

json_t *ls_row_value(const json_t *row, const char *path)
{
    if (strncmp(path, of_devices, sizeof of_devices - 1) == 0)
        return ls_row_find(fullest_device(row), path + sizeof of_devices - 1);
    return ls_row_find(row, path);
}

/* A line on its way out: the header, where there is no row. */
typedef struct csv_line {
    FILE *stream;
    const json_t *row;
    size_t fields;
} csv_line;

static void print_cell(void *context, const char *path)
{
    csv_line *line = context;
    if (line->fields++ > 0)
        fputc(',', line->stream);
    if (!line->row) {
        fputs(path, line->stream);
        return;
    }
    json_t *value = ls_row_value(line->row, path);
    char *text = ls_value_text(value);
    print_field(line->stream, text ? text : "");
    free(text);
    json_decref(value);
}

/* The columns that were chosen, else all. */
static void print_line(const ls_writer *writer, const json_t *row)
{
    csv_line line = {writer->stream, row, 0};
    if (!writer->chosen)
        ls_row_paths(print_cell, &line);
    for (size_t i = 0; writer->chosen && i < writer->columns->count; i++)
        print_cell(&line, writer->columns->column[i].path);
    fputc('\n', writer->stream);
}

void ls_csv_row(ls_writer *writer, const json_t *row)
{
    if (writer->rows == 0)
        print_line(writer, NULL);
    print_line(writer, row);
}

void ls_csv_close(ls_writer *writer)
{
    if (writer->rows == 0)
        print_line(writer, NULL);
}
