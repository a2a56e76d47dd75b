/* SPDX-License-Identifier: MIT */
/* Made tables: rows of `run`, and what a table prints of them; with cmocka. */
#pragma once

#include "bench/output/format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* A row of `run`; fields that are not given are the same in all rows. */
static json_t *made_row(const char *strategy, int devices, double step_ms, double half,
                        const char *status)
{
    json_t *names = json_array();
    for (int i = 0; i < devices; i++)
        json_array_append_new(names, json_sprintf("cpu:%d", i));
    return json_pack("{s:{s:s,s:s,s:s,s:o,s:i,s:i,s:i},s:{s:s},s:{s:{s:f,s:[f,f]},s:f},s:{s:f,s:f},"
                     "s:{s:s,s:b}}",
                     "case", "model", "mlp", "data", "synthetic", "strategy", strategy, "devices",
                     names, "batch_global", 256, "parameters", 7, "bucket_bytes", 100 + devices,
                     "result", "status", status, "time", "step_ms", "median", step_ms, "ci95",
                     step_ms * (1 - half), step_ms * (1 + half), "samples_per_s", 256e3 / step_ms,
                     "train", "loss_last", 0.5, "accuracy", 0.75, "equivalence", "grade", "bounded",
                     "pass", 1);
}

static json_t *step_of(const json_t *row)
{
    return json_object_get(json_object_get(row, "time"), "step_ms");
}

static json_t *swept; /* options of the next table's cases that are asked to differ */

/* Prints these rows (takes ownership) at a width, with a flush after every `group` rows. */
static char *table_of(json_t **rows, size_t count, int width, size_t group,
                      const ls_columns *columns)
{
    const ls_format *format;
    ls_writer *writer;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    assert_null(ls_format_find("table", &format));
    assert_null(ls_writer_open(format, stream, &writer));
    json_t *cases = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append(cases, json_object_get(rows[i], "case"));
    ls_writer_expect(writer, cases, swept);
    swept = NULL;
    writer->width = width;
    if (columns)
        writer->columns = columns;
    for (size_t i = 0; i < count; i++) {
        assert_null(ls_writer_row(writer, rows[i]));
        json_decref(rows[i]);
        if ((i + 1) % group == 0)
            assert_null(ls_writer_flush(writer));
    }
    assert_null(ls_writer_close(writer));
    fclose(stream);
    return text;
}
