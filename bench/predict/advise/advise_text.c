/* SPDX-License-Identifier: MIT */
/*
 * An advice as text; see advise_text.h. Of a long ranking only the first ones, the best one of each
 * strategy, and those that other lines name; of what is refused a line for each reason of the
 * strategies that are not ranked. The rest is in --format json.
 */
#include "bench/predict/advise/advise_text.h"

#include "common/base/numbers.h"

#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { COLUMNS = 79, FIRST = 10, TEXT = 1024 };

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Words, in lines of at most COLUMNS bytes; an option stays with its value. */
static void print_words(FILE *out, int begin, int indent, const char *text)
{
    int column = begin;
    for (bool first = true; *text; first = false) {
        size_t length = strcspn(text, " ");
        if (strncmp(text, "--", 2) == 0 && text[length] && strncmp(text + length + 1, "--", 2) != 0)
            length += 1 + strcspn(text + length + 1, " ");
        if (!first && column + 1 + (int)length > COLUMNS) {
            fprintf(out, "\n%*s", indent, "");
            column = indent;
        } else if (!first) {
            fputc(' ', out);
            column++;
        }
        fprintf(out, "%.*s", (int)length, text);
        column += (int)length;
        text += length;
        text += strspn(text, " ");
    }
    fputc('\n', out);
}

__attribute__((format(printf, 2, 3))) static void print_wrapped(FILE *out, const char *format, ...)
{
    char text[TEXT];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    print_words(out, 0, 2, text);
}

/* ---- The ranking ----------------------------------------------------------------------------- */

static bool is_named(const ls_advice *advice, size_t number)
{
    for (size_t i = 0; i < advice->break_count; i++)
        if (advice->breaks[i].with == number)
            return true;
    for (size_t i = 0; i < number; i++)
        if (advice->ranking[i].config.strategy == advice->ranking[number].config.strategy)
            return number < FIRST;
    return true; /* the best one of its strategy */
}

static void print_ranking(const ls_advice *advice, FILE *out)
{
    size_t left_out = 0, estimated = 0;
    if (advice->count)
        fprintf(out, "%4s %-16s %12s %8s %10s  %s\n", "", "strategy", "samples/s", " ±", "memory",
                "bound by");
    for (size_t i = 0; i < advice->count; i++) {
        char memory[32];
        const ls_advised *one = &advice->ranking[i];
        const double half = (one->ci95[1] - one->ci95[0]) / 2 / one->samples_per_s * 100;
        if (!is_named(advice, i)) {
            left_out++;
            continue;
        }
        const bool known = half >= 0.05;
        estimated += !one->played && known;
        char width[16] = "-"; /* of a guess, or a profile, it is not known */
        if (known)
            snprintf(width, sizeof width, "%s%.1f%%", one->played ? "" : "~", half);
        fprintf(out, "%4zu %-16s %12.5g %7s %10s  %s\n", i + 1, one->config.strategy->name,
                one->samples_per_s, width, ls_format_bytes((double)one->memory, memory),
                one->bound_by);
        if (*one->options) {
            fprintf(out, "%7s", "");
            print_words(out, 7, 7, one->options);
        }
    }
    if (estimated)
        print_wrapped(out, "~: estimated by formulas, and corrected by those that were played");
    if (left_out)
        print_wrapped(out, "%zu more, which no line names: --format json", left_out);
    if (advice->count)
        fputc('\n', out);
}

/* ---- Where the order changes ------------------------------------------------------------------
 */

static const char *amount_of(const ls_break_even *b, double value, char text[48])
{
    if (strcmp(b->axis, "bandwidth") == 0)
        snprintf(text, 48, "%.3g GB/s (%.3g Gb/s)", value * 1e-9, value * 8e-9);
    else if (strcmp(b->axis, "latency") == 0)
        snprintf(text, 48, "%.3g us", value * 1e-3);
    else if (strcmp(b->axis, "devices") == 0)
        snprintf(text, 48, "%.0f", value);
    else if (value < 1 << 30) /* the table's digits do not tell near ones apart */
        snprintf(text, 48, "%.4g MiB", value / (1 << 20));
    else
        snprintf(text, 48, "%.4g GiB", value / (1 << 30));
    return text;
}

static void print_break(const ls_advice *advice, const ls_break_even *b, FILE *out)
{
    char value[48], low[48], high[48];
    if (b->with >= advice->count) {
        print_wrapped(out, "memory below %s a device: none of these fits",
                      amount_of(b, b->value, value));
        return;
    }
    const char *other = advice->ranking[b->with].config.strategy->name;
    const size_t number = b->with + 1;
    const bool counted = strcmp(b->axis, "devices") == 0;
    if (!isfinite(b->value) && b->with < advice->tied)
        return; /* who cannot be told apart is before nobody */
    if (!isfinite(b->value))
        print_wrapped(out, "%s from %s to %s: number 1 stays before number %zu (%s)", b->axis,
                      amount_of(b, b->low, low), amount_of(b, b->high, high), number, other);
    else
        print_wrapped(out, "%s %s %s%s: number %zu (%s) leads", b->axis,
                      !counted   ? b->below ? "below" : "above"
                      : b->below ? "down to"
                                 : "from",
                      amount_of(b, b->value, value),
                      strcmp(b->axis, "memory") == 0 ? " a device" : "", number, other);
}

/* ---- All ------------------------------------------------------------------------------------- */

static bool is_ranked(const ls_advice *advice, const ls_strategy *strategy)
{
    for (size_t i = 0; i < advice->count; i++)
        if (advice->ranking[i].config.strategy == strategy)
            return true;
    return false;
}

/* Which refusal of a strategy says most: that by memory that needs least, else the first. */
static bool says_most(const ls_advice *advice, size_t number)
{
    const ls_advised *one = &advice->refused[number];
    for (size_t i = 0; i < advice->refused_count; i++) {
        const ls_advised *other = &advice->refused[i];
        if (i == number || other->config.strategy != one->config.strategy)
            continue;
        const bool equal = other->memory == one->memory;
        if (equal ? i < number : other->memory && (!one->memory || other->memory < one->memory))
            return false;
    }
    return true;
}

static void print_refused(const ls_advice *advice, FILE *out)
{
    size_t more = 0;
    for (size_t i = 0; i < advice->refused_count; i++) {
        const ls_advised *one = &advice->refused[i];
        if (is_ranked(advice, one->config.strategy) || !says_most(advice, i))
            more++;
        else
            print_wrapped(out, "refused: %s%s%s: %s", one->config.strategy->name,
                          *one->options ? " " : "", one->options, one->reason);
    }
    if (more)
        print_wrapped(out, "refused: %zu more, other options of these strategies: --format json",
                      more);
}

static void print_regret(const ls_regret *regret, const char *rows, FILE *out)
{
    if (regret->sets)
        print_wrapped(out,
                      "Such choices, checked on %zu sets of %s: the one predicted fastest took "
                      "%.1f%% more time than the fastest, at worst %.1f%%.",
                      regret->sets, rows, 100 * regret->mean, 100 * regret->worst);
}

static void print_verdict(const ls_advice *advice, FILE *out)
{
    const ls_advised *first = advice->ranking, *second = first + advice->second;
    if (advice->tied > 1)
        print_wrapped(out, "Numbers 1 to %zu cannot be told apart: their intervals overlap.",
                      advice->tied);
    if (advice->second && advice->second >= advice->tied)
        print_wrapped(out, "Number 1 (%s) is %.4g times as fast as number %zu (%s).",
                      first->config.strategy->name, first->samples_per_s / second->samples_per_s,
                      advice->second + 1, second->config.strategy->name);
    if (advice->alone_per_s > 0)
        print_wrapped(out, "One device alone: %.5g samples/s; number 1 is %.3g times as fast.",
                      advice->alone_per_s, first->samples_per_s / advice->alone_per_s);
}

/* The line that runs number 1, and what that cannot tell here. */
static void print_check(const ls_advice *advice, const char *line, int cores, FILE *out)
{
    fprintf(out, "To check number 1 on such devices:\n  %s\n", line);
    if (cores < advice->devices && strcmp(advice->ranking->bound_by, "compute") == 0)
        print_wrapped(out,
                      "Not on this machine: its %d cores are fewer than %d devices, which "
                      "would compute in turns.",
                      cores, advice->devices);
}

void ls_advice_print(const ls_request *request, const ls_advice *advice, bool guess,
                     const char *noise, const char *line, int cores, FILE *out)
{
    const ls_case *c = request->cases;
    print_wrapped(out, "%s, devices %s, %s: predicted", c->model, c->devices,
                  request->prediction.platform ? request->prediction.platform : "no network");
    fputc('\n', out);
    print_ranking(advice, out);
    if (!advice->count) {
        print_refused(advice, out);
        return;
    }
    print_verdict(advice, out);
    for (size_t i = 0; i < advice->break_count; i++)
        print_break(advice, &advice->breaks[i], out);
    print_regret(&advice->here, "rows measured here", out);
    print_regret(&advice->published, "published rows", out);
    if (!advice->here.sets)
        print_wrapped(out, "Not checked on this machine: no set of its measured rows has been "
                           "predicted (predict --validate).");
    if (*noise)
        print_wrapped(out, "%s.", noise);
    if (guess)
        print_wrapped(out,
                      "All this is a guess: durations are FLOPs over a rate (--durations %s); "
                      "leave that out, and they are measured.",
                      request->prediction.durations);
    if (line)
        print_check(advice, line, cores, out);
    print_refused(advice, out);
}
