/* SPDX-License-Identifier: MIT */
/* Noise of the machine; see noise.h. */
#include "bench/row/noise.h"

#include "common/base/clock.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#define CPU0 "/sys/devices/system/cpu/cpu0/"

/* The first number of a file; 0: none. */
static double read_number(const char *path)
{
    double value = 0;
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lf", &value) != 1)
        value = 0;
    fclose(file);
    return value;
}

/* /proc/stat, first line: user nice system idle iowait irq softirq steal, in ticks. */
static void read_ticks(ls_noise_reading *out)
{
    double t[8] = {0};
    FILE *file = fopen("/proc/stat", "re");
    if (!file)
        return;
    if (fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &t[0], &t[1], &t[2], &t[3], &t[4],
               &t[5], &t[6], &t[7]) == 8) {
        const double second = (double)sysconf(_SC_CLK_TCK);
        out->busy_s = (t[0] + t[1] + t[2] + t[5] + t[6]) / second;
        out->stolen_s = t[7] / second;
    }
    fclose(file);
}

static void read_throttling(ls_noise_reading *out)
{
    char line[128];
    unsigned long long us;
    FILE *file = fopen("/sys/fs/cgroup/cpu.stat", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "throttled_usec %llu", &us) == 1)
            out->throttled_s = (double)us * 1e-6;
    if (file)
        fclose(file);
}

void ls_noise_read(ls_noise_reading *out)
{
    struct rusage usage;
    *out = (ls_noise_reading){
        .at_s = (double)ls_clock_ns() * 1e-9,
        .load = read_number("/proc/loadavg"),
        .hot = (uint64_t)read_number(CPU0 "thermal_throttle/core_throttle_count"),
        .mhz = read_number(CPU0 "cpufreq/scaling_cur_freq") * 1e-3};
    read_ticks(out);
    read_throttling(out);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out->own_s = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                     (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

bool ls_noise_between(const ls_noise_reading *before, const ls_noise_reading *after, int used,
                      bool alone, char *words, size_t size)
{
    static const double most_stolen = 0.02, most_full = 0.95, most_held = 0.01, slower = 0.95;
    const double s = after->at_s - before->at_s;
    const double cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    const double stolen = (after->stolen_s - before->stolen_s) / (s * cores);
    const double held = (after->throttled_s - before->throttled_s) / s;
    const double others = (after->busy_s - before->busy_s - (after->own_s - before->own_s)) / s;
    *words = 0;
    if (!(s >= 0.1)) /* too short: a tick is 10 ms */
        return false;
    if (stolen > most_stolen)
        snprintf(words, size, "a hypervisor took %.0f%% of the processors' time", 100 * stolen);
    else if (alone && others > 0.1 && others + used > most_full * cores)
        snprintf(words, size, "others kept %.1f of %.0f cores busy (load before: %.1f)", others,
                 cores, before->load);
    else if (held > most_held)
        snprintf(words, size, "the control group's quota held it back %.0f%% of the time",
                 100 * held);
    else if (after->hot > before->hot)
        snprintf(words, size, "core 0 was slowed down for heat");
    else if (after->mhz > 0 && after->mhz < slower * before->mhz)
        snprintf(words, size, "core 0 went from %.0f to %.0f MHz", before->mhz, after->mhz);
    return *words != 0;
}
