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

#define KERNEL_COLUMN(entry, args) #entry " "

/* clang-format off */
static const struct {
    const char *group, *fields; /* NULL: options that strategies, models and data sets declare */
} csv_columns[] = {
    {"", "schema id timestamp command label"},
    {"case.",
     "model data strategy devices_asked devices ranks hosts batch_global batch_per_device "
     "scaling steps epochs warmup blocks seed shuffle optimizer lr reduce micro_shards "
     "allreduce bucket_bytes overlap link inject comm memory math convolution capture "
     "parameters"},
    {"case.", NULL},
    {"case.", "ps_record"},
    {"result.", "status reason warnings notes"},
    {"time.step_ms.", "mean median p10 p90 p99 ci95 n"},
    {"time.",
     "blocks timed_s samples_per_s samples_per_s_mean discarded speedup efficiency "
     "exact_cost mfu roof_gflops build_ms host_us data_ms setup_ms reopen_ms harness_us "
     "accounted profiled_ms residual"},
    {"waterfall.", "compute_ms comm_exposed_ms wait_ms copy_ms optimizer_ms harness_ms"},
    {"gap.",
     "ideal_step_ms compute_gap_ms comm_exposed_gap_ms wait_gap_ms copy_gap_ms "
     "optimizer_gap_ms harness_gap_ms"},
    {"pipeline.", "bubble bubble_formula bubble_equal"},
    {"train.", "loss_first loss_last losses accuracy steps_to_target seconds_to_target"},
    {"train.target.", "accuracy loss"},
    {"equivalence.",
     "grade pass max_ulp max_rel bound gradient_rel library_rel kernels kernels_compared "
     "digest reference_digest steps oracle"},
    {"traffic.", "bytes_sent messages_sent bytes_formula messages_formula"},
    {"traffic.copies_put.", "peer_bytes staged_bytes host_bytes"},
    {"memory.devices.",
     "device parameters gradients optimizer activations communication workspace reserved "
     "peak allocations"},
    {"memory.devices.formula.",
     "parameters gradients optimizer activations communication workspace reserved peak"},
    {"memory.", "growth_per_step rss_peak"},
    {"program.", "nodes bytes reorders reordered_bytes uncaptured"},
    {"lead.", "bound max histogram"},
    {"staleness.", "max mean histogram"},
    {"", "dropped"},
    {"device_load.", "device rank busy_ms waiting_ms gathering_ms"},
    {"server_load.", "device bytes busy received_bytes copied_bytes"},
    {"micro.",
     "op shape size_bytes count type comm redop ranks time_us time_p10_us time_p90_us "
     "time_p99_us algbw_gbs busbw_gbs gflops roof_share roof_us roof host_us build_us "
     "wrong bytes_sent messages_sent kernel link"},
    {"provenance.", "commit dirty version build_type compiler compiler_flags binary_bytes"},
    {"provenance.libraries.",
     "oneDNN hwloc SQLite jansson xxHash libfyaml zlib CUDA cuBLAS cuDNN NCCL OpenMPI"},
    {"provenance.kernels.",
     "table library allreduce exchange ps delay " LS_KERNEL_ENTRIES(KERNEL_COLUMN)},
    {"provenance.",
     "cpu isa arch os host cores_allowed memory_limit cores_per_device cores "
     "oversubscribed denormals_flushed huge_pages gpu driver"},
    {"provenance.gpus.", "device pci multiprocessors"},
    {"provenance.", "mpi"},
    {"provenance.ranks.", "host cores"},
    {"provenance.", "ci95"},
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
        const char *field = csv_columns[i].fields;
        if (!field)
            visit_declared(visit, context);
        for (size_t length; field && *field; field += length + strspn(field + length, " ")) {
            char path[80];
            length = strcspn(field, " ");
            snprintf(path, sizeof path, "%s%.*s", csv_columns[i].group, (int)length, field);
            visit(context, path);
        }
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
