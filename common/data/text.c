/* SPDX-License-Identifier: MIT */
/*
 * Text: windows of bytes from the files of a directory; the label says whether two windows are from
 * the same file. Bytes stay bytes; each stands for 256 values (one-hot). The first five sixths of
 * each file are for training, the rest for testing. Label, files and offsets of sample i come from
 * Philox4x32-10 of i only: in half of the samples both windows are from one file, drawn in
 * proportion to its bytes; in the others from two files, drawn by number. So long files are more
 * often in equal pairs, and that is what the models learn: they add up scores of single windows,
 * and no such sum detects that two files are equal. A model with one input gets both as the halves
 * of one window. Files are ordered by name; one with several names counts once.
 *
 * For a model of tokens (gpt) bytes are tokens: the files' training parts, and their testing parts,
 * one after the other, are two texts, which are cut into windows (ls_split_windows).
 */
#include "common/base/random/philox.h"
#include "common/data/data_sources.h"
#include "common/data/raw.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { TRAIN_SAMPLES = 12000, TEST_SAMPLES = 2000, TEST_PART = 6, VALUES = 256, FILES = 4096 };

#define DIRECTORY "/usr/share/common-licenses"

static const char what[] = "text";

typedef struct text_file {
    dev_t device;
    ino_t number;
    size_t size;
    uint8_t *bytes;
} text_file;

typedef struct text_set {
    const ls_data_need *need;
    const char *directory;
    size_t window; /* bytes of each of the two */
    text_file *files;
    size_t count;
} text_set;

/* ---- Files ---------------------------------------------------------------------------------- */

static bool is_known(const text_set *set, const struct stat *facts)
{
    for (size_t i = 0; i < set->count; i++)
        if (set->files[i].device == facts->st_dev && set->files[i].number == facts->st_ino)
            return true;
    return false;
}

static ls_status read_bytes(const char *path, size_t least, text_file *file)
{
    ls_raw_file raw;
    void *bytes = NULL;
    LS_TRY(ls_raw_open(what, path, &raw));
    ls_status status = LS_OK;
    if (raw.size < least)
        status = ls_fail(LS_CODE_MISSING, what, path,
                         "this file has %zu bytes, too few to train and test with windows of text; "
                         "use files of %zu bytes or more",
                         raw.size, least);
    if (!status)
        status = ls_raw_allocate(path, raw.size, &bytes);
    file->bytes = bytes;
    file->size = raw.size;
    if (!status)
        status = ls_raw_read(&raw, bytes, raw.size);
    ls_raw_close(&raw);
    return status;
}

/* Adds the file, unless it is a directory or was added under another name. */
static ls_status take_file(text_set *set, const char *name)
{
    char path[1024];
    struct stat facts;
    snprintf(path, sizeof path, "%s/%s", set->directory, name);
    if (stat(path, &facts) || !S_ISREG(facts.st_mode) || is_known(set, &facts))
        return LS_OK;
    if (set->count == FILES)
        return ls_fail(LS_CODE_MISSING, what, set->directory,
                       "this directory has more than %d files; use a directory with fewer files",
                       FILES);
    text_file *file = &set->files[set->count++];
    *file = (text_file){.device = facts.st_dev, .number = facts.st_ino};
    return read_bytes(path, set->window * TEST_PART, file);
}

static ls_status take_files(text_set *set)
{
    const char *remedy = strcmp(set->directory, DIRECTORY)
                             ? "name a directory of text files with --data text:DIR"
                             : "install the Debian package base-files, name a directory of text "
                               "files with --data text:DIR";
    struct dirent **names;
    int count = scandir(set->directory, &names, NULL, alphasort);
    if (count < 0)
        return ls_fail(LS_CODE_MISSING, what, set->directory,
                       "this directory cannot be read: %s; %s, or use --data synthetic",
                       strerror(errno), remedy);
    ls_status status = LS_OK;
    for (int i = 0; i < count; i++) {
        if (!status && names[i]->d_name[0] != '.')
            status = take_file(set, names[i]->d_name);
        free(names[i]);
    }
    free(names);
    const size_t least = set->need->targets ? 1 : 2; /* pairs are windows of two files */
    if (!status && set->count < least)
        status = ls_fail(
            LS_CODE_MISSING, what, set->directory,
            "text files in this directory: %zu, but the model needs %zu or more; %s, or use --data "
            "synthetic",
            set->count, least, remedy);
    return status;
}

/* ---- Samples -------------------------------------------------------------------------------- */

/* Copies a window from the split's part of a file; `bits` selects the offset. */
static void copy_window(const text_set *set, uint32_t file, bool test, uint32_t bits, uint8_t *out)
{
    const text_file *f = &set->files[file];
    const size_t last_part = f->size / TEST_PART, first = test ? f->size - last_part : 0;
    const size_t size = test ? last_part : f->size - last_part;
    memcpy(out, f->bytes + first + bits % (size - set->window + 1), set->window);
}

/* The file that contains byte `number` of the concatenated files, modulo their size. */
static uint32_t file_of_byte(const text_set *set, uint64_t number)
{
    uint64_t total = 0;
    uint32_t file = 0;
    for (size_t i = 0; i < set->count; i++)
        total += set->files[i].size;
    for (number %= total; number >= set->files[file].size; file++)
        number -= set->files[file].size;
    return file;
}

static ls_status read_split(const void *context, bool test, ls_split *split)
{
    const text_set *set = context;
    const size_t steps = (size_t)set->need->shape[0][0];
    const ls_random random = ls_random_stream(0, test ? "text/test" : "text/train");
    split->samples = test ? TEST_SAMPLES : TRAIN_SAMPLES;
    LS_TRY(ls_array_allocate(what, LS_ARRAY_INT32, split->samples, 1, &split->target));
    for (int i = 0; i < set->need->inputs; i++)
        LS_TRY(ls_array_allocate(what, LS_ARRAY_ONE_HOT, split->samples, steps, &split->input[i]));
    for (size_t i = 0; i < split->samples; i++) {
        uint32_t bits[4], count = (uint32_t)set->count;
        for (size_t j = 0; j < 4; j++)
            bits[j] = ls_random_bits(random, 4 * i + j);
        const uint32_t label = bits[0] >> 31;
        const uint32_t first = label ? file_of_byte(set, bits[1]) : bits[1] % count;
        const uint32_t second =
            label ? first : (first + 1 + (bits[0] & 0xFFFF) % (count - 1)) % count;
        const bool one = set->need->inputs == 1;
        uint8_t *windows[2] = {(uint8_t *)split->input[0].data + i * steps,
                               (uint8_t *)split->input[one ? 0 : 1].data + i * steps +
                                   (one ? set->window : 0)};
        ((int32_t *)split->target.data)[i] = (int32_t)label;
        copy_window(set, first, test, bits[2], windows[0]);
        copy_window(set, second, test, bits[3], windows[1]);
    }
    return LS_OK;
}

/* The split's parts of all files as one text. */
static ls_status read_windows(const void *context, bool test, ls_split *split)
{
    const text_set *set = context;
    size_t total = 0, at = 0;
    void *text = NULL;
    for (size_t i = 0; i < set->count; i++)
        total += set->files[i].size;
    LS_TRY(ls_raw_allocate(what, total, &text));
    for (size_t i = 0; i < set->count; i++) {
        const text_file *f = &set->files[i];
        const size_t last_part = f->size / TEST_PART, first = test ? f->size - last_part : 0;
        const size_t size = test ? last_part : f->size - last_part;
        memcpy((uint8_t *)text + at, f->bytes + first, size);
        at += size;
    }
    const ls_token_stream stream = {
        .source = what, .where = set->directory, .bytes = text, .count = at};
    ls_status status = ls_split_windows(&stream, set->need, split);
    free(text);
    return status;
}

static ls_status read_text(const char *argument, const ls_data_need *need, ls_data *data)
{
    if (need->targets && need->classes < VALUES)
        return ls_fail(LS_CODE_USAGE, "--data", data->name,
                       "each byte of the text is a token, but the model's vocabulary has only %d "
                       "tokens; use a model with a vocabulary of %d tokens or more",
                       need->classes, VALUES);
    if (!need->targets && (need->classes != 2 || need->rank[0] != 2 ||
                           need->shape[0][1] != VALUES || need->shape[0][0] % 2))
        return ls_fail(LS_CODE_USAGE, "--data", data->name,
                       "this data set has windows of text, which do not fit the model; use --model "
                       "twin-lstm, lstm-stack or gpt");
    text_set set = {
        .need = need,
        .directory = argument ? argument : DIRECTORY,
        .window = need->targets ? 1 : (size_t)need->shape[0][0] / (need->inputs == 1 ? 2 : 1)};
    LS_TRY(ls_allocate(what, &set.files, FILES, sizeof *set.files));
    snprintf(data->path, sizeof data->path, "%s", set.directory);
    ls_status status = take_files(&set);
    if (!status)
        status = ls_splits_read(need->targets ? read_windows : read_split, &set, data);
    for (size_t i = 0; i < set.count; i++)
        free(set.files[i].bytes);
    free(set.files);
    return status;
}

const ls_data_source ls_source_text = {
    .name = "text",
    .help = "two windows of 140 bytes: are both from one file? For gpt: what is the next byte? "
            "Debian's "
            "licence texts, or text:DIR",
    .read = read_text,
};
