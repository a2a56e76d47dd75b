/* SPDX-License-Identifier: MIT */
/*
 * Rows in the formats of other programs. The first two only contain rows with timed steps.
 * google-benchmark: what `--benchmark_out` writes, for its tools/compare.py: an entry per row,
 * whose time is the median step (the mean one if steps are not alike) in nanoseconds; rows of one
 * case are repetitions of one name. A row has no processor time: cpu_time equals real_time.
 * benchmark-action: `customSmallerIsBetter` of github-action-benchmark, an entry per row. mlperf:
 * lines of MLPerf's logging library (mllog), with the keys that a row can provide. Times are the
 * end of the row and the training time that it counts. Leaves out what only a submitter knows
 * (submission_org and the like).
 */
#include "bench/results/results_verbs.h"
#include "bench/output/row_same.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool is_timed(const json_t *row)
{
    return ls_row_number(row, "time.step_ms.median") > 0;
}

/* The case as one word: "mlp:784-128-10/synthetic/mirrored/cpu:0+cpu:1/ranks:1/..". Without the
 * label, so rows before and after a change have the same name. Owned by the caller (free). */
static char *case_name(const json_t *row)
{
    static const struct {
        const char *path, *before;
    } parts[] = {{"case.model", ""},        {"case.data", "/"},
                 {"case.strategy", "/"},    {"case.devices", "/"},
                 {"case.ranks", "/ranks:"}, {"case.batch_global", "/batch:"},
                 {"case.optimizer", "/"},   {"case.reduce", "/"},
                 {"case.allreduce", "/"},   {"case.bucket_bytes", "/bucket:"},
                 {"case.comm", "/"},        {"case.link", "/link:"}};
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return NULL;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        json_t *value = ls_row_find(row, parts[i].path);
        if (value) {
            fputs(parts[i].before, stream);
            ls_value_print(stream, value);
        }
        json_decref(value);
    }
    fclose(stream);
    return text;
}

/* The names are kept by other programs, so they have the same parts for ever. Says in what else
 * rows of one name differ, which such a program takes for repeats of one case. */
static void tell_mixed(const json_t *rows)
{
    json_auto_t *names = json_object(), *paths = json_object();
    json_t *row, *alike;
    const char *path;
    size_t index;
    json_array_foreach((json_t *)(size_t)rows, index, row)
    {
        char *name = is_timed(row) ? case_name(row) : NULL;
        if (name && !json_object_get(names, name))
            json_object_set_new(names, name, json_array());
        if (name)
            json_array_append(json_object_get(names, name), row);
        free(name);
    }
    json_object_foreach(names, path, alike)
    {
        ls_rows_differ(alike, LS_BUT_BLOCKS, LS_OF_MACHINE, paths);
    }
    char *differ = json_object_size(paths) > 0 ? ls_paths_text(paths) : NULL;
    if (differ)
        ls_log_stderr("results: export: rows of one name differ in %s; --where chooses rows of one",
                      differ);
    free(differ);
}

static ls_status print_whole(FILE *stream, json_t *value)
{
    ls_json_print(stream, value, 2);
    fputc('\n', stream);
    json_decref(value);
    return ls_output_flush(stream, NULL);
}

/* ---- google-benchmark ----------------------------------------------------------------------- */

static json_t *context_of(const json_t *row)
{
    const json_t *provenance = json_object_get(row, "provenance");
    const char *build = json_string_value(json_object_get(provenance, "build_type"));
    json_t *cores = json_object_get(provenance, "cores_allowed");
    const bool release = build && strcasecmp(build, "debug") != 0;
    return json_pack("{s:O*,s:O*,s:s,s:O*,s:b,s:[],s:[],s:s,s:O*,s:O*}", "date",
                     json_object_get(row, "timestamp"), "host_name",
                     json_object_get(provenance, "host"), "executable", "lockstep", "num_cpus",
                     cores, "cpu_scaling_enabled", 0, "caches", "load_avg", "library_build_type",
                     release ? "release" : "debug", "commit", json_object_get(provenance, "commit"),
                     "cpu", json_object_get(provenance, "cpu"));
}

static json_t *benchmark_of(const json_t *row, const char *name)
{
    ls_interval step, rate;
    ls_row_pace(row, &step);
    ls_row_rate(row, ls_row_is_uneven(row), &rate);
    const double ns = 1e6 * step.value;
    json_t *out =
        json_pack("{s:s,s:s,s:s,s:I,s:f,s:f,s:s,s:i}", "name", name, "run_name", name, "run_type",
                  "iteration", "iterations", (json_int_t)ls_row_number(row, "time.step_ms.n"),
                  "real_time", ns, "cpu_time", ns, "time_unit", "ns", "threads", 1);
    if (rate.value > 0)
        json_object_set_new(out, "items_per_second", json_real(rate.value));
    json_object_set(out, "id", json_object_get(row, "id"));
    json_object_set(out, "label", json_object_get(row, "label")); /* one of its own fields */
    return out;
}

ls_status ls_export_google_benchmark(FILE *stream, const json_t *rows)
{
    json_t *benchmarks = json_array(), *families = json_object(), *context = NULL;
    tell_mixed(rows);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        char *name = is_timed(row) ? case_name(row) : NULL;
        if (!name)
            continue;
        if (!context)
            context = context_of(row);
        json_t *family = json_object_get(families, name), *one = benchmark_of(row, name);
        if (!family)
            json_object_set_new(families, name,
                                family = json_pack("{s:i,s:i}", "index",
                                                   (int)json_object_size(families), "count", 0));
        const json_int_t before = json_integer_value(json_object_get(family, "count"));
        ls_put_integer(family, "count", (uint64_t)before + 1);
        json_object_set(one, "family_index", json_object_get(family, "index"));
        ls_put_integer(one, "per_family_instance_index", 0);
        ls_put_integer(one, "repetition_index", (uint64_t)before);
        json_array_append_new(benchmarks, one);
        free(name);
    }
    for (size_t i = 0; i < json_array_size(benchmarks); i++) { /* all are counted now */
        json_t *one = json_array_get(benchmarks, i);
        const char *name = json_string_value(json_object_get(one, "name"));
        json_object_set(one, "repetitions",
                        json_object_get(json_object_get(families, name), "count"));
    }
    json_decref(families);
    return print_whole(stream, json_pack("{s:o,s:o}", "context", context ? context : json_object(),
                                         "benchmarks", benchmarks));
}

/* ---- benchmark-action ----------------------------------------------------------------------- */

ls_status ls_export_benchmark_action(FILE *stream, const json_t *rows)
{
    json_t *entries = json_array();
    tell_mixed(rows);
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        ls_interval step;
        const bool known = ls_row_pace(row, &step);
        char *name = is_timed(row) ? case_name(row) : NULL;
        const char *label = json_string_value(json_object_get(row, "label"));
        char range[48];
        if (!name)
            continue;
        const char *commit = ls_row_text(row, "provenance", "commit");
        const char *id = json_string_value(json_object_get(row, "id"));
        json_t *extra = json_sprintf("id: %s\ncommit: %s%s%s", id ? id : "unknown",
                                     *commit ? commit : "unknown", label ? "\nlabel: " : "",
                                     label ? label : "");
        json_t *one = json_pack("{s:s,s:s,s:f,s:o}", "name", name, "unit", "ms/step", "value",
                                step.value, "extra", extra);
        if (known) {
            snprintf(range, sizeof range, "± %.4g",
                     fmax(step.high - step.value, step.value - step.low));
            json_object_set_new(one, "range", json_string(range));
        }
        json_array_append_new(entries, one);
        free(name);
    }
    return print_whole(stream, entries);
}

/* ---- mlperf --------------------------------------------------------------------------------- */

typedef struct mllog {
    FILE *stream;
    int64_t time_ms;
} mllog;

/* Prints one line; takes ownership of value and metadata. */
static void print_event(const mllog *log, const char *type, const char *key, json_t *value,
                        json_t *metadata)
{
    json_auto_t *event =
        json_pack("{s:s,s:I,s:s,s:s,s:o,s:o}", "namespace", "lockstep", "time_ms",
                  (json_int_t)log->time_ms, "event_type", type, "key", key, "value",
                  value ? value : json_null(), "metadata", metadata ? metadata : json_object());
    json_object_set_new(json_object_get(event, "metadata"), "file", json_string("lockstep"));
    json_object_set_new(json_object_get(event, "metadata"), "lineno", json_integer(0));
    fputs(":::MLLOG ", log->stream);
    ls_json_print(log->stream, event, -1);
    fputc('\n', log->stream);
}

static void print_point(const mllog *log, const char *key, json_t *value)
{
    if (value)
        print_event(log, "POINT_IN_TIME", key, value, NULL);
}

static int64_t end_ms(const json_t *row)
{
    struct tm utc = {0};
    const char *stamp = json_string_value(json_object_get(row, "timestamp"));
    if (!stamp || !strptime(stamp, "%Y-%m-%dT%H:%M:%SZ", &utc))
        return 0;
    return (int64_t)timegm(&utc) * 1000;
}

/* "adam" of "adam:beta1=0.9"; NULL if there is none. */
static json_t *before_colon(const char *text)
{
    return *text ? json_stringn(text, strcspn(text, ":")) : NULL;
}

static void print_run(FILE *stream, const json_t *row)
{
    const int64_t end = end_ms(row);
    const double steps = ls_row_number(row, "case.steps") + ls_row_number(row, "case.warmup");
    const int64_t trained = (int64_t)(steps * ls_row_number(row, "time.step_ms.mean"));
    const bool ok = strcmp(ls_row_text(row, "result", "status"), "ok") == 0;
    mllog log = {stream, end - trained};
    json_t *accuracy = ls_row_find(row, "train.accuracy");
    ls_interval rate;
    ls_row_rate(row, ls_row_is_uneven(row), &rate);
    print_point(&log, "submission_benchmark", before_colon(ls_row_text(row, "case", "model")));
    print_point(&log, "submission_platform", ls_row_find(row, "provenance.cpu"));
    print_point(&log, "global_batch_size", ls_row_find(row, "case.batch_global"));
    print_point(&log, "seed", ls_row_find(row, "case.seed"));
    print_point(&log, "opt_name", before_colon(ls_row_text(row, "case", "optimizer")));
    print_point(&log, "opt_base_learning_rate", ls_row_find(row, "case.lr"));
    print_event(&log, "INTERVAL_START", "run_start", NULL,
                json_pack("{s:O*,s:O*,s:O*,s:O*}", "id", json_object_get(row, "id"), "label",
                          json_object_get(row, "label"), "strategy",
                          json_object_get(json_object_get(row, "case"), "strategy"), "devices",
                          json_object_get(json_object_get(row, "case"), "devices")));
    log.time_ms = end;
    if (rate.value > 0)
        print_event(&log, "POINT_IN_TIME", "tracked_stats",
                    json_pack("{s:f}", "throughput", rate.value),
                    json_pack("{s:I}", "step", (json_int_t)steps));
    if (accuracy)
        print_event(&log, "POINT_IN_TIME", "eval_accuracy", accuracy,
                    json_pack("{s:I}", "step_num", (json_int_t)steps));
    print_event(&log, "INTERVAL_END", "run_stop", NULL,
                json_pack("{s:s}", "status", ok ? "success" : "aborted"));
}

ls_status ls_export_mlperf(FILE *stream, const json_t *rows)
{
    for (size_t i = 0; i < json_array_size(rows); i++)
        if (json_object_get(json_array_get(rows, i), "case"))
            print_run(stream, json_array_get(rows, i));
    return ls_output_flush(stream, NULL);
}
