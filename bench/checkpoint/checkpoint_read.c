/* SPDX-License-Identifier: MIT */
/*
 * Reads a checkpoint's files; see checkpoint.h. What the manifest says is compared with the model
 * first: the parts of each tensor, sorted, must have each element once. Then each file must have
 * its size, its digest, and exactly the manifest's parts; and each tensor its digest. Processes of
 * one host share the work of digests. Elements are read block by block, for checks as for devices,
 * so that no process has room for more. The files stay open: they may be removed while the run goes
 * on.
 */
#include "bench/checkpoint/checkpoint_parts.h"

#include "common/base/digest.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/data/raw.h"
#include "common/data/safetensors.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* ---- Its tensors ----------------------------------------------------------------------------- */

/* A part, as the manifest has it. */
typedef struct part {
    const char *tensor, *file;
    int array; /* LS_ARRAYS if the tensor is skipped */
    size_t first, count;
    const ls_variable *variable;
    const ls_tensor *data; /* in its file */
} part;

struct ls_checkpoint_files {
    const ls_checkpoint *checkpoint;
    const ls_variables *variables;
    const char *const *names; /* [LS_ARRAYS] */
    ls_check_share share;
    part *parts; /* [count] by array, variable and element, once all are found */
    size_t count;
    json_t *index;          /* numbers of parts by file and name, until they are sorted */
    ls_tensor_file **files; /* [file_count] */
    size_t file_count;
    float *block; /* [LS_STATE_BLOCK] for checks */
};
typedef struct ls_checkpoint_files reading;

/* The array and the variable of a tensor's name; the array is LS_ARRAYS if the tensor is
 * skipped. */
static bool find_tensor(const reading *r, const char *name, int *array, const ls_variable **out)
{
    const char *slash = strchr(name, '/');
    const size_t length = slash ? (size_t)(slash - name) : 0;
    *out = NULL;
    for (size_t v = 0; slash && v < r->variables->count && !*out; v++)
        if (strcmp(r->variables->items[v].name, slash + 1) == 0)
            *out = &r->variables->items[v];
    bool alone = true; /* parameters alone */
    for (*array = 0; *array < LS_ARRAYS; ++*array)
        if (r->names[*array] && strlen(r->names[*array]) == length &&
            memcmp(r->names[*array], name, length) == 0)
            break;
    for (int a = 1; a < LS_ARRAYS; a++)
        alone &= !r->names[a];
    return *out && (*array < LS_ARRAYS || alone);
}

static bool is_whole(const part *p)
{
    return p->count == p->variable->count;
}

static int compare_numbers(size_t a, size_t b)
{
    return (a > b) - (a < b);
}

/* A tensor's parts are next to each other, by elements; arrays as the model has their elements. */
static int compare_parts(const void *a, const void *b)
{
    const part *x = a, *y = b;
    int order = compare_numbers((size_t)x->array, (size_t)y->array);
    order = order ? order : compare_numbers(x->variable->offset, y->variable->offset);
    order = order ? order : strcmp(x->tensor, y->tensor);
    return order ? order : compare_numbers(x->first, y->first);
}

static ls_status add_parts(reading *r, const char *name, const json_t *tensor, int array,
                           const ls_variable *v)
{
    const char *path = r->checkpoint->path;
    const json_t *parts = json_object_get(tensor, "parts"), *files;
    const size_t first = r->count;
    size_t i;
    json_t *one;
    files = json_object_get(r->checkpoint->manifest, "files");
    if (json_array_size(parts) == 0)
        return ls_checkpoint_broken(path, name, "the manifest lists no parts of this tensor");
    json_array_foreach(parts, i, one)
    {
        const char *file = json_string_value(json_object_get(one, "file"));
        size_t offset, count;
        if (!file || !json_object_get(files, file) ||
            !ls_manifest_size(json_object_get(one, "offset"), &offset) ||
            !ls_manifest_size(json_object_get(one, "count"), &count) || !count)
            return ls_checkpoint_broken(
                path, name, "a part of this tensor has no file, offset or count in the manifest");
        if (offset > v->count || count > v->count - offset)
            return ls_checkpoint_broken(
                path, name, "a part of this tensor ends past the tensor's last element");
        LS_TRY(ls_grow(ls_checkpoint_what, &r->parts, r->count, sizeof *r->parts));
        r->parts[r->count++] = (part){.tensor = name,
                                      .file = file,
                                      .array = array,
                                      .first = offset,
                                      .count = count,
                                      .variable = v};
    }
    qsort(&r->parts[first], r->count - first, sizeof *r->parts, compare_parts);
    size_t reached = 0;
    for (i = first; i < r->count; i++) {
        const part *p = &r->parts[i];
        char at[32] = "", key[400];
        snprintf(at, sizeof at, "@%zu", p->first);
        snprintf(key, sizeof key, "%s/%s%s", p->file, name, is_whole(p) ? "" : at);
        json_object_set_new(r->index, key, json_integer((json_int_t)i));
        if (r->parts[i].first != reached)
            return ls_checkpoint_broken(
                path, name,
                r->parts[i].first > reached
                    ? "the parts of this tensor do not cover all its elements"
                    : "the parts of this tensor overlap");
        reached += r->parts[i].count;
    }
    return reached == v->count
               ? LS_OK
               : ls_checkpoint_broken(path, name,
                                      "the parts of this tensor do not cover its last elements");
}

static ls_status check_tensor(reading *r, const char *name, const json_t *tensor)
{
    const char *path = r->checkpoint->path;
    const json_t *shape = json_object_get(tensor, "shape");
    const ls_variable *v;
    int array;
    if (!find_tensor(r, name, &array, &v))
        return ls_checkpoint_broken(path, name,
                                    "the model and its optimizer have no tensor of this name");
    bool fits = json_is_array(shape) && json_array_size(shape) == (size_t)v->rank;
    for (int i = 0; i < v->rank && fits; i++)
        fits = json_integer_value(json_array_get(shape, (size_t)i)) == v->shape[i];
    if (!fits)
        return ls_checkpoint_broken(path, name, "this tensor's shape differs from the model's");
    if (!ls_manifest_digest(json_object_get(tensor, "digest")))
        return ls_checkpoint_broken(path, name,
                                    "this tensor's digest is not 32 hexadecimal digits");
    return add_parts(r, name, tensor, array, v);
}

/* All tensors of the manifest, and whether all that this run needs are among them. */
static ls_status list_parts(reading *r)
{
    json_t *tensors = json_object_get(r->checkpoint->manifest, "tensors");
    const char *name;
    json_t *tensor;
    json_object_foreach(tensors, name, tensor)
    {
        LS_TRY(check_tensor(r, name, tensor));
    }
    for (int a = 0; a < LS_ARRAYS; a++)
        for (size_t v = 0; r->names[a] && v < r->variables->count; v++) {
            char needed[128];
            snprintf(needed, sizeof needed, "%s/%s", r->names[a], r->variables->items[v].name);
            if (!json_object_get(tensors, needed))
                return ls_checkpoint_broken(r->checkpoint->path, needed, "is missing");
        }
    return LS_OK;
}

/* ---- Its files ------------------------------------------------------------------------------- */

/* Whether check number `number` is this process's. */
static bool is_assigned(const reading *r, size_t number)
{
    return number % (size_t)r->share.shares == (size_t)r->share.share;
}

static ls_status digest_bytes(const reading *r, const ls_raw_file *raw, char text[33])
{
    const size_t most = LS_STATE_BLOCK * sizeof *r->block;
    ls_closing(ls_digest_close) ls_digest *digest = NULL;
    LS_TRY(ls_digest_open(&digest));
    for (size_t at = 0; at < raw->size; at += most) {
        const size_t count = raw->size - at < most ? raw->size - at : most;
        LS_TRY(ls_raw_read_at(raw, at, r->block, count));
        ls_digest_add(digest, r->block, count);
    }
    ls_digest_text(digest, text);
    return LS_OK;
}

/* A file has the size and the digest that the manifest says. */
static ls_status check_file(const reading *r, const char *path, const json_t *entry)
{
    size_t bytes;
    struct stat is;
    char text[33];
    if (!ls_manifest_size(json_object_get(entry, "bytes"), &bytes) ||
        !ls_manifest_digest(json_object_get(entry, "digest")))
        return ls_checkpoint_broken(path, NULL,
                                    "the manifest does not give this file's size and digest");
    if (stat(path, &is))
        return ls_checkpoint_broken(path, NULL, errno == ENOENT ? "is missing" : strerror(errno));
    if (!S_ISREG(is.st_mode) || (size_t)is.st_size != bytes)
        return ls_checkpoint_broken(path, NULL,
                                    (size_t)is.st_size < bytes
                                        ? "this file is truncated"
                                        : "this file is longer than when it was written");
    if (!is_assigned(r, r->file_count))
        return LS_OK;
    ls_raw_file raw;
    LS_TRY(ls_raw_open(ls_checkpoint_what, path, &raw));
    ls_status status = digest_bytes(r, &raw, text);
    ls_raw_close(&raw);
    LS_TRY(status);
    return strcmp(text, json_string_value(json_object_get(entry, "digest"))) == 0
               ? LS_OK
               : ls_checkpoint_broken(path, NULL,
                                      "this file was changed after it was written: its digest is "
                                      "not the manifest's");
}

static ls_status find_tensor_part(const reading *r, const char *path, const char *file,
                                  const ls_tensor *tensor)
{
    char key[400];
    snprintf(key, sizeof key, "%s/%s", file, tensor->name);
    const json_t *number = json_object_get(r->index, key);
    part *p = number ? &r->parts[json_integer_value(number)] : NULL;
    if (!p || p->data)
        return ls_checkpoint_broken(path, tensor->name, "the manifest does not list this tensor");
    bool fits = tensor->count == p->count && tensor->rank == (is_whole(p) ? p->variable->rank : 1);
    for (int i = 0; is_whole(p) && i < tensor->rank && fits; i++)
        fits = tensor->shape[i] == p->variable->shape[i];
    if (!fits)
        return ls_checkpoint_broken(path, tensor->name,
                                    "this tensor's shape differs from the one in the manifest");
    p->data = tensor;
    return LS_OK;
}

static ls_status open_file(reading *r, const char *name, const json_t *entry)
{
    ls_auto char *path = NULL;
    if (strchr(name, '/') || *name == '.')
        return ls_checkpoint_broken(r->checkpoint->path, NULL,
                                    "the manifest names a file outside of the checkpoint's folder");
    if (asprintf(&path, "%s/%s", r->checkpoint->folder, name) < 0)
        return ls_fail_memory(ls_checkpoint_what, strlen(name));
    ls_status status = check_file(r, path, entry);
    ls_tensor_file **file = &r->files[r->file_count];
    if (!status)
        status = ls_tensors_open(path, NULL, file);
    r->file_count += !status;
    for (size_t i = 0; !status && i < ls_tensors_count(*file); i++)
        status = find_tensor_part(r, path, name, ls_tensors_at(*file, i));
    return status;
}

/* Raises the limit of open files so that `count` more can be opened. */
static void allow_files(size_t count)
{
    enum { OTHERS = 256 };
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= count + OTHERS)
        return;
    limit.rlim_cur = count + OTHERS < limit.rlim_max ? count + OTHERS : limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* else opening fails, and says so */
}

static ls_status open_files(reading *r)
{
    json_t *files = json_object_get(r->checkpoint->manifest, "files");
    const char *name;
    json_t *entry;
    LS_TRY(ls_allocate(ls_checkpoint_what, &r->files, json_object_size(files), sizeof *r->files));
    allow_files(json_object_size(files));
    json_object_foreach(files, name, entry)
    {
        LS_TRY(open_file(r, name, entry));
    }
    for (size_t i = 0; i < r->count; i++)
        if (!r->parts[i].data)
            return ls_checkpoint_broken(
                r->checkpoint->path, r->parts[i].tensor,
                "a part of this tensor is not in the file that the manifest names");
    if (r->count)
        qsort(r->parts, r->count, sizeof *r->parts, compare_parts);
    return LS_OK;
}

/* ---- Its elements ---------------------------------------------------------------------------- */

static ls_status digest_part(const reading *r, const part *p, ls_digest *digest)
{
    for (ls_range block = {0}; ls_state_next(p->count, &block);) {
        LS_TRY(ls_tensor_part(p->data, block, r->block));
        ls_digest_add(digest, r->block, block.count * sizeof *r->block);
        const size_t wrong = ls_first_not_finite(r->block, block.count);
        if (wrong < block.count)
            return ls_fail(LS_CODE_MISSING, ls_checkpoint_what, p->data->file,
                           "tensor '%.100s': element %zu is infinite or not a number; use an older "
                           "checkpoint, or one of another run",
                           p->data->name, block.first + wrong);
    }
    return LS_OK;
}

/* Adds the parts of a tensor from number `first` on, unless `digest` is NULL; *end: behind them. */
static ls_status digest_tensor(const reading *r, size_t first, ls_digest *digest, size_t *end)
{
    const char *name = first < r->count ? r->parts[first].tensor : "";
    for (*end = first; *end < r->count && strcmp(r->parts[*end].tensor, name) == 0; ++*end)
        LS_TRY(digest ? digest_part(r, &r->parts[*end], digest) : LS_OK);
    return LS_OK;
}

/* The first part that ends behind an element of the model in an array; r->count: none. */
static size_t part_behind(const reading *r, int array, size_t element)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const part *p = &r->parts[middle];
        if (p->array < array ||
            (p->array == array && p->variable->offset + p->first + p->count <= element))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static ls_status check_text(const reading *r, const ls_digest *digest, const json_t *wanted,
                            const char *tensor, const char *why)
{
    char text[33];
    ls_digest_text(digest, text);
    return strcmp(text, json_string_value(json_object_get(wanted, "digest"))) == 0
               ? LS_OK
               : ls_checkpoint_broken(r->checkpoint->path, tensor, why);
}

static ls_status check_tensors(const reading *r)
{
    const json_t *tensors = json_object_get(r->checkpoint->manifest, "tensors");
    size_t number = 0;
    for (size_t i = 0, end; i < r->count; i = end) {
        const char *name = r->parts[i].tensor;
        const bool own = is_assigned(r, number++);
        ls_closing(ls_digest_close) ls_digest *digest = NULL;
        LS_TRY(own ? ls_digest_open(&digest) : LS_OK);
        LS_TRY(digest_tensor(r, i, digest, &end));
        if (!own)
            continue;
        LS_TRY(check_text(
            r, digest, json_object_get(tensors, name), name,
            "the digest of this tensor's elements differs from the one in the manifest"));
    }
    return LS_OK;
}

/* The digest of a row: of all parameters, by their variables' names. */
static ls_status check_parameters(const reading *r)
{
    ls_closing(ls_digest_close) ls_digest *digest = NULL;
    ls_auto size_t *names = NULL;
    size_t end;
    LS_TRY(ls_variables_by_name(r->variables, &names));
    LS_TRY(ls_digest_open(&digest));
    for (size_t n = 0; n < r->variables->count; n++) {
        const ls_variable *v = &r->variables->items[names[n]];
        if (v->count)
            LS_TRY(digest_tensor(r, part_behind(r, LS_VALUES, v->offset), digest, &end));
    }
    return check_text(r, digest, r->checkpoint->manifest, NULL,
                      "the digest of the parameters differs from the one in the manifest");
}

ls_status ls_checkpoint_read(const ls_checkpoint_files *r, ls_values array, ls_range range,
                             float *out)
{
    const size_t end = range.first + range.count;
    for (size_t i = part_behind(r, (int)array, range.first), at = range.first; at < end; i++) {
        const part *p = &r->parts[i];
        const size_t begin = p->variable->offset + p->first;
        const ls_range both = ls_range_common(range, (ls_range){begin, p->count});
        LS_TRY(ls_tensor_part(p->data, (ls_range){both.first - begin, both.count},
                              out + (both.first - range.first)));
        at = both.first + both.count;
    }
    return LS_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

ls_status ls_checkpoint_files_open(const ls_checkpoint *checkpoint, const ls_variables *variables,
                                   const char *const names[LS_ARRAYS], ls_check_share share,
                                   ls_checkpoint_files **out)
{
    reading *r;
    ls_status status = ls_allocate(ls_checkpoint_what, &r, 1, sizeof *r);
    if (status)
        return ls_comm_agree(share.comm, status);
    *r =
        (reading){.checkpoint = checkpoint, .variables = variables, .names = names, .share = share};
    r->index = json_object();
    status = ls_allocate(ls_checkpoint_what, &r->block, LS_STATE_BLOCK, sizeof *r->block);
    if (!status)
        status = list_parts(r);
    if (!status)
        status = open_files(r);
    status = ls_comm_agree(share.comm, status); /* a changed file says more than its tensors */
    if (!status)
        status = check_tensors(r);
    if (!status && is_assigned(r, (size_t)share.shares - 1))
        status = check_parameters(r);
    status = ls_comm_agree(share.comm, status);
    json_decref(r->index);
    free(r->block);
    r->index = NULL;
    r->block = NULL;
    r->names = NULL;
    if (status)
        ls_checkpoint_files_close(r);
    else
        *out = r;
    return status;
}

void ls_checkpoint_files_close(ls_checkpoint_files *r)
{
    if (!r)
        return;
    for (size_t i = 0; i < r->file_count; i++)
        ls_tensors_close(r->files[i]);
    free(r->files);
    free(r->parts);
    free(r);
}
