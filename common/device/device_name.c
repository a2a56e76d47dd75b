/* SPDX-License-Identifier: MIT */
/*
 * Device names: the text is cut at its slashes, and each part is read by what it begins with.
 * A part is job:NAME, replica:N, task:N, [device:]KIND:N or, last, the number of a logical GPU;
 * none comes twice, and nothing but the logical number follows the device. Wild cards are left out.
 */
#include "common/device/device_name.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { LARGEST_INDEX = 1 << 20 };

/* What is left of the text; `part` is the piece before the next slash. */
typedef struct name_reader {
    const char *part;
    size_t length;
    const char *rest; /* after the slash; NULL: this part is the last */
} name_reader;

static void next_part(name_reader *reader, const char *text)
{
    const char *slash = strchr(text, '/');
    reader->part = text;
    reader->length = slash ? (size_t)(slash - text) : strlen(text);
    reader->rest = slash ? slash + 1 : NULL;
}

/* Drops `word` and a colon from the start of the part; false where it begins otherwise. */
static bool take_word(name_reader *reader, const char *word, bool any_case)
{
    size_t length = strlen(word);
    if (reader->length <= length || reader->part[length] != ':')
        return false;
    if ((any_case ? strncasecmp : strncmp)(reader->part, word, length) != 0)
        return false;
    reader->part += length + 1;
    reader->length -= length + 1;
    return true;
}

/* The whole part is digits, of a number up to LARGEST_INDEX. */
static bool whole_number(const name_reader *reader, int *out)
{
    int value = 0;
    for (size_t i = 0; i < reader->length; i++) {
        if (!isdigit((unsigned char)reader->part[i]))
            return false;
        value = value * 10 + (reader->part[i] - '0');
        if (value > LARGEST_INDEX)
            return false;
    }
    *out = value;
    return reader->length > 0;
}

/* A letter, then letters, digits and underscores, as TensorFlow has it. */
static bool job_name(const name_reader *reader, char *out, size_t size)
{
    if (reader->length == 0 || reader->length >= size || !isalpha((unsigned char)*reader->part))
        return false;
    for (size_t i = 0; i < reader->length; i++)
        if (!isalnum((unsigned char)reader->part[i]) && reader->part[i] != '_')
            return false;
    memcpy(out, reader->part, reader->length);
    out[reader->length] = 0;
    return true;
}

/* One of the parts that say in which process the device is. */
static bool read_process_part(name_reader *reader, ls_device_name *name)
{
    if (take_word(reader, "job", false))
        return !*name->job && job_name(reader, name->job, sizeof name->job);
    if (take_word(reader, "replica", false))
        return name->replica < 0 && whole_number(reader, &name->replica);
    if (take_word(reader, "task", false))
        return name->task < 0 && whole_number(reader, &name->task);
    return false;
}

/* The device, and the logical number where one follows. */
static bool read_device_part(name_reader *reader, ls_device_name *name)
{
    take_word(reader, "device", false);
    if (take_word(reader, "cpu", true))
        name->kind = LS_DEVICE_CPU;
    else if (take_word(reader, "gpu", true))
        name->kind = LS_DEVICE_GPU;
    else
        return false;
    if (!whole_number(reader, &name->index))
        return false;
    if (!reader->rest)
        return true;
    next_part(reader, reader->rest);
    return name->kind == LS_DEVICE_GPU && !reader->rest && whole_number(reader, &name->logical);
}

static bool read_name(const char *text, ls_device_name *name)
{
    name_reader reader;
    next_part(&reader, *text == '/' ? text + 1 : text);
    while (reader.rest && read_process_part(&reader, name))
        next_part(&reader, reader.rest);
    return read_device_part(&reader, name);
}

ls_status ls_device_name_parse(const char *text, ls_device_name *out)
{
    ls_device_name name = {.kind = LS_DEVICE_CPU, .logical = -1, .replica = -1, .task = -1};
    if (!read_name(text, &name))
        return ls_fail(LS_CODE_USAGE, "device", *text ? text : "\"\"",
                       "is no device name; names look like cpu:0, /gpu:1, gpu:0/1 (logical), "
                       "/device:GPU:1 or /job:worker/replica:0/task:1/device:GPU:0");
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
