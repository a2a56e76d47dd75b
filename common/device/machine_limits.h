/* SPDX-License-Identifier: MIT */
/*
 * Limits of this process, from the system's text files: control groups (versions 1 and 2), and the
 * processor's name. The functions take the text as argument, for tests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct ls_limits {
    double cpu_quota; /**< cores' worth of time; 0 if none */
    size_t memory;    /**< bytes; SIZE_MAX if none */
} ls_limits;

/** Whole text of a file of at most 1 MiB, owned by the caller; NULL if it cannot be read. */
char *ls_limits_read(const char *path);

/** Text of cpu.max ("150000 100000": 1.5 cores; "max 100000": none); 0 if there is no limit, or the
 * text has another form. */
double ls_limits_cpu_max(const char *text);

/** Text of memory.max or memory.limit_in_bytes; SIZE_MAX for no limit, or text that is not a
 * number. */
size_t ls_limits_memory(const char *text);

/** Folder of the process's group: `groups` is /proc/self/cgroup, `mounts` /proc/self/mountinfo, and
 * `controller` "cpu" or "memory" of version 1, or NULL for version 2. Writes the folder to
 * `folder`; *top is the length of its mount point, the last parent group. False: no such group
 * here. */
bool ls_limits_group(const char *groups, const char *mounts, const char *controller,
                     char folder[4096], size_t *top);

/** The smallest limits from the process's group up to the mount point, over both versions. */
ls_limits ls_limits_find(const char *groups, const char *mounts);

/** Text of a group's cpu.stat: seconds for which its quota held its processes back, summed over
 * cores ("throttled_usec" of version 2, "throttled_time" in ns of version 1). NaN if the text does
 * not say. */
double ls_limits_cpu_stat(const char *text);

/** As above, summed from the process's group up to the mount point, since each parent has a quota,
 * too, and over both versions. Time in which two groups held the processes back at once counts
 * twice. NaN if no group counts it. */
double ls_limits_throttled(const char *groups, const char *mounts);

/** "model name" of the text of /proc/cpuinfo; false if there is none. */
bool ls_limits_cpu_model(const char *cpuinfo, char *out, size_t size);

/**
 * Distinguishes processors with the same model name, by the first processor in the text of
 * /proc/cpuinfo: family, model and stepping (or Arm's equivalents), and a hash of its flags:
 * "6-143-8 1f0c9a7be2440a13". Empty if the text does not name them.
 */
void ls_limits_cpu_identity(const char *cpuinfo, char *out, size_t size);
