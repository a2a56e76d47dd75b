/* SPDX-License-Identifier: MIT */
/*
 * Set aside; see set_aside.h. libgomp reads its variables in its constructor, and binds the first
 * thread there, so main is too late. What stands in .preinit_array runs before every library's
 * constructor: it hides each variable by a bit of its name's first letter, in place, and main takes
 * that bit away again. Nothing is allocated or kept. A C library that does not run .preinit_array
 * hides nothing; then a machine or a device refuses what would be wrong (affinity.h, team.h).
 */
#include "bench/row/set_aside.h"

#include <stddef.h>
#include <unistd.h>

enum { HIDDEN = 0x80 }; /* no shown name has this bit in a letter */

/* Whether the variable is OpenMP's, leaving out the bits of `mask` in its first letter. Calls no
 * function: sanitizers may not be ready. */
static bool is_openmp(const char *text, unsigned char mask)
{
    static const char *const prefixes[] = {"OMP_", "GOMP_", "KMP_"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        size_t n = 1;
        if (((unsigned char)*text ^ mask) != (unsigned char)*prefixes[i])
            continue;
        while (prefixes[i][n] && text[n] == prefixes[i][n])
            n++;
        if (!prefixes[i][n])
            return true;
    }
    return false;
}

static void flip(char *first)
{
    *first = (char)((unsigned char)*first ^ HIDDEN);
}

static void hide(int argc, char **argv, char **variables)
{
    (void)argc;
    (void)argv;
    for (; *variables; variables++)
        if (is_openmp(*variables, 0))
            flip(*variables);
}

__attribute__((section(".preinit_array"), used)) static void (*const hide_first)(int, char **,
                                                                                 char **) = hide;

void ls_set_aside_show(void)
{
    for (char **variable = environ; *variable; variable++)
        if (is_openmp(*variable, HIDDEN))
            flip(*variable);
}

bool ls_is_set_aside(const char *variable)
{
    return is_openmp(variable, 0);
}
