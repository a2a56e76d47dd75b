/* SPDX-License-Identifier: MIT */
/* Looks; see draw_look.h. Colours are told apart by those who see few of them. */
#include "bench/report/draw_look.h"

enum { LOOKS = 9, MARKS = 6, DASHES = 4 };

static const char *const colours[LOOKS] = {"#4d4d4d", "#7b3294", "#d55e00", "#0072b2", "#882255",
                                           "#cc79a7", "#e69f00", "#56b4e9", "#009e73"};
static const int markers[LOOKS] = {7, 11, 5, 9, 15, 4, 6, 8, 13};
static const int other_markers[MARKS] = {2, 1, 3, 12, 14, 10};

ls_look ls_look_of(long long style, long long variant)
{
    static const char *const dashes[DASHES] = {"1", "(8,4)", "(3,3)", "(8,3,2,3)"};
    ls_look out = {"#767676", other_markers[variant % MARKS], dashes[variant % DASHES]};
    if (style == LS_STYLE_IDEAL)
        return (ls_look){"#767676", 0, "(6,4)"};
    if (style >= 0)
        out.colour = style < LOOKS ? colours[style] : "#222222";
    if (style >= 0 && style < LOOKS && variant % (MARKS + 2) < 2)
        out.marker = markers[style] ^ (int)(variant % (MARKS + 2)); /* filled, hollow: n, n - 1 */
    return out;
}
