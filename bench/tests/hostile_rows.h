/* SPDX-License-Identifier: MIT */
/*
 * Hostile rows, as an imported file may have: of three usual rows, each input changes a few values
 * to texts that mean something in one of the languages of output, or to values of another type,
 * size or depth. The same bytes make the same rows.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct input {
    const uint8_t *at, *end;
} input;

/* A number below `below`; 0 at the end of the input. */
static inline unsigned take(input *in, unsigned below)
{
    return in->at < in->end ? *in->at++ % below : 0;
}

/* "zzz" marks what must not stand there unescaped. */
static const char *const fragments[] = {"plain",
                                        "<zzz>",
                                        "</zzz>",
                                        "&zzz;",
                                        "\"zzz",
                                        "'zzz",
                                        "]]>",
                                        "|",
                                        "`zzz`",
                                        "%s%n",
                                        "50%",
                                        "100% a",
                                        "@zzz",
                                        "\\",
                                        "\x1b[2J",
                                        "\x7f\b",
                                        "\r",
                                        "\n",
                                        "\t",
                                        "\xc2\x9b[2J",
                                        "\xe2\x80\xae",
                                        "=1+2",
                                        "-",
                                        ",",
                                        "\"",
                                        "#",
                                        "$zzz",
                                        "{zzz}",
                                        "^_~*",
                                        "''",
                                        "::error",
                                        ":",
                                        "\xc3\xa9",
                                        "\xf0\x9f\x98\x80",
                                        "\xef\xbf\xbf",
                                        " ",
                                        "rgb(1,2,3) #FFFFFF .00\" fill=\"none\"",
                                        "mlp",
                                        "mirrored",
                                        "cpu:0"};

enum { FRAGMENTS = sizeof fragments / sizeof *fragments, TEXT_MOST = 2000 };

static inline json_t *hostile_text(input *in)
{
    char text[TEXT_MOST + 64] = "";
    const unsigned count = take(in, 6), times = take(in, 12) == 11 ? 100 : 1;
    for (unsigned i = 0; i < count; i++) {
        const char *one = fragments[take(in, FRAGMENTS)];
        for (unsigned t = 0; t < times && strlen(text) < TEXT_MOST; t++)
            strcat(text, one);
    }
    return json_string(text);
}

static inline json_t *hostile_value(input *in, int depth)
{
    static const double reals[] = {0, 0.5, -1, 1.75e308, -1e308, 1e-320, 1e17, 123456789.125};
    static const json_int_t integers[] = {0, 1, -1, 7, INT64_MAX, INT64_MIN, 1000000000000};
    json_t *out, *key;
    switch (take(in, depth > 2 ? 6 : 9)) {
    case 0:
    case 1:
        return hostile_text(in);
    case 2:
        return json_real(reals[take(in, 8)]);
    case 3:
        return json_integer(integers[take(in, 7)]);
    case 4:
        return json_boolean(take(in, 2));
    case 5:
        return json_null();
    case 6:
        out = json_array();
        for (unsigned i = take(in, 5); i > 0; i--)
            json_array_append_new(out, hostile_value(in, depth + 1));
        return out;
    case 7:
        out = json_object();
        for (unsigned i = take(in, 4); i > 0; i--) {
            key = hostile_text(in);
            json_object_set_new(out, json_string_value(key), hostile_value(in, depth + 1));
            json_decref(key);
        }
        return out;
    default:
        out = json_string("deep");
        for (int i = 0; i < 300; i++)
            out = i % 2 ? json_pack("{s:o}", "x", out) : json_pack("[o]", out);
        return out;
    }
}

/* Changes one value somewhere in the object, removes it, or adds one. */
static inline void change(input *in, json_t *object)
{
    for (;;) {
        const size_t size = json_object_size(object);
        const unsigned index = size ? take(in, (unsigned)size) : 0;
        void *at = json_object_iter(object);
        for (unsigned i = 0; i < index; i++)
            at = json_object_iter_next(object, at);
        json_t *value = at ? json_object_iter_value(at) : NULL;
        json_t *first = json_is_array(value) ? json_array_get(value, 0) : value;
        if (json_is_object(first) && take(in, 4) > 0) {
            object = first;
            continue;
        }
        const unsigned how = take(in, 8);
        json_t *key = how == 0 || !at ? hostile_text(in) : json_string(json_object_iter_key(at));
        if (how == 1)
            json_object_del(object, json_string_value(key));
        else
            json_object_set_new(object, json_string_value(key), hostile_value(in, 0));
        json_decref(key);
        return;
    }
}

static const char *const usual_rows[] = {
    "{\"schema\":1,\"id\":\"a\",\"timestamp\":\"2026-11-21T05:17:00Z\",\"command\":\"lockstep "
    "run\",\"label\":\"a label\",\"case\":{\"model\":\"mlp\",\"data\":\"synthetic\",\"strategy\":"
    "\"mirrored\",\"devices\":[\"cpu:0\",\"cpu:1\"],\"ranks\":1,\"hosts\":1,\"batch_global\":256,"
    "\"batch_per_device\":[128,128],\"scaling\":\"strong\",\"steps\":100,\"warmup\":1,\"seed\":1,"
    "\"optimizer\":\"adam:beta1=0.9\",\"lr\":0.1,\"reduce\":\"fast\",\"comm\":\"thread\","
    "\"inject\":"
    "\"delay=1:5ms\"},\"result\":{\"status\":\"ok\",\"reason\":\"none\",\"warnings\":[\"noisy\"]},"
    "\"time\":{\"step_ms\":{\"mean\":0.7,\"median\":0.68,\"p10\":0.6,\"p90\":0.9,\"p99\":1.5,"
    "\"ci95\":[0.6,0.7],\"n\":100},\"samples_per_s\":374890.5,\"speedup\":1.5,\"efficiency\":0.75,"
    "\"build_ms\":0.5},\"waterfall\":{\"compute_ms\":0.5,\"wait_ms\":0.2},\"train\":{\"loss_last\":"
    "0.5,\"losses\":[2,1.5,1,0.5],\"accuracy\":0.85,\"seconds_to_target\":3.5},\"equivalence\":{"
    "\"grade\":\"bounded\",\"pass\":true,\"steps\":10,\"oracle\":\"same bits\"},\"memory\":{"
    "\"devices\":[{\"device\":\"cpu:0\",\"parameters\":8,\"peak\":90}],\"growth_per_step\":5},"
    "\"program\":{\"nodes\":40},\"provenance\":{\"commit\":\"c0ffee\",\"cpu\":\"Abacus\",\"host\":"
    "\"here\",\"libraries\":{\"zlib\":\"1.2\"},\"cores_per_device\":[1,1]}}",
    "{\"schema\":1,\"id\":\"m\",\"timestamp\":\"2026-11-21T05:18:00Z\",\"micro\":{\"op\":"
    "\"allreduce\",\"shape\":\"out of place\",\"size_bytes\":4096,\"count\":1024,\"type\":"
    "\"float\",\"redop\":\"sum\",\"ranks\":2,\"time_us\":0.5,\"algbw_gbs\":8.1,\"busbw_gbs\":8.2,"
    "\"wrong\":0,\"kernel\":\"ring\",\"comm\":\"thread\"},\"provenance\":{\"host\":\"here\"}}",
    "{\"schema\":1,\"id\":\"l\",\"timestamp\":\"2026-11-21T05:19:00Z\",\"micro\":{\"op\":"
    "\"layers\",\"shape\":\"dense0 forward\",\"ranks\":1,\"time_us\":1.5,\"time_p10_us\":1,"
    "\"time_p90_us\":3,\"roof_us\":0.5,\"wrong\":0},\"provenance\":{\"host\":\"here\"}}"};

/* What ls_rows_each lets in: texts as id and timestamp. */
static inline void keep_identity(json_t *row, const char *id)
{
    if (!json_is_string(json_object_get(row, "timestamp")))
        json_object_set_new(row, "timestamp", json_string("2026-11-21T05:17:00Z"));
    if (json_string_length(json_object_get(row, "id")) == 0)
        json_object_set_new(row, "id", json_string(id));
    json_object_set_new(row, "schema", json_integer(1));
}

/* A new array of up to six rows; groups of them have equal cases but for numbers of devices. */
static inline json_t *hostile_rows(const uint8_t *data, size_t size)
{
    input in = {data, data + size};
    json_t *rows = json_array();
    const unsigned count = 1 + take(&in, 6), changes = take(&in, 5);
    for (unsigned i = 0; i < count; i++) {
        json_t *row = json_loads(usual_rows[take(&in, 6) % 5 % 3], 0, NULL);
        char id[16];
        json_t *group = json_object_get(row, "case");
        snprintf(id, sizeof id, "r%u", i);
        if (group && take(&in, 2)) {
            json_object_set_new(group, "devices", json_pack("[s]", "cpu:0"));
            json_object_set_new(group, "batch_per_device", json_pack("[i]", 256));
        }
        for (unsigned c = 0; c < changes; c++)
            change(&in, row);
        keep_identity(row, id);
        json_array_append_new(rows, row);
    }
    return rows;
}
