/* SPDX-License-Identifier: MIT */
/*
 * Where the order of an advice changes; see advise.h. Along bandwidth and latency the first and the
 * best other strategy are estimated on scaled networks, on fewer of them if their steps are large;
 * along the devices on twice and half as many, and so on, with as many devices to a replica of
 * hybrid, unless that takes too long; along memory the ranking says it.
 */
#include "bench/case/case_facts.h"
#include "bench/cli/option_set.h"
#include "bench/predict/advise/advise_parts.h"
#include "common/base/grow.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static ls_status append(ls_advice *advice, const ls_break_even *even)
{
    LS_TRY(ls_grow("advice", &advice->breaks, advice->break_count, sizeof *even));
    advice->breaks[advice->break_count++] = *even;
    return LS_OK;
}

/* ---- Of the network -------------------------------------------------------------------------- */

enum { EACH_WAY = 12, COARSE = 3, SCALES = 2 * EACH_WAY + 1, AXES = 2, LARGE = 50000 };

/* The scaled networks: of each axis so many more and less than the platform has. */
typedef struct scales {
    size_t each_way, count; /* numbers 0 to count - 1; each_way means unchanged */
    ls_platform platforms[AXES * SCALES];
} scales;

static double scale_of(const scales *s, size_t i)
{
    static const double octaves = 6;
    return exp2(((double)i - (double)s->each_way) * octaves / (double)s->each_way);
}

/* The level that is varied: between hosts, if there are any. */
static ls_platform_level *level_of(ls_platform *p)
{
    return p->kind == LS_PLATFORM_TWO_LEVEL ? &p->net : &p->device;
}

static double *value_of(ls_platform *p, int axis)
{
    return axis ? &level_of(p)->latency_ns : &level_of(p)->bytes_per_s;
}

/* All scales of all axes, of one step that is built once. */
static ls_status play_scales(ls_advising *a, const scales *s, size_t number,
                             double ms[AXES * SCALES])
{
    ls_advised advised;
    memcpy(&advised, &a->out->ranking[number], sizeof advised);
    advised.facts = NULL;
    a->predictor->others = s->platforms;
    a->predictor->other_count = AXES * s->count;
    ls_status refused = ls_advising_predict(a, &advised, ms);
    json_decref(advised.facts);
    return refused;
}

/* The crossing nearest to the unchanged platform. */
static void find_crossing(const scales *s, const double *first, const double *second, double value,
                          ls_break_even *out)
{
    out->value = NAN;
    out->low = value * scale_of(s, 0);
    out->high = value * scale_of(s, s->count - 1);
    for (size_t d = 0; d < s->each_way && isnan(out->value); d++)
        for (int up = 0; up < 2 && isnan(out->value); up++) {
            const size_t near = up ? s->each_way + d : s->each_way - d;
            const size_t far = up ? near + 1 : near - 1;
            const double near_log = log(second[near] / first[near]);
            const double far_log = log(second[far] / first[far]);
            if (!(far_log < -1e-6) || near_log < -1e-6)
                continue;
            const double share = near_log > far_log ? near_log / (near_log - far_log) : 0;
            out->value =
                value * scale_of(s, near) * pow(scale_of(s, far) / scale_of(s, near), share);
            out->below = !up;
        }
}

static ls_status find_of_network(ls_advising *a)
{
    static const char *const names[AXES] = {"bandwidth", "latency"};
    const ls_advice *out = a->out;
    ls_platform platform = a->predictor->platform;
    scales s;
    double first[AXES * SCALES], second[AXES * SCALES];
    s.each_way =
        out->ranking->activities + out->ranking[out->second].activities > LARGE ? COARSE : EACH_WAY;
    s.count = 2 * s.each_way + 1;
    for (size_t i = 0; i < AXES * s.count; i++) {
        s.platforms[i] = platform;
        *value_of(&s.platforms[i], i >= s.count) *= scale_of(&s, i % s.count);
    }
    ls_advising_show(a, "other networks", "");
    LS_TRY(play_scales(a, &s, 0, first));
    LS_TRY(play_scales(a, &s, out->second, second));
    for (int axis = 0; axis < AXES; axis++) {
        ls_break_even found = {.axis = names[axis], .with = out->second};
        const double value = *value_of(&platform, axis);
        if (!(value > 0))
            continue;
        find_crossing(&s, first + (size_t)axis * s.count, second + (size_t)axis * s.count, value,
                      &found);
        LS_TRY(append(a->out, &found));
    }
    return LS_OK;
}

/* ---- Of devices ------------------------------------------------------------------------------ */

enum { DOUBLINGS = 2, DEVICES_MOST = 4096, ACTIVITIES_MOST = 300000 };

/* The rate of one of the ranking on other devices; 0 if it cannot run there. */
static ls_status rate_at(ls_advising *a, size_t number, int64_t devices, double *out)
{
    char text[24];
    ls_job job = {0};
    ls_advised advised;
    *out = 0;
    memcpy(&advised, &a->out->ranking[number], sizeof advised);
    advised.facts = NULL;
    snprintf(advised.config.devices, sizeof advised.config.devices, "%lld", (long long)devices);
    ls_case_job(&advised.config, &job);
    const bool fixed = ls_option_set_has(a->workplace->request->given, "hybrid-replicas");
    const int copies = job.mesh.size[ls_mesh_outer(&job.mesh)];
    if (copies && !fixed) {
        if (copies * devices % a->devices)
            return LS_OK;
        snprintf(text, sizeof text, "%lld", (long long)(copies * devices / a->devices));
        LS_TRY(ls_advising_set(&advised.config, "hybrid-replicas", text));
    }
    ls_status refused = ls_advising_predict(a, &advised, NULL);
    json_decref(advised.facts);
    if (ls_status_code(refused) == LS_CODE_INTERRUPTED)
        return refused;
    if (!refused)
        *out = advised.samples_per_s;
    ls_status_free(refused);
    return LS_OK;
}

/* Whether an estimate on so many devices would take too long: a step has at least as many more
 * activities. */
static bool is_long(const ls_advising *a, int64_t devices)
{
    const ls_advised *first = a->out->ranking, *second = first + a->out->second;
    const double more = (double)devices / (double)a->devices;
    return (double)(first->activities + second->activities) * more > ACTIVITIES_MOST ||
           ls_advising_spent(a) > LS_ADVICE_BREAKS_S;
}

/* Outward from the devices that were asked for, until the second leads. */
static ls_status find_of_devices(ls_advising *a)
{
    ls_advice *out = a->out;
    const double count = (double)a->devices;
    ls_break_even found = {
        .axis = "devices", .value = NAN, .low = count, .high = count, .with = out->second};
    const char *devices = a->workplace->request->cases->devices;
    if (strchr(devices, '+') || strchr(devices, ':'))
        return LS_OK; /* they have names */
    a->predictor->other_count = 0;
    a->predictor->others = NULL;
    ls_advising_show(a, "other numbers of devices", "");
    for (int d = 1; d <= DOUBLINGS && isnan(found.value); d++)
        for (int up = 1; up >= 0 && isnan(found.value); up--) {
            double first, second;
            const int64_t number = up ? a->devices << d : a->devices >> d;
            if (number < 1 || number > DEVICES_MOST || (!up && number << d != a->devices) ||
                is_long(a, number))
                continue;
            LS_TRY(rate_at(a, 0, number, &first));
            LS_TRY(rate_at(a, out->second, number, &second));
            if (!(first > 0 && second > 0))
                continue;
            *(up ? &found.high : &found.low) = (double)number;
            if (second <= first)
                continue;
            found.value = (double)number;
            found.below = !up;
        }
    return found.low < found.high ? append(out, &found) : LS_OK;
}

/* ---- Of memory ------------------------------------------------------------------------------- */

/* With less than the first needs, the best one that needs less leads, and so on. */
static ls_status find_of_memory(ls_advice *advice)
{
    size_t leader = 0, least = SIZE_MAX, most = 0;
    for (size_t i = 0; i < advice->count; i++) {
        least = advice->ranking[i].memory < least ? advice->ranking[i].memory : least;
        most = advice->ranking[i].memory > most ? advice->ranking[i].memory : most;
    }
    while (leader < advice->count) {
        const size_t memory = advice->ranking[leader].memory;
        while (leader < advice->count && advice->ranking[leader].memory >= memory)
            leader++;
        LS_TRY(append(advice, &(ls_break_even){.axis = "memory",
                                               .value = (double)memory,
                                               .low = (double)least,
                                               .high = (double)most,
                                               .below = true,
                                               .with = leader}));
    }
    return LS_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

ls_status ls_advising_breaks(ls_advising *a)
{
    const ls_platform_kind kind = a->predictor->platform.kind;
    if (a->out->second && kind != LS_PLATFORM_NONE) {
        if (kind != LS_PLATFORM_FILE && ls_advising_spent(a) < LS_ADVICE_BREAKS_S)
            LS_TRY(find_of_network(a));
        LS_TRY(find_of_devices(a));
    }
    return find_of_memory(a->out);
}
