/* SPDX-License-Identifier: MIT */
/* Looks and scales; see draw_look.h. Colours can be distinguished by colour-blind readers. */
#include "bench/report/draw_look.h"

#include "bench/report/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LOOKS = 9, MARKS = 9, DASHES = 4 };

static const char *const colours[LOOKS] = {"#4d4d4d", "#7b3294", "#d55e00", "#0072b2", "#882255",
                                           "#cc79a7", "#e69f00", "#56b4e9", "#009e73"};
static const int markers[LOOKS] = {7, 11, 5, 9, 15, 4, 6, 8, 13};
/* The first two are strategies' own markers, filled and hollow: n and n - 1. Number 1 is a
 * percentile's. */
static const int other_markers[MARKS] = {12, 6, 3, 2, 14, 10, 4, 8, 13};

/* Filled ones, with hollow ones of one less. */
static const int shapes[] = {7, 5, 9, 11, 13, 15};
enum { SHAPES = sizeof shapes / sizeof *shapes };

/* The first variant has the strategy's own shape. */
static int marker_of_pair(json_int_t style, json_int_t pair)
{
    const int own = style >= 0 && style < LOOKS ? markers[style] | 1 : shapes[0];
    json_int_t at = 0;
    while (shapes[at] != own)
        at++;
    return shapes[(at + pair / 2) % SHAPES] - (int)(pair % 2);
}

ls_look ls_look_of(const json_t *of)
{
    static const char *const dashes[DASHES] = {"1", "(8,4)", "(3,3)", "(8,3,2,3)"};
    const bool pair = json_is_array(of);
    const json_int_t style =
        json_integer_value(pair ? json_array_get(of, 0) : json_object_get(of, "style"));
    const json_int_t variant =
        json_integer_value(pair ? json_array_get(of, 1) : json_object_get(of, "variant"));
    ls_look out = {"#767676", other_markers[variant % MARKS], dashes[variant % DASHES]};
    if (style == LS_STYLE_IDEAL)
        return (ls_look){"#767676", 0, "(6,4)"};
    if (style >= 0)
        out.colour = style < LOOKS ? colours[style] : "#222222";
    if (variant >= LS_VARIANT_PAIRS) {
        out.marker = marker_of_pair(style, variant - LS_VARIANT_PAIRS);
        out.dash = dashes[(variant - LS_VARIANT_PAIRS) % 2];
    } else if (style >= 0 && style < LOOKS && variant % MARKS < 2)
        out.marker = markers[style] ^ (int)(variant % MARKS);
    return out;
}

bool ls_look_is_own(int style)
{
    return style >= 0 && style < LOOKS;
}

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
