/* SPDX-License-Identifier: MIT */
/*
 * Limits of the process, from the system's text files. /proc/self/cgroup has a line
 * "id:controllers:path" per hierarchy (version 2: "0::path"), and /proc/self/mountinfo tells where
 * each is mounted and which of its folders is the root of the mount. A group's folder is the mount
 * point plus the path relative to that root. Limits of all parent groups up to the mount point
 * apply too, so the smallest counts. Left out: groups above the mount point, which a container
 * cannot see.
 */
#include "common/device/machine_limits.h"

#include "common/base/digest.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATH_SIZE = 4096, FILE_MOST = 1 << 20 };

char *ls_limits_read(const char *path)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return NULL;
    char *text = malloc(FILE_MOST + 1);
    size_t length = text ? fread(text, 1, FILE_MOST, file) : 0;
    bool failed = !text || ferror(file);
    fclose(file);
    if (failed) {
        free(text);
        return NULL;
    }
    text[length] = 0;
    char *fitted = realloc(text, length + 1);
    return fitted ? fitted : text;
}

/* Parses a non-negative number followed by white space or the end of the text. */
static bool leading_number(const char *text, unsigned long long *out, const char **rest)
{
    while (isspace((unsigned char)*text))
        text++;
    if (!isdigit((unsigned char)*text))
        return false;
    char *end;
    errno = 0;
    *out = strtoull(text, &end, 10);
    *rest = end;
    return !errno && (!*end || isspace((unsigned char)*end));
}

double ls_limits_cpu_max(const char *text)
{
    unsigned long long quota, period;
    const char *rest;
    if (!leading_number(text, &quota, &rest) || !leading_number(rest, &period, &rest) || !period)
        return 0;
    return (double)quota / (double)period;
}

size_t ls_limits_memory(const char *text)
{
    unsigned long long bytes;
    const char *rest;
    if (!leading_number(text, &bytes, &rest) || bytes > SIZE_MAX)
        return SIZE_MAX;
    return (size_t)bytes;
}

/* Copies the first line, truncated to `size`; returns the text after it. */
static const char *take_line(const char *text, char *line, size_t size)
{
    const size_t length = strcspn(text, "\n");
    const size_t kept = length < size ? length : size - 1;
    memcpy(line, text, kept);
    line[kept] = 0;
    return text[length] ? text + length + 1 : text + length;
}

/* Whether a list such as "cpu,cpuacct" contains the word. */
static bool list_has(const char *list, size_t length, const char *word)
{
    const char *end = list + length;
    while (list < end) {
        const char *comma = memchr(list, ',', (size_t)(end - list));
        const size_t item = (size_t)((comma ? comma : end) - list);
        if (item == strlen(word) && strncmp(list, word, item) == 0)
            return true;
        list += item + 1;
    }
    return false;
}

/* The path of the process's group in one hierarchy. */
static bool group_path(const char *groups, const char *controller, char path[PATH_SIZE])
{
    char line[PATH_SIZE + 256];
    while (*groups) {
        groups = take_line(groups, line, sizeof line);
        const char *list = strchr(line, ':');
        const char *colon = list ? strchr(list + 1, ':') : NULL;
        if (!colon || strlen(colon + 1) >= PATH_SIZE)
            continue;
        const size_t length = (size_t)(colon - list) - 1;
        if (controller ? list_has(list + 1, length, controller) : !length) {
            strcpy(path, colon + 1);
            return true;
        }
    }
    return false;
}

/* mountinfo writes a space as \040, and so on. */
static void decode_octal(char *text)
{
    char *to = text;
    for (const char *from = text; *from; to++) {
        unsigned code;
        if (*from == '\\' && sscanf(from + 1, "%3o", &code) == 1 && strlen(from) >= 4) {
            *to = (char)code;
            from += 4;
        } else {
            *to = *from++;
        }
    }
    *to = 0;
}

/* Where a hierarchy is mounted, and which of its folders is the root there. */
static bool mount_point(const char *mounts, const char *controller, char root[PATH_SIZE],
                        char point[PATH_SIZE])
{
    char line[3 * PATH_SIZE], type[64], options[1024];
    while (*mounts) {
        mounts = take_line(mounts, line, sizeof line);
        const char *tail = strstr(line, " - ");
        if (!tail || sscanf(line, "%*s %*s %*s %4095s %4095s", root, point) != 2 ||
            sscanf(tail, " - %63s %*s %1023s", type, options) != 2)
            continue;
        if (controller
                ? strcmp(type, "cgroup") == 0 && list_has(options, strlen(options), controller)
                : strcmp(type, "cgroup2") == 0) {
            decode_octal(root);
            decode_octal(point);
            return true;
        }
    }
    return false;
}

/* The path relative to the root; "" if it lies outside. */
static const char *beyond(const char *path, const char *root)
{
    const size_t length = strcmp(root, "/") == 0 ? 0 : strlen(root);
    if (strncmp(path, root, length) != 0 || (path[length] && path[length] != '/') ||
        strstr(path, "/.."))
        return "";
    return strcmp(path + length, "/") == 0 ? "" : path + length;
}

bool ls_limits_group(const char *groups, const char *mounts, const char *controller,
                     char folder[4096], size_t *top)
{
    char path[PATH_SIZE], root[PATH_SIZE], point[PATH_SIZE];
    if (!group_path(groups, controller, path) || !mount_point(mounts, controller, root, point))
        return false;
    const char *rest = beyond(path, root);
    if (strlen(point) + strlen(rest) >= PATH_SIZE)
        return false;
    strcpy(folder, point);
    strcat(folder, rest);
    *top = strlen(point);
    return true;
}

/* Text of a file of a group; NULL if it does not exist. */
static char *read_in(const char *folder, const char *file)
{
    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return ls_limits_read(path);
}

/* Keeps the smaller limit; 0 means none. */
static void lower_quota(ls_limits *limits, double quota)
{
    if (quota > 0 && (limits->cpu_quota <= 0 || quota < limits->cpu_quota))
        limits->cpu_quota = quota;
}

static void look_memory(ls_limits *limits, const char *folder, const char *file)
{
    char *text = read_in(folder, file);
    const size_t bytes = text ? ls_limits_memory(text) : SIZE_MAX;
    if (bytes < limits->memory)
        limits->memory = bytes;
    free(text);
}

static void look_unified(void *context, const char *folder)
{
    ls_limits *limits = context;
    char *text = read_in(folder, "cpu.max");
    if (text)
        lower_quota(limits, ls_limits_cpu_max(text));
    free(text);
    look_memory(limits, folder, "memory.max");
}

static void look_cpu(void *context, const char *folder)
{
    char both[128];
    char *quota = read_in(folder, "cpu.cfs_quota_us");
    char *period = read_in(folder, "cpu.cfs_period_us");
    snprintf(both, sizeof both, "%s %s", quota ? quota : "", period ? period : "");
    lower_quota(context, ls_limits_cpu_max(both)); /* the two values that cpu.max has in one line */
    free(quota);
    free(period);
}

static void look_memory_v1(void *context, const char *folder)
{
    look_memory(context, folder, "memory.limit_in_bytes");
}

/* Calls `look` with the folder of the process's group in a hierarchy, and of all its parents up to
 * the mount point. */
static void each_group(const char *groups, const char *mounts, const char *controller,
                       void (*look)(void *context, const char *folder), void *context)
{
    char folder[PATH_SIZE];
    size_t top;
    if (!ls_limits_group(groups, mounts, controller, folder, &top))
        return;
    look(context, folder);
    while (strlen(folder) > top) {
        *strrchr(folder, '/') = 0;
        look(context, folder);
    }
}

ls_limits ls_limits_find(const char *groups, const char *mounts)
{
    ls_limits limits = {.cpu_quota = 0, .memory = SIZE_MAX};
    each_group(groups, mounts, NULL, look_unified, &limits);
    each_group(groups, mounts, "cpu", look_cpu, &limits);
    each_group(groups, mounts, "memory", look_memory_v1, &limits);
    return limits;
}

double ls_limits_cpu_stat(const char *text)
{
    static const struct {
        const char *form;
        double unit_s;
    } counters[] = {{"throttled_usec %llu", 1e-6}, {"throttled_time %llu", 1e-9}};
    char line[128];
    unsigned long long value;
    while (*text) {
        text = take_line(text, line, sizeof line);
        for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
            if (sscanf(line, counters[i].form, &value) == 1)
                return (double)value * counters[i].unit_s;
    }
    return NAN;
}

/* Adds a group's time to a sum that is NaN until there is some. */
static void look_throttled(void *context, const char *folder)
{
    double *sum_s = context;
    char *text = read_in(folder, "cpu.stat");
    const double one_s = text ? ls_limits_cpu_stat(text) : NAN;
    if (!isnan(one_s))
        *sum_s = one_s + (isnan(*sum_s) ? 0 : *sum_s);
    free(text);
}

double ls_limits_throttled(const char *groups, const char *mounts)
{
    double sum_s = NAN;
    each_group(groups, mounts, NULL, look_throttled, &sum_s);
    each_group(groups, mounts, "cpu", look_throttled, &sum_s);
    return sum_s;
}

/* Whether the line begins with this key, white space and a colon; *value is the text after it. */
static bool has_key(const char *line, const char *key, const char **value)
{
    const size_t length = strlen(key);
    const char *rest = line + length;
    if (strncmp(line, key, length) != 0)
        return false;
    rest += strspn(rest, " \t");
    *value = rest + 1 + strspn(rest + (*rest == ':'), " \t");
    return *rest == ':';
}

bool ls_limits_cpu_model(const char *cpuinfo, char *out, size_t size)
{
    char line[512];
    const char *name;
    while (*cpuinfo) {
        cpuinfo = take_line(cpuinfo, line, sizeof line);
        if (!has_key(line, "model name", &name))
            continue;
        snprintf(out, size, "%s", name);
        return *out != 0;
    }
    return false;
}

void ls_limits_cpu_identity(const char *cpuinfo, char *out, size_t size)
{
    static const char *const numbers[] = {
        "cpu family",       "model",       "stepping", "CPU implementer",
        "CPU architecture", "CPU variant", "CPU part", "CPU revision"};
    static const char *const lists[] = {"flags", "Features"};
    const char *value;
    size_t used = 0;
    *out = 0;
    for (const char *line = cpuinfo; *line && *line != '\n';
         line += line[strcspn(line, "\n")] != 0) {
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers && used < size; i++)
            if (has_key(line, numbers[i], &value))
                used += (size_t)snprintf(out + used, size - used, "%s%.*s", used ? "-" : "",
                                         (int)strcspn(value, "\n"), value);
        for (size_t i = 0; i < sizeof lists / sizeof *lists && used < size; i++)
            if (has_key(line, lists[i], &value))
                used +=
                    (size_t)snprintf(out + used, size - used, " %016llx",
                                     (unsigned long long)ls_hash64(value, strcspn(value, "\n")));
        line += strcspn(line, "\n");
    }
}
