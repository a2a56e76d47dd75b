/* SPDX-License-Identifier: MIT */
/*
 * `lockstep micro`: single operations, and the machine's roofs (`mfu` and other shares are relative
 * to them). Products and collectives are checked with inputs whose sums are exact in float32,
 * layers against the reference table; with wrong elements the exit status is 1.
 */
#include "bench/case/graph_file.h"
#include "bench/case/workplace.h"
#include "bench/cli/options.h"
#include "bench/commands/command.h"
#include "bench/micro/micro.h"
#include "bench/output/format.h"
#include "bench/output/standard_output.h"
#include "bench/progress/progress.h"
#include "bench/row/provenance.h"
#include "bench/row/roof.h"
#include "bench/row/row.h"
#include "bench/rows/put.h"
#include "bench/train/world.h"
#include "common/base/grow.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const ls_micro_op operations[] = {
#define OPERATION(name, help, options, function, ...)                                              \
    {name, help, options, ls_micro_##function, __VA_ARGS__},
#include "bench/commands/commands.def"
};
enum { OPERATIONS = sizeof operations / sizeof *operations };
#define NCCL_NAMES "all_reduce, all_gather, reduce_scatter"

void ls_command_micro_help(FILE *stream)
{
    fputs("\nOperations:\n", stream);
    for (size_t i = 0; i < OPERATIONS; i++)
        fprintf(stream, "  %-13s %s\n", operations[i].name, operations[i].help);
    fputs("  " NCCL_NAMES ", as in nccl-tests, are the same.\n", stream);
}

/* Whether a user's word names the operation: also as nccl-tests writes it, reduce_scatter. */
static bool is_named(const char *word, const char *name)
{
    for (; *word; word++)
        if (*word != '_' && *word != *name++)
            return false;
    return !*name;
}

static ls_status find_operation(const ls_option_set *set, const ls_micro_op **out)
{
    char names[192] = "";
    const char *wanted = set->operand_count ? set->operands[0] : NULL;
    for (size_t i = 0; i < OPERATIONS; i++) {
        if (wanted && is_named(wanted, operations[i].name)) {
            *out = &operations[i];
            return LS_OK;
        }
        ls_text_add(names, sizeof names, "%s%s", i ? ", " : "", operations[i].name);
    }
    return ls_fail(LS_CODE_USAGE, "micro", wanted ? wanted : "operation",
                   "%s; valid are: %s (also as in nccl-tests: " NCCL_NAMES ")",
                   wanted ? "unknown operation" : "missing", names);
}

/* The devices' names: one for every rank. */
static ls_status resolve_devices(const ls_option_set *set, int ranks, ls_micro *m)
{
    const ls_micro_op *op = m->op;
    /* A collective needs at least two ranks. */
    const bool two = op->redop && !m->processes->comm && !ls_option_set_text(set, "ranks", NULL);
    const char *spec = ls_option_set_text(set, "devices", two ? "2" : "1");
    char all[32];
    int64_t devices;
    size_t count = 0;
    if (ranks > 1 && m->processes->comm)
        return ls_fail(LS_CODE_USAGE, "option", "--ranks",
                       "makes ranks out of threads, but the launcher has started %d ranks already; "
                       "remove --ranks",
                       m->processes->size);
    if (ranks > 1 && !ls_parse_integer(spec, 1, 1024, &devices))
        return ls_fail(LS_CODE_USAGE, "option --devices", spec,
                       "names devices, but every rank chooses its own devices; give the number of "
                       "devices of each rank, as --devices 1");
    if (ranks > 1) {
        snprintf(all, sizeof all, "%lld", (long long)devices * ranks);
        spec = all;
    }
    LS_TRY(ls_machine_resolve(m->machine, spec, &m->names, &count));
    m->ranks = (int)count;
    LS_TRY(ls_allocate("micro", &m->known, count, sizeof *m->known));
    if (count != 1 && !op->redop && (count != 2 || !op->pairs))
        return ls_fail(
            LS_CODE_USAGE, "option --devices", ls_option_set_text(set, "devices", "1"),
            "lockstep micro %s runs on one device%s", op->name,
            op->pairs ? " or between two; use --devices 1 or 2, or the names of one or two devices"
                      : "; use --devices 1 or the name of a device");
    return LS_OK;
}

/* Reads options like `run`. */
static ls_status read_options(const ls_option_set *set, ls_micro *m, ls_case *one,
                              ls_request *request)
{
    static const struct {
        const char *name, *fallback;
    } taken[] = {{"cpu-devices", NULL},   {"cores-per-device", NULL},
                 {"logical-gpus", NULL},  {"progress", NULL},
                 {"batch", NULL},         {"ranks", NULL},
                 {"link", NULL},          {"comm", "auto"},
                 {"convolution", "auto"}, {"results", LS_RESULTS_DEFAULT}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++)
        LS_TRY(
            ls_option_set_take(set, taken[i].name, taken[i].fallback, m->processes, one, request));
    const char *model = ls_option_set_text(set, "model", "mlp");
    LS_TRY(ls_graph_file_is(model) ? ls_graph_file_open(model, &m->model)
                                   : ls_model_open(model, &m->model));
    m->batch = one->batch ? one->batch : m->model->family->default_batch;
    LS_TRY(ls_optimizer_parse(
        ls_option_set_text(set, "optimizer", m->model->family->default_optimizer), &m->optimizer));
    m->link = one->link;
    m->link_text = *one->link_text ? ls_option_set_text(set, "link", NULL) : NULL;
    m->data = ls_option_set_text(set, "data", NULL);
    m->label = ls_option_set_text(set, "label", NULL);
    m->sizes = ls_option_set_find(set, "sizes");
    m->allreduce = ls_option_set_find(set, "allreduce");
    return LS_OK;
}

/* `request`: its options are freed by the caller. */
static ls_status open_micro(const ls_option_set *set, ls_micro *m, ls_request *request)
{
    const ls_format *format;
    const ls_memory_policy policy = {.kind = LS_MEMORY_GROWTH};
    ls_case one = {.ranks = 1};
    LS_TRY(ls_format_find(ls_option_set_text(set, "format", "table"), &format));
    LS_TRY(read_options(set, m, &one, request));
    const ls_machine_options options = ls_request_machine(request);
    LS_TRY(ls_machine_open(&options, &m->machine));
    LS_TRY(resolve_devices(set, one.ranks, m));
    ls_device_kind kind = LS_DEVICE_CPU;
    for (int r = 0; r < m->ranks; r++)
        kind = m->names[r].kind == LS_DEVICE_GPU ? LS_DEVICE_GPU : kind;
    m->comm = ls_comm_backend_auto(m->processes->comm, kind); /* GPUs: another than threads */
    if (strcmp(one.comm, "device") == 0 || strcmp(one.comm, "nccl") == 0)
        LS_TRY(ls_comm_backend_find(one.comm, &m->comm));
    if (one.convolution != LS_CONVOLUTION_AUTO && m->names[0].kind != LS_DEVICE_GPU)
        return ls_fail(
            LS_CODE_USAGE, "option --convolution", ls_option_set_text(set, "convolution", NULL),
            "works on GPUs only, but this device is a CPU device; use --convolution auto");
    LS_TRY(ls_device_open(m->machine, &m->names[0], &policy, &m->device));
    m->known[0] = ls_device_describe(m->device);
    LS_TRY(ls_bench_open(m->device, LS_MATH_FLOAT32, NULL, &m->bench));
    m->bench.kernels->convolution = one.convolution;
    if (request->results && m->processes->rank == 0)
        LS_TRY(ls_results_open(request->results, true, &m->results));
    m->progress = ls_progress_open(stderr, m->processes->rank > 0 ? 0 : request->progress);
    static const double unknown[LS_PHASES] = {0};
    ls_progress_cases(m->progress, 1);
    ls_progress_expect(m->progress, 0, m->op->name, unknown, false);
    ls_progress_enter(m->progress, 0, LS_PHASE_TIMING);
    LS_TRY(ls_writer_open(format, ls_output(), &m->writer));
    m->writer->results = m->results ? request->results : NULL;
    return LS_OK;
}

static void close_micro(ls_micro *m)
{
    ls_bench_close(&m->bench);
    ls_device_close(m->device);
    ls_network_close(m->network);
    ls_machine_close(m->machine);
    ls_results_close(m->results);
    free(m->known);
    free(m->names);
    ls_model_close(m->model);
}

/* Refuses options of the subcommand that this operation does not use. */
static ls_status refuse_strangers(const ls_option_set *set, const ls_micro_op *op)
{
    static const char *const names[] = {"sizes", "model",     "data", "batch", "optimizer",
                                        "ranks", "allreduce", "link", "comm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char wanted[32], where[32], users[256] = "";
        snprintf(wanted, sizeof wanted, " %s ", names[i]);
        snprintf(where, sizeof where, "--%s", names[i]);
        if (!ls_option_set_has(set, names[i]) || strstr(op->options, wanted))
            continue;
        for (const ls_micro_op *other = operations; other < operations + OPERATIONS; other++)
            if (strstr(other->options, wanted))
                ls_text_add(users, sizeof users, "%slockstep micro %s", *users ? ", " : "",
                            other->name);
        return ls_fail(LS_CODE_USAGE, "option", where,
                       "does not apply to lockstep micro %s; remove this option (it applies to %s)",
                       op->name, users);
    }
    return LS_OK;
}

/* After a collective of several processes: what a message between neighbours of the ring takes, as
 * --link says it. Measured by sendrecv, unless that was the operation. */
static ls_status tell_link(ls_micro *m)
{
    ls_option_value sizes[] = {{.text = (char[]){"8"}}, {.text = (char[]){"4MiB"}}};
    const ls_option_given few = {sizes, 2}, none = {NULL, 0};
    ls_micro link = *m;
    if (!m->comm->exchange || m->processes->size * m->ranks < 2)
        return LS_OK;
    if (strcmp(m->op->name, "sendrecv") != 0) {
        link.op = operations;
        while (strcmp(link.op->name, "sendrecv") != 0)
            link.op++;
        link.sizes = &few;
        link.allreduce = &none;
        link.silent = true;
        LS_TRY(link.op->run(&link));
        m->failed = link.failed;
    }
    const double more = link.sent_ns[1] - link.sent_ns[0];
    if (m->processes->rank > 0 || link.sent_bytes[1] <= link.sent_bytes[0])
        return LS_OK;
    if (more <= 0) {
        fputs("no --link for run and predict: large messages took no longer than small ones; "
              "repeat it while no other program runs\n",
              ls_output());
        return LS_OK;
    }
    fprintf(
        ls_output(),
        "a message between neighbours, for run and predict: --link latency=%.1fus,bandwidth=%.3g"
        "GB/s\n",
        link.sent_ns[0] * 1e-3, (double)(link.sent_bytes[1] - link.sent_bytes[0]) / more);
    return LS_OK;
}

static ls_status run_micro(const ls_option_set *set, const ls_processes *processes,
                           const char *command, int *exit_status)
{
    const ls_processes alone = ls_processes_alone();
    const ls_micro_op *op = NULL;
    LS_TRY(ls_option_set_take(set, "launcher", NULL, NULL, NULL, NULL));
    LS_TRY(find_operation(set, &op));
    LS_TRY(refuse_strangers(set, op));
    if (processes->rank > 0 && !op->redop)
        return LS_OK;
    ls_micro m = {.op = op, .processes = op->redop ? processes : &alone, .command = command};
    ls_request request = {.progress = -1, .processes = m.processes};
    ls_status status = ls_world_agree(m.processes->comm, open_micro(set, &m, &request));
    if (!status && op->needs_roof)
        status = ls_roof_get(m.machine, m.device, LS_MATH_FLOAT32, &(ls_reached){0}, &m.roof);
    if (!status)
        status = op->run(&m);
    ls_progress_close(m.progress);
    m.progress = NULL;
    if (m.writer)
        status = ls_status_first(status, ls_writer_close(m.writer));
    if (!status && op->redop && m.processes->comm && !m.link_text &&
        strcmp(ls_option_set_text(set, "format", "table"), "table") == 0)
        status = tell_link(&m);
    close_micro(&m);
    free(request.results);
    *exit_status = m.failed ? LS_CODE_CHECK : LS_CODE_OK;
    return status;
}

ls_status ls_command_micro(const ls_invocation *in, int *exit_status)
{
    ls_auto char *command = NULL;
    LS_TRY(ls_command_line(in->argc, in->argv, &command));
    return run_micro(in->set, in->processes, command, exit_status);
}

/* ---- Sizes and rows ------------------------------------------------------------------------- */

ls_status ls_micro_sizes(const ls_micro *m, size_t smallest, size_t sizes[LS_MICRO_SIZES],
                         size_t *count)
{
    const size_t most = (size_t)64 << 20;
    *count = 0;
    if (!m->sizes->count) {
        for (size_t size = smallest; size < most; size *= 4)
            sizes[(*count)++] = size;
        sizes[(*count)++] = most;
    }
    for (size_t i = 0; i < m->sizes->count; i++) {
        const char *text = m->sizes->values[i].text;
        if (*count == LS_MICRO_SIZES)
            return ls_fail(LS_CODE_USAGE, "option", "--sizes",
                           "has more than %d sizes; give fewer sizes, or use several commands",
                           LS_MICRO_SIZES);
        if (!ls_parse_bytes(text, &sizes[*count]) || sizes[*count] < sizeof(float) ||
            sizes[*count] > (size_t)4 << 30)
            return ls_fail(LS_CODE_USAGE, "option --sizes", text,
                           "is not a valid size; give a size from 4 bytes to 4GiB, such as 64KiB");
        const size_t rest = sizes[*count] % sizeof(float);
        if (rest)
            return ls_fail(LS_CODE_USAGE, "option --sizes", text,
                           "is not a whole number of elements of %zu bytes; use --sizes %zu or %zu",
                           sizeof(float), sizes[*count] - rest,
                           sizes[*count] - rest + sizeof(float));
        (*count)++;
    }
    return LS_OK;
}

static void put_micro(const ls_micro *m, const ls_micro_figure *f, json_t *row)
{
    const double rate = f->moved_bytes / f->ns.median;
    const bool own_roof = f->roof_ns > 0;
    ls_put_micro_op(row, f->op);
    ls_put_micro_shape(row, f->shape);
    if (f->bytes)
        ls_put_micro_size_bytes(row, f->bytes);
    if (f->count)
        ls_put_micro_count(row, f->count);
    ls_put_micro_type(row, "float");
    ls_put_micro_comm(row, f->comm);
    ls_put_micro_redop(row, f->redop);
    ls_put_micro_ranks(row, f->ranks ? f->ranks : 1);
    ls_put_micro_time_us(row, f->ns.median * 1e-3);
    ls_put_micro_time_p10_us(row, f->ns.n ? f->ns.p10 * 1e-3 : NAN);
    ls_put_micro_time_p90_us(row, f->ns.n ? f->ns.p90 * 1e-3 : NAN);
    ls_put_micro_time_p99_us(row, f->ns.n ? f->ns.p99 * 1e-3 : NAN);
    ls_put_micro_algbw_gbs(row, f->moved_bytes > 0 ? rate : NAN);
    ls_put_micro_busbw_gbs(row, f->ranks ? f->bus_factor * rate : NAN);
    ls_put_micro_gflops(row, f->flops > 0 ? f->flops / f->ns.median : NAN);
    ls_put_micro_roof_share(row, own_roof       ? f->roof_ns / f->ns.median
                                 : f->flops > 0 ? f->flops / (f->ns.median * 1e-9) / m->roof
                                                : NAN);
    ls_put_micro_roof_us(row, own_roof ? f->roof_ns * 1e-3 : NAN);
    ls_put_micro_roof(row, own_roof ? f->roof : NULL);
    ls_put_micro_host_us(row, f->host_ns > 0 ? f->host_ns * 1e-3 : NAN);
    ls_put_micro_build_us(row, f->build_ns > 0 ? f->build_ns * 1e-3 : NAN);
    if (f->checked)
        ls_put_micro_wrong(row, f->wrong);
    if (f->ranks && !f->uncounted) {
        ls_put_micro_bytes_sent(row, f->sent.bytes_sent);
        ls_put_micro_messages_sent(row, f->sent.messages_sent);
    }
    ls_put_micro_kernel(row, f->kernel);
    ls_put_micro_link(row, m->network ? m->link_text : NULL);
}

ls_status ls_micro_row(ls_micro *m, const ls_micro_figure *f)
{
    const ls_machine_info *info = ls_machine_describe(m->machine);
    json_auto_t *row = NULL;
    char reason[64];
    LS_TRY(ls_row_begin(m->command, m->label, &row));
    snprintf(reason, sizeof reason, "%" PRIu64 " wrong elements", f->wrong);
    const char *why = f->reason ? f->reason : f->checked && f->wrong ? reason : NULL;
    put_micro(m, f, row);
    ls_put_result_status(row, why ? "failed" : "ok");
    ls_put_result_reason(row, why);
    ls_provenance_put(row, info, ls_machine_oversubscribed(m->machine, m->names, (size_t)m->ranks),
                      m->processes->comm ? m->processes->version : NULL);
    for (int i = 0; i < m->ranks; i++)
        ls_provenance_put_device(row, info, m->known[i]);
    m->failed |= why != NULL;
    if (strcmp(f->op, "sendrecv") == 0) {
        /* its smallest and its largest message */
        for (int i = 0; i < 2 && f->bytes; i++)
            if (!m->sent_bytes[i] ||
                (i ? f->bytes > m->sent_bytes[i] : f->bytes < m->sent_bytes[i])) {
                m->sent_bytes[i] = f->bytes;
                m->sent_ns[i] = f->ns.median;
            }
    }
    if (m->silent)
        return LS_OK;
    ls_status status = m->processes->comm ? ls_row_join(m->processes, row) : LS_OK;
    if (!status && m->results)
        status = ls_results_append(m->results, row);
    ls_progress_pause(m->progress);
    status = ls_status_first(status, ls_writer_row(m->writer, row)); /* even if it was not saved */
    ls_progress_update(m->progress, 0, NAN, NAN);                    /* continues below the row */
    return ls_world_agree(m->processes->comm, status);
}
