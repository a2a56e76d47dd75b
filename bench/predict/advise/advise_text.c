/* SPDX-License-Identifier: MIT */
/*
 * An advice as text; see advise_text.h. Of a long ranking only the first ones, the best one of each
 * strategy, and those that other lines name; of what is refused a line for each reason of the
 * strategies that are not ranked. The rest is in --format json.
 */
#include "bench/predict/advise/advise_text.h"

#include "bench/predict/advise/advise_parts.h"
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
    if (ls_advice_find(advice, &advice->usual) == number)
        return true;
    for (size_t i = 0; i < number; i++)
        if (advice->ranking[i].config.strategy == advice->ranking[number].config.strategy)
            return number < FIRST;
    return true; /* the best one of its strategy */
}

/* Above the ranking: its columns. */
static void print_columns(bool profile, FILE *out)
{
    fprintf(out, "%4s %-17s %11s %8s %11s  %s\n", "", "strategy", "samples/s", " ±",
            profile ? "memory >=" : "memory", "compute/network/idle");
}

static void print_advised(const ls_advised *one, size_t number, FILE *out)
{
    char memory[32], width[24] = "-", name[40]; /* of a guess, or a profile, it is not known */
    const double below = 100 - one->ci95[0] / one->samples_per_s * 100;
    const double above = one->ci95[1] / one->samples_per_s * 100 - 100;
    if (!one->played)
        snprintf(width, sizeof width, "~-%.0f+%.0f%%", below, above);
    else if ((below + above) / 2 >= 0.05)
        snprintf(width, sizeof width, "%.1f%%", (below + above) / 2);
    snprintf(name, sizeof name, "%s%s", one->config.strategy->name,
             one->config.strategy->equivalent ? "" : "*");
    fprintf(out, "%4zu %-17s %11.5g %7s %11s  %3.0f/%3.0f/%3.0f%%\n", number + 1, name,
            one->samples_per_s, width, ls_format_bytes((double)one->memory, memory),
            100 * one->shares.compute, 100 * one->shares.network, 100 * one->shares.idle);
    if (*one->options) {
        fprintf(out, "%7s", "");
        print_words(out, 7, 7, one->options);
    }
}

static void print_notes(const ls_advice *advice, bool profile, FILE *out)
{
    bool unequal = false, estimated = false;
    for (size_t i = 0; i < advice->count; i++) {
        unequal = unequal || !advice->ranking[i].config.strategy->equivalent;
        estimated = estimated || !advice->ranking[i].played;
    }
    if (estimated)
        print_wrapped(out, "~: estimated, not played: the rate may be so much lower or higher");
    if (unequal)
        print_wrapped(out, "*: its grade is none: it does not compute what single computes");
    if (profile)
        print_wrapped(out,
                      "memory >=: of parameters, gradients, optimizer, and what layers hand to "
                      "each other; a profile does not say what a layer needs inside");
}

void ls_advice_print_estimates(const ls_advice *advice, bool profile, FILE *out)
{
    if (!advice->count)
        return;
    fputs("By estimates, before the first ones are played:\n", out);
    print_columns(profile, out);
    for (size_t i = 0; i < advice->count && i < FIRST; i++)
        print_advised(&advice->ranking[i], i, out);
    fputc('\n', out);
    fflush(out);
}

static void print_ranking(const ls_advice *advice, bool profile, FILE *out)
{
    size_t left_out = 0;
    if (!advice->count)
        return;
    print_columns(profile, out);
    for (size_t i = 0; i < advice->count; i++)
        if (is_named(advice, i))
            print_advised(&advice->ranking[i], i, out);
        else
            left_out++;
    print_notes(advice, profile, out);
    if (left_out)
        print_wrapped(out, "%zu more, which no line names: --format json", left_out);
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

/* Whether the next limit of memory is written with the same digits: then no limit that is read off
 * this line lets its case lead, and the next line says who does. */
static bool is_same_limit(const ls_break_even *b, const ls_break_even *next)
{
    char value[48], next_value[48];
    return strcmp(b->axis, "memory") == 0 && strcmp(next->axis, "memory") == 0 &&
           strcmp(amount_of(b, b->value, value), amount_of(next, next->value, next_value)) == 0;
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
        return; /* within the noise nobody leads */
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

/* Who leads, and by which factor: only of what was played. */
static void print_verdict(const ls_advice *advice, const ls_advice_words *words, FILE *out)
{
    const ls_advised *first = advice->ranking, *second = first + advice->second;
    const char *is = words->guess ? "would be" : "is";
    const double factor = first->samples_per_s / second->samples_per_s;
    if (advice->tied > 1)
        print_wrapped(out, "Numbers 1 to %zu are within the noise: their intervals overlap.",
                      advice->tied);
    if (advice->second && advice->second >= advice->tied) {
        if (first->played && second->played)
            print_wrapped(out, "Number 1 (%s) %s %.4g times as fast as number %zu (%s).",
                          first->config.strategy->name, is, factor, advice->second + 1,
                          second->config.strategy->name);
        else
            print_wrapped(out,
                          "Number 1 (%s) leads number %zu (%s); by how much is not known: %s was "
                          "not played.",
                          first->config.strategy->name, advice->second + 1,
                          second->config.strategy->name, first->played ? "the latter" : "number 1");
    }
    if (advice->alone_per_s > 0)
        print_wrapped(out, "One device alone: %.5g samples/s; number 1 %s %.3g times as fast.",
                      advice->alone_per_s, is, first->samples_per_s / advice->alone_per_s);
}

void ls_advice_usual(const ls_advice *advice, size_t memory_limit, char *text, size_t size)
{
    const ls_advised *usual = &advice->usual;
    char needs[32], limit[32], became[200];
    *text = 0;
    if (!usual->config.strategy)
        return;
    const size_t number = ls_advice_find(advice, usual);
    if (number < advice->count && number == 0)
        snprintf(became, sizeof became, "is number 1");
    else if (number < advice->count && advice->ranking[number].played && advice->ranking->played)
        snprintf(became, sizeof became, "is number %zu, %.3g times as fast as number 1", number + 1,
                 advice->ranking[number].samples_per_s / advice->ranking->samples_per_s);
    else if (number < advice->count)
        snprintf(became, sizeof became, "is number %zu, as estimated", number + 1);
    else if (usual->memory > memory_limit)
        snprintf(became, sizeof became, "does not fit: it needs %s of %s a device",
                 ls_format_bytes((double)usual->memory, needs),
                 ls_format_bytes((double)memory_limit, limit));
    else
        snprintf(became, sizeof became, "is as fast as another one of the ranking");
    snprintf(text, size,
             "What Megatron-LM's users try first (%sas few pipeline stages as fit, 1f1b, "
             "distributed optimizer) %s: %s %s",
             advice->devices_per_host > 1 ? "layers split within a host, "
                                          : "no layers split, since a host has one device; ",
             became, usual->config.strategy->name, usual->options);
}

static void print_head(const ls_request *request, const ls_advice *advice, const char *guess,
                       FILE *out)
{
    const ls_case *c = request->cases;
    print_wrapped(
        out, "%s, batch %lld%s, devices %s, %s: %s", c->model, (long long)advice->batch,
        c->scaling == LS_SCALING_WEAK ? " per device (of each replica: --scaling weak)" : " in all",
        c->devices, request->prediction.platform ? request->prediction.platform : "no network",
        guess ? "guessed" : "predicted");
    if (advice->interrupted)
        print_wrapped(out, "Interrupted: this is the ranking so far, of %zu combinations.",
                      advice->tried);
    else if (advice->cut)
        print_wrapped(out,
                      "Of %zu combinations: the search ended after %d s of processor time, and "
                      "others were not tried. Another run may end elsewhere; fewer strategies "
                      "(--strategy), or options that are given, leave time for the rest.",
                      advice->tried, LS_ADVICE_SEARCH_S);
    else
        print_wrapped(out, "Of %zu combinations that were searched.", advice->tried);
    fputc('\n', out);
}

void ls_advice_print(const ls_request *request, const ls_advice *advice, size_t memory_limit,
                     const ls_advice_words *words, FILE *out)
{
    char usual[TEXT];
    ls_advice_usual(advice, memory_limit, usual, sizeof usual);
    print_head(request, advice, words->guess, out);
    print_ranking(advice, words->profile, out);
    if (advice->count) {
        print_verdict(advice, words, out);
        for (size_t i = 0; i < advice->break_count; i++)
            if (i + 1 == advice->break_count ||
                !is_same_limit(&advice->breaks[i], &advice->breaks[i + 1]))
                print_break(advice, &advice->breaks[i], out);
    }
    if (*usual)
        print_wrapped(out, "%s.", usual);
    if (!advice->count) {
        print_refused(advice, out);
        return;
    }
    print_regret(&advice->here, "rows measured here", out);
    print_regret(&advice->published, "published rows", out);
    if (!advice->here.sets)
        print_wrapped(out, "Not checked on this machine: no set of its measured rows has been "
                           "predicted (predict --validate).");
    if (*words->noise)
        print_wrapped(out, "%s.", words->noise);
    if (words->guess)
        print_wrapped(out,
                      "All this is a guess: durations are FLOPs over a rate (--durations %s); "
                      "leave that out, and they are measured.",
                      words->guess);
    if (words->line) {
        /* The line that runs number 1, and what that cannot tell here. */
        fprintf(out, "To check number 1 on such devices:\n  %s\n", words->line);
        if (*words->differs)
            print_wrapped(out, "That line differs from what was asked: %s.", words->differs);
        if (words->cores < advice->devices && advice->ranking->shares.compute >= 0.5)
            print_wrapped(out,
                          "Not on this machine: its %d cores are fewer than %d devices, which "
                          "would compute in turns.",
                          words->cores, advice->devices);
    }
    print_refused(advice, out);
}
