/* SPDX-License-Identifier: MIT */
/* Scales; see draw_scale.h. */
#include "bench/report/draw_scale.h"

#include "bench/report/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double ls_scale_of(const json_t *figure, double highest, const char **name)
{
    static const struct {
        const char *unit;
        double from, scale;
        const char *name;
    } scales[] = {
        {"bytes", 1048576, 1.0 / 1048576, ", MiB"},
        {"bytes", 1024, 1.0 / 1024, ", KiB"},
        {"bytes", 0, 1, ", bytes"},
        {"samples/s", 1e6, 1e-6, ", millions"},
        {"samples/s", 1e4, 1e-3, ", thousands"},
        {"%", 0, 100, ""},
    };
    *name = "";
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++)
        if (highest >= scales[i].from && strcmp(ls_text_of(figure, "unit"), scales[i].unit) == 0) {
            *name = scales[i].name;
            return scales[i].scale;
        }
    return 1;
}

double ls_scale_step(double span, double pixels)
{
    double step = pow(10, floor(log10(span / 20)));
    for (int i = 0; i < 9 && step / span * pixels < 17 + 7 * snprintf(NULL, 0, "%g", step); i++)
        step *= i % 3 == 1 ? 2.5 : 2;
    return step;
}
