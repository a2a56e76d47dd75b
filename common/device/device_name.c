/* SPDX-License-Identifier: MIT */
/*
 * Device names: the text is split at slashes, and each part is parsed by its prefix. A part is
 * job:NAME, replica:N, task:N, [device:]KIND:N or, at the end, the number of a logical GPU; none
 * occurs twice, and only the logical number may follow the device. Wild cards are not supported.
 */
#include "common/device/device_name.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { LARGEST_INDEX = 1 << 20, LONGEST_NAME = 255 };

typedef int compare(const char *, const char *, size_t);

/* The text after `word` and a colon; NULL if the part begins otherwise. */
static const char *text_after(const char *part, const char *word, compare *differ)
{
    const size_t length = strlen(word);
    return !differ(part, word, length) && part[length] == ':' ? part + length + 1 : NULL;
}

/* Parses a number up to LARGEST_INDEX that ends the text; refuses a part that occurred before. */
static bool whole_number(const char *text, int *out)
{
    const size_t digits = strspn(text, "0123456789");
    const long value = digits && !text[digits] ? strtol(text, NULL, 10) : -1;
    if (*out >= 0 || value < 0 || value > LARGEST_INDEX)
        return false;
    *out = (int)value;
    return true;
}

/* A letter, then letters, digits and underscores, as TensorFlow has it. */
static bool job_name(const char *text, char *out, size_t size)
{
    size_t length = 0;
    while (isalnum((unsigned char)text[length]) || (length && text[length] == '_'))
        length++;
    if (*out || !isalpha((unsigned char)*text) || text[length] || length >= size)
        return false;
    strcpy(out, text);
    return true;
}

/* Parses a part that names the process of the device. */
static bool read_process_part(const char *part, ls_device_name *name)
{
    const char *job = text_after(part, "job", strncmp), *task = text_after(part, "task", strncmp);
    const char *replica = text_after(part, "replica", strncmp);
    return job       ? job_name(job, name->job, sizeof name->job)
           : replica ? whole_number(replica, &name->replica)
                     : task && whole_number(task, &name->task);
}

/* Parses `text`, which it modifies. */
static bool read_name(char *text, ls_device_name *name)
{
    char *rest = text + (*text == '/');
    const char *part = strsep(&rest, "/");
    while (rest && read_process_part(part, name))
        part = strsep(&rest, "/");
    const char *device = text_after(part, "device", strncmp);
    part = device ? device : part;
    const char *cpu = text_after(part, "cpu", strncasecmp),
               *gpu = text_after(part, "gpu", strncasecmp);
    name->kind = gpu ? LS_DEVICE_GPU : LS_DEVICE_CPU;
    return (cpu || gpu) && whole_number(cpu ? cpu : gpu, &name->index) &&
           (!rest || (gpu && whole_number(rest, &name->logical)));
}

ls_status ls_device_name_parse(const char *text, ls_device_name *out)
{
    ls_device_name name = {.index = -1, .logical = -1, .replica = -1, .task = -1};
    char copy[LONGEST_NAME + 1];
    if (strlen(text) > LONGEST_NAME || !read_name(strcpy(copy, text), &name))
        return ls_fail(LS_CODE_USAGE, "device", *text ? text : "\"\"",
                       "this is not the name of a device; names look like cpu:0, /gpu:1, gpu:0/1 "
                       "(logical), /device:GPU:1 or /job:worker/replica:0/task:1/device:GPU:0");
    *out = name;
    return LS_OK;
}

char *ls_device_name_text(const ls_device_name *name, char text[32])
{
    const char *kind = name->kind == LS_DEVICE_GPU ? "gpu" : "cpu";
    if (name->logical >= 0)
        snprintf(text, 32, "%s:%d/%d", kind, name->index, name->logical);
    else
        snprintf(text, 32, "%s:%d", kind, name->index);
    return text;
}

bool ls_device_name_overlaps(const ls_device_name *a, const ls_device_name *b)
{
    return a->kind == b->kind && a->index == b->index &&
           (a->logical == b->logical || a->logical < 0 || b->logical < 0);
}

int ls_device_name_wholes(const ls_device_name *names, int count)
{
    int wholes = 0;
    for (int i = 0; i < count; i++) {
        bool known = false;
        for (int k = 0; k < i; k++)
            known |= names[k].kind == names[i].kind && names[k].index == names[i].index;
        wholes += !known;
    }
    return wholes;
}
