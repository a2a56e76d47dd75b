/* SPDX-License-Identifier: MIT */
/* What a page says of predicted rows; see page.h. */
#include "bench/report/page.h"

#include "bench/output/format_parts.h"
#include "bench/report/text.h"

#include <math.h>

/* The values of a field of `prediction`, each once, with commas between. */
static void add_values(const json_t *rows, const char *field, char *out, size_t size)
{
    json_auto_t *known = json_object();
    const char *value;
    json_t *unused;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        value = ls_row_text(json_array_get(rows, i), "prediction", field);
        if (*value)
            json_object_set_new(known, value, json_null());
    }
    size_t count = 0;
    json_object_foreach(known, value, unused)
    {
        (void)unused;
        ls_text_add(out, size, "%s%s", count++ ? ", " : "", value);
    }
}

json_t *ls_page_predicted(const json_t *rows)
{
    enum { SIZE = 2048 };
    size_t predicted = 0, extrapolated = 0, bounded = 0;
    double least = INFINITY, most = 0;
    for (size_t i = 0; i < json_array_size(rows); i++) {
        const json_t *row = json_array_get(rows, i);
        const double error = ls_row_number(row, "prediction.error");
        if (!ls_row_is_predicted(row))
            continue;
        predicted++;
        extrapolated +=
            json_is_true(json_object_get(json_object_get(row, "prediction"), "extrapolated"));
        if (!(error > 0))
            continue;
        bounded++;
        least = fmin(least, error);
        most = fmax(most, error);
    }
    char out[SIZE] = "";
    if (!predicted)
        return NULL;
    ls_text_add(out, SIZE,
                "%zu of %zu rows were not measured: their steps were played in virtual "
                "time, by ",
                predicted, json_array_size(rows));
    add_values(rows, "engine", out, SIZE);
    ls_text_add(out, SIZE, "%s", ", on ");
    add_values(rows, "platform", out, SIZE);
    ls_text_add(out, SIZE, "%s", ". Lines of them are dashed, their marks hollow.");
    if (bounded)
        ls_text_add(out, SIZE, " The half width of their intervals is %.1f%% to %.1f%%.",
                    100 * least, 100 * most);
    if (extrapolated)
        ls_text_add(out, SIZE,
                    " %zu are extrapolated: no validated row has so many devices, and "
                    "the intervals know the spread of durations only.",
                    extrapolated);
    return json_string(out);
}
