/* SPDX-License-Identifier: MIT */
/*
 * CSV: the same columns for every row, those of the row's schema, with the groups' names before
 * the fields' ("time.step_ms.median"). Quoted as RFC 4180 says; lines end in a line feed alone.
 * What a row holds beyond them is not lost: the last column has it as one JSON object.
 */
#include "bench/format_parts.h"

#include <stdlib.h>
#include <string.h>

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
    "case.variable_device",
    "case.augment",
    "case.sync_bn",
    "case.colocate_gradients",
    "case.link",
    "case.inject",
    "case.comm",
    "case.memory",
    "case.math",
    "case.convolution",
    "case.capture",
    "case.parameters",
    "case.towers_staged",
    "case.ps_mode",
    "case.ps_staleness",
    "case.ps_servers",
    "case.ps_colocate",
    "case.ps_shard",
    "case.ps_backup_workers",
    "case.ps_record",
    "case.model_parallel_place",
    "case.pipeline_microbatches",
    "case.pipeline_schedule",
    "case.hybrid_replicas",
    "case.hybrid_inner",
    "case.sync_bn",
    "result.status",
    "result.reason",
    "time.step_ms.mean",
    "time.step_ms.median",
    "time.step_ms.p10",
    "time.step_ms.p90",
    "time.step_ms.p99",
    "time.step_ms.ci95",
    "time.step_ms.n",
    "time.samples_per_s",
    "time.speedup",
    "time.efficiency",
    "time.exact_cost",
    "time.mfu",
    "time.roof_gflops",
    "time.build_ms",
    "time.host_us",
    "time.data_ms",
    "time.setup_ms",
    "time.harness_us",
    "waterfall.compute_ms",
    "waterfall.comm_exposed_ms",
    "waterfall.wait_ms",
    "waterfall.copy_ms",
    "waterfall.optimizer_ms",
    "waterfall.harness_ms",
    "train.loss_first",
    "train.loss_last",
    "train.losses",
    "train.accuracy",
    "train.steps_to_target",
    "train.seconds_to_target",
    "train.target",
    "equivalence.grade",
    "equivalence.pass",
    "equivalence.max_ulp",
    "equivalence.max_rel",
    "equivalence.bound",
    "equivalence.gradient_rel",
    "equivalence.digest",
    "equivalence.reference_digest",
    "equivalence.steps",
    "equivalence.oracle",
    "traffic.bytes_sent",
    "traffic.messages_sent",
    "traffic.bytes_formula",
    "traffic.messages_formula",
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
    "provenance.libraries",
    "provenance.kernels",
    "provenance.cpu",
    "provenance.isa",
    "provenance.arch",
    "provenance.os",
    "provenance.host",
    "provenance.cores_allowed",
    "provenance.cores_per_device",
    "provenance.cores",
    "provenance.oversubscribed",
    "provenance.denormals_flushed",
    "provenance.huge_pages",
    "provenance.gpu",
    "provenance.driver",
    "provenance.mpi",
    "provenance.ci95",
};

enum { CSV_COUNT = sizeof csv_columns / sizeof *csv_columns, PATH_SIZE = 256 };

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

static void print_header(ls_writer *writer)
{
    for (size_t i = 0; i < CSV_COUNT; i++)
        fprintf(writer->stream, "%s,", csv_columns[i]);
    fputs("other\n", writer->stream);
}

static bool is_column(const char *path)
{
    for (size_t i = 0; i < CSV_COUNT; i++)
        if (strcmp(csv_columns[i], path) == 0)
            return true;
    return false;
}

static bool holds_columns(const char *path)
{
    size_t length = strlen(path);
    for (size_t i = 0; i < CSV_COUNT; i++)
        if (strncmp(csv_columns[i], path, length) == 0 && csv_columns[i][length] == '.')
            return true;
    return false;
}

/* Puts what no column shows into `other`, by its path. */
static void collect_others(const json_t *row, const json_t *value, const char *path, json_t *other)
{
    const char *name;
    json_t *member;
    if (json_is_array(value)) {
        for (size_t i = 0; i < json_array_size(value); i++)
            collect_others(row, json_array_get(value, i), path, other);
        return;
    }
    json_object_foreach((json_t *)(size_t)value, name, member)
    {
        char below[PATH_SIZE];
        snprintf(below, sizeof below, "%s%s%s", path, *path ? "." : "", name);
        if (is_column(below))
            continue;
        if (holds_columns(below))
            collect_others(row, member, below, other);
        else
            json_object_set_new(other, below, ls_row_find(row, below));
    }
}

void ls_csv_row(ls_writer *writer, const json_t *row)
{
    if (writer->rows == 0)
        print_header(writer);
    for (size_t i = 0; i < CSV_COUNT; i++) {
        json_t *value = ls_row_find(row, csv_columns[i]);
        char *text = ls_value_text(value);
        print_field(writer->stream, text ? text : "");
        fputc(',', writer->stream);
        free(text);
        json_decref(value);
    }
    json_t *other = json_object();
    collect_others(row, row, "", other);
    char *text = NULL;
    size_t size;
    FILE *stream = json_object_size(other) ? open_memstream(&text, &size) : NULL;
    if (stream) {
        ls_json_print(stream, other, -1);
        fclose(stream);
        print_field(writer->stream, text);
        free(text);
    }
    json_decref(other);
    fputc('\n', writer->stream);
}

void ls_csv_close(ls_writer *writer)
{
    if (writer->rows == 0)
        print_header(writer);
}
