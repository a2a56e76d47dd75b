/* SPDX-License-Identifier: MIT */
/* Noise: readings around timed blocks, and what follows from them; see noise.h. */
#include "bench/train/trial/noise.h"

#include "common/base/clock.h"
#include "common/base/grow.h"
#include "common/device/machine_limits.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Masks ---------------------------------------------------------------------------------- */

static cpu_set_t *set_of(const ls_noise_mask *mask)
{
    return (cpu_set_t *)(uintptr_t)mask;
}

static int count_cores(const ls_noise_mask *mask)
{
    return CPU_COUNT_S(sizeof *mask, set_of(mask));
}

size_t ls_noise_list(const ls_noise_mask *cores, int *out, size_t most)
{
    size_t count = 0;
    for (int c = 0; c < LS_NOISE_CORES && count < most; c++)
        if (CPU_ISSET_S((size_t)c, sizeof *cores, set_of(cores)))
            out[count++] = c;
    return count;
}

/* Cores that a thread may run on; none if the system does not tell. */
static void read_mask(pid_t thread, ls_noise_mask *out)
{
    memset(out, 0, sizeof *out);
    if (sched_getaffinity(thread, sizeof *out, set_of(out)) != 0)
        memset(out, 0, sizeof *out);
}

/* ---- Texts of the system -------------------------------------------------------------------- */

void ls_noise_take_stat(const char *text, double tick_s, const ls_noise_mask *cores,
                        ls_noise_counters *out)
{
    int missing = count_cores(cores);
    for (const char *line = text; missing && strncmp(line, "cpu", 3) == 0;) { /* they come first */
        double t[8]; /* user nice system idle iowait irq softirq steal */
        int core;
        const char *const from = line + 3;
        line += strcspn(line, "\n");
        line += *line == '\n';
        if (!isdigit((unsigned char)*from) || /* all together */
            sscanf(from, "%d %lf %lf %lf %lf %lf %lf %lf %lf", &core, &t[0], &t[1], &t[2], &t[3],
                   &t[4], &t[5], &t[6], &t[7]) != 9 ||
            !CPU_ISSET_S((size_t)core, sizeof *cores, set_of(cores)))
            continue;
        out->busy_s += (t[0] + t[1] + t[2]) * tick_s;
        out->stolen_s += t[7] * tick_s;
        missing--;
    }
    if (missing)
        out->busy_s = out->stolen_s = NAN;
}

bool ls_noise_take_schedstat(const char *text, double *ran_s, double *waited_s)
{
    unsigned long long ran_ns, waited_ns, slices;
    if (sscanf(text, "%llu %llu %llu", &ran_ns, &waited_ns, &slices) != 3 || !slices)
        return false;
    *ran_s = (double)ran_ns * 1e-9;
    *waited_s = (double)waited_ns * 1e-9;
    return true;
}

/* The first number of a file; NaN if there is none. */
static double read_number(const char *path)
{
    ls_auto char *text = ls_limits_read(path);
    double value;
    return text && sscanf(text, "%lf", &value) == 1 ? value : NAN;
}

/* ---- Readings ------------------------------------------------------------------------------- */

/* Adds a thread to the counters of the devices whose cores it may use; false if not counted here.
 */
static bool read_thread(pid_t thread, ls_noise_counters *now, const ls_noise *noise)
{
    char path[64];
    double ran_s, waited_s;
    ls_noise_mask mask;
    snprintf(path, sizeof path, "/proc/self/task/%d/schedstat", (int)thread);
    ls_auto char *text = ls_limits_read(path);
    if (!text || !ls_noise_take_schedstat(text, &ran_s, &waited_s))
        return false;
    read_mask(thread, &mask);
    for (size_t d = 0; d < noise->count; d++) {
        ls_noise_mask both;
        CPU_AND_S(sizeof both, set_of(&both), set_of(&mask), set_of(&noise->devices[d].cores));
        const int may = count_cores(&both);
        now[d].own_s += may ? ran_s : 0;
        now[d].waited_s += may && may == count_cores(&mask) ? waited_s : 0;
    }
    return true;
}

/* Counters of all threads of this process; NaN if there are none. */
static void read_threads(ls_noise_counters *now, const ls_noise *noise)
{
    bool counted = false;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));)
        if (*entry->d_name != '.')
            counted |= read_thread((pid_t)strtol(entry->d_name, NULL, 10), now, noise);
    if (tasks)
        closedir(tasks);
    for (size_t d = 0; d < noise->count && !counted; d++)
        now[d].own_s = now[d].waited_s = NAN;
}

static double read_throttled(void)
{
    ls_auto char *groups = ls_limits_read("/proc/self/cgroup");
    ls_auto char *mounts = ls_limits_read("/proc/self/mountinfo");
    return groups && mounts ? ls_limits_throttled(groups, mounts) : NAN;
}

/* Counters of each device now, to be freed by the caller; NULL if there is no memory. */
static ls_noise_counters *read_counters(const ls_noise *noise)
{
    ls_noise_counters *now = calloc(noise->count + 1, sizeof *now);
    if (!now)
        return NULL;
    ls_auto char *stat = ls_limits_read("/proc/stat");
    for (size_t d = 0; d < noise->count; d++)
        ls_noise_take_stat(stat ? stat : "", 1.0 / (double)sysconf(_SC_CLK_TCK),
                           &noise->devices[d].cores, &now[d]);
    read_threads(now, noise);
    return now;
}

/* Clock and heat of the first core. */
static void read_core(const ls_noise *noise, double *mhz, double *hot)
{
    char path[128];
    int core = 0;
    ls_noise_list(&noise->devices->cores, &core, 1);
    snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cpufreq/scaling_cur_freq", core);
    *mhz = read_number(path) * 1e-3;
    snprintf(path, sizeof path,
             "/sys/devices/system/cpu/cpu%d/thermal_throttle/core_throttle_count", core);
    *hot = read_number(path);
}

/* ---- Blocks --------------------------------------------------------------------------------- */

/* Lists the cores that the devices hold. GPUs hold none, so their process's cores count. */
static void list_devices(ls_noise *noise, ls_device *const *devices, size_t count)
{
    noise->devices = calloc(count + 1, sizeof *noise->devices);
    for (size_t i = 0; noise->devices && i < count; i++) {
        const ls_device_info *info = ls_device_describe(devices[i]);
        ls_noise_device *device = &noise->devices[noise->count];
        device->count = info->core_count;
        for (int c = 0; c < info->core_count; c++)
            CPU_SET_S((size_t)info->cores[c], sizeof device->cores, set_of(&device->cores));
        noise->count += info->core_count > 0;
    }
    if (!noise->devices || noise->count)
        return;
    read_mask(0, &noise->devices->cores);
    noise->devices->count = count_cores(&noise->devices->cores);
    noise->count = noise->devices->count > 0;
}

void ls_noise_begin(ls_noise *noise, ls_device *const *devices, size_t count)
{
    if (!noise->devices) {
        list_devices(noise, devices, count);
        if (noise->count)
            read_core(noise, &noise->mhz_first, &noise->hot_first);
    }
    ls_auto ls_noise_counters *now = read_counters(noise);
    for (size_t d = 0; d < noise->count; d++)
        noise->devices[d].before = now ? now[d] : (ls_noise_counters){NAN, NAN, NAN, NAN};
    noise->throttled_before_s = read_throttled();
    noise->begun_s = (double)ls_clock_ns() * 1e-9;
}

void ls_noise_end(ls_noise *noise)
{
    noise->timed_s += (double)ls_clock_ns() * 1e-9 - noise->begun_s;
    noise->throttled_s += read_throttled() - noise->throttled_before_s;
    ls_auto ls_noise_counters *now = read_counters(noise);
    for (size_t d = 0; d < noise->count; d++) {
        const ls_noise_counters *before = &noise->devices[d].before;
        ls_noise_counters *sum = &noise->devices[d].sum;
        sum->busy_s += now ? now[d].busy_s - before->busy_s : NAN;
        sum->stolen_s += now ? now[d].stolen_s - before->stolen_s : NAN;
        sum->own_s += now ? now[d].own_s - before->own_s : NAN;
        sum->waited_s += now ? now[d].waited_s - before->waited_s : NAN;
    }
    if (noise->count)
        read_core(noise, &noise->mhz_last, &noise->hot_last);
    noise->blocks++;
}

void ls_noise_close(ls_noise *noise)
{
    free(noise->devices);
    *noise = (ls_noise){0};
}

/* ---- What follows --------------------------------------------------------------------------- */

/* The time if it is beyond what the counters cannot tell; not below 0, NaN stays. */
static double beyond(double s, double error_s)
{
    return s <= error_s ? 0 : s;
}

/* fmin ignores NaN; this keeps it. */
static double smaller(double a, double b)
{
    return a < b || isnan(a) ? a : b;
}

ls_noise_found ls_noise_judge(const ls_noise *noise, double tick_s)
{
    static const double errors = 3;
    ls_noise_found found = {NAN, NAN, NAN, 0};
    double waited_most_s = NAN;
    const double quota_s = noise->throttled_s > 0 ? noise->throttled_s : 0;
    for (size_t d = 0; d < noise->count; d++) {
        const ls_noise_counters *sum = &noise->devices[d].sum;
        const double cores = noise->devices[d].count, blocks = (double)noise->blocks;
        const double rounded_s = errors * 0.5 * tick_s * sqrt(cores * blocks);
        const double sampled_s =
            errors * 0.5 * tick_s * sqrt(cores * (noise->timed_s / tick_s + blocks));
        const double others_s = smaller(beyond(sum->busy_s - sum->own_s, sampled_s),
                                        beyond(sum->waited_s - quota_s, 0));
        const double stolen_s = beyond(sum->stolen_s, rounded_s);
        if (isnan(found.others) || others_s / noise->timed_s > found.others) {
            found.others = others_s / noise->timed_s;
            found.device = d;
        }
        found.stolen = fmax(found.stolen, stolen_s / noise->timed_s); /* ignores NaN */
        waited_most_s = fmax(waited_most_s, sum->waited_s);
    }
    found.throttled = fmin(noise->throttled_s, waited_most_s) / noise->timed_s;
    if (isnan(noise->throttled_s))
        found.throttled = NAN;
    return found;
}
