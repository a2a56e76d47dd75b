/* SPDX-License-Identifier: MIT */
/*
 * Reads a checkpoint; see checkpoint.h. What the manifest says is compared with the model first:
 * the parts of each tensor, sorted, must have each element once. Then each file must have its size,
 * its digest, and just those parts; and each tensor its digest. Left out: reading only what the
 * devices of this process need; every process reads all.
 */
#include "bench/checkpoint/checkpoint.h"

#include "bench/checkpoint/checkpoint_parts.h"
#include "common/base/digest.h"
#include "common/base/grow.h"
#include "common/data/safetensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static ls_status broken(const char *path, const char *tensor, const char *why)
{
    return ls_fail(LS_CODE_MISSING, ls_checkpoint_what, path,
                   "%s%.100s%s%s; an intact checkpoint is needed, for instance an older one",
                   tensor ? "tensor '" : "", tensor ? tensor : "", tensor ? "': " : "", why);
}

/* ---- The manifest ---------------------------------------------------------------------------- */

/* A whole number from 0. */
static bool get_size(const json_t *value, size_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

static bool is_digest(const json_t *value)
{
    const char *text = json_string_value(value);
    return text && strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32;
}

static ls_status check_form(const ls_checkpoint *c)
{
    static const char *const objects[] = {"case", "written", "tensors", "files"};
    const json_t *m = c->manifest;
    size_t version, number;
    const char *format = json_string_value(json_object_get(m, "format"));
    if (!format || strcmp(format, LS_CHECKPOINT_FORMAT) != 0)
        return broken(c->path, NULL, "its format is not \"" LS_CHECKPOINT_FORMAT "\"");
    if (!get_size(json_object_get(m, "version"), &version))
        return broken(c->path, NULL, "it has no version");
    if (version != LS_CHECKPOINT_VERSION)
        return ls_fail(
            LS_CODE_MISSING, ls_checkpoint_what, c->path,
            "its version is %zu, and this program reads %d; use the program that wrote it", version,
            LS_CHECKPOINT_VERSION);
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        if (!json_is_object(json_object_get(m, objects[i])))
            return ls_fail(LS_CODE_MISSING, ls_checkpoint_what, c->path,
                           "its member '%s' is not an object; an intact checkpoint is needed",
                           objects[i]);
    if (!get_size(json_object_get(m, "step"), &number) ||
        !get_size(json_object_get(m, "position"), &number))
        return broken(c->path, NULL, "its step or its position is not a whole number from 0");
    if (!is_digest(json_object_get(m, "digest")))
        return broken(c->path, NULL, "its digest is not 32 hexadecimal digits");
    return LS_OK;
}

ls_status ls_checkpoint_open(const char *folder, ls_checkpoint *out)
{
    json_error_t error;
    *out = (ls_checkpoint){.folder = strdup(folder)};
    if (!out->folder || asprintf(&out->path, "%s/" LS_MANIFEST, folder) < 0)
        return ls_fail_memory(ls_checkpoint_what, strlen(folder));
    out->manifest = json_load_file(out->path, JSON_REJECT_DUPLICATES, &error);
    ls_status status =
        out->manifest
            ? check_form(out)
            : ls_fail(LS_CODE_MISSING, ls_checkpoint_what, out->path,
                      "does not parse: %s at line %d; an intact checkpoint is needed, for "
                      "instance an older one",
                      error.text, error.line);
    if (status)
        ls_checkpoint_close(out);
    else
        out->step = (uint64_t)json_integer_value(json_object_get(out->manifest, "step"));
    return status;
}

void ls_checkpoint_close(ls_checkpoint *c)
{
    free(c->folder);
    free(c->path);
    json_decref(c->manifest);
    *c = (ls_checkpoint){0};
}

/* ---- Its tensors ----------------------------------------------------------------------------- */

/* A part, as the manifest has it. */
typedef struct part {
    const char *tensor, *file;
    size_t first, count;
    float *values; /* where it goes; NULL: it is passed over */
    bool whole;
    const ls_variable *variable;
    bool found; /* in its file */
} part;

typedef struct reading {
    const ls_checkpoint *checkpoint;
    const ls_variables *variables;
    const char *const *names; /* [LS_ARRAYS] */
    float *const *values;     /* [LS_ARRAYS] */
    part *parts;              /* [count] by tensor, then by element */
    size_t count;
    json_t *index; /* numbers of parts by file and name */
} reading;

/* The array and the variable of a tensor's name; the array is LS_ARRAYS if it is passed over. */
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

static int compare_parts(const void *a, const void *b)
{
    const part *x = a, *y = b;
    return (x->first > y->first) - (x->first < y->first);
}

static ls_status add_parts(reading *r, const char *name, const json_t *tensor, float *values,
                           const ls_variable *v)
{
    const char *path = r->checkpoint->path;
    const json_t *parts = json_object_get(tensor, "parts"), *files;
    const size_t first = r->count;
    size_t i;
    json_t *one;
    files = json_object_get(r->checkpoint->manifest, "files");
    if (json_array_size(parts) == 0)
        return broken(path, name, "it has no parts");
    json_array_foreach(parts, i, one)
    {
        const char *file = json_string_value(json_object_get(one, "file"));
        size_t offset, count;
        if (!file || !json_object_get(files, file) ||
            !get_size(json_object_get(one, "offset"), &offset) ||
            !get_size(json_object_get(one, "count"), &count) || !count)
            return broken(path, name, "a part of it is not a file, an offset and a count");
        if (offset > v->count || count > v->count - offset)
            return broken(path, name, "a part of it ends behind its last element");
        LS_TRY(ls_grow(ls_checkpoint_what, &r->parts, r->count, sizeof *r->parts));
        r->parts[r->count++] = (part){.tensor = name,
                                      .file = file,
                                      .first = offset,
                                      .count = count,
                                      .values = values ? values + v->offset : NULL,
                                      .whole = count == v->count,
                                      .variable = v};
    }
    qsort(&r->parts[first], r->count - first, sizeof *r->parts, compare_parts);
    size_t reached = 0;
    for (i = first; i < r->count; i++) {
        const part *p = &r->parts[i];
        char at[32] = "", key[400];
        snprintf(at, sizeof at, "@%zu", p->first);
        snprintf(key, sizeof key, "%s/%s%s", p->file, name, p->whole ? "" : at);
        json_object_set_new(r->index, key, json_integer((json_int_t)i));
        if (r->parts[i].first != reached)
            return broken(path, name,
                          r->parts[i].first > reached ? "its parts leave a hole"
                                                      : "its parts overlap");
        reached += r->parts[i].count;
    }
    return reached == v->count ? LS_OK : broken(path, name, "its parts leave a hole at its end");
}

static ls_status check_tensor(reading *r, const char *name, const json_t *tensor)
{
    const char *path = r->checkpoint->path;
    const json_t *shape = json_object_get(tensor, "shape");
    const ls_variable *v;
    int array;
    if (!find_tensor(r, name, &array, &v))
        return broken(path, name, "this model and its optimizer have no such tensor");
    bool fits = json_is_array(shape) && json_array_size(shape) == (size_t)v->rank;
    for (int i = 0; i < v->rank && fits; i++)
        fits = json_integer_value(json_array_get(shape, (size_t)i)) == v->shape[i];
    if (!fits)
        return broken(path, name, "its shape is not the model's");
    if (!is_digest(json_object_get(tensor, "digest")))
        return broken(path, name, "its digest is not 32 hexadecimal digits");
    return add_parts(r, name, tensor, array < LS_ARRAYS ? r->values[array] : NULL, v);
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
                return broken(r->checkpoint->path, needed, "it is missing");
        }
    return LS_OK;
}

/* ---- Its files ------------------------------------------------------------------------------- */

/* A file has the size and the digest that the manifest says. */
static ls_status check_file(const char *path, const json_t *entry)
{
    size_t bytes;
    struct stat is;
    if (!get_size(json_object_get(entry, "bytes"), &bytes) ||
        !is_digest(json_object_get(entry, "digest")))
        return broken(path, NULL, "the manifest does not have its bytes and its digest");
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &is)) {
        const int error = errno;
        if (fd >= 0)
            close(fd);
        return broken(path, NULL, error == ENOENT ? "it is missing" : strerror(error));
    }
    const bool fits = S_ISREG(is.st_mode) && (size_t)is.st_size == bytes;
    void *read = fits && bytes ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (!fits)
        return broken(path, NULL,
                      (size_t)is.st_size < bytes ? "it is cut: shorter than written"
                                                 : "it is longer than written");
    if (read == MAP_FAILED)
        return broken(path, NULL, "it cannot be read");
    ls_digest *digest;
    char text[33] = "";
    ls_status status = ls_digest_open(&digest);
    if (!status) {
        ls_digest_add(digest, read, bytes);
        ls_digest_text(digest, text);
        ls_digest_close(digest);
    }
    munmap(read, bytes);
    LS_TRY(status);
    return strcmp(text, json_string_value(json_object_get(entry, "digest"))) == 0
               ? LS_OK
               : broken(path, NULL, "it has changed: the manifest has another digest");
}

/* The part of the manifest that a file's tensor is; NULL: none. */
static part *find_part(const reading *r, const char *file, const char *name)
{
    char key[400];
    snprintf(key, sizeof key, "%s/%s", file, name);
    const json_t *number = json_object_get(r->index, key);
    return number ? &r->parts[json_integer_value(number)] : NULL;
}

static ls_status take_tensor(const reading *r, const char *path, const char *file,
                             const ls_tensor *tensor)
{
    part *p = find_part(r, file, tensor->name);
    if (!p || p->found)
        return broken(path, tensor->name, "the manifest does not have it");
    bool fits = tensor->count == p->count && tensor->rank == (p->whole ? p->variable->rank : 1);
    for (int i = 0; p->whole && i < tensor->rank && fits; i++)
        fits = tensor->shape[i] == p->variable->shape[i];
    if (!fits)
        return broken(path, tensor->name, "the manifest has another shape");
    const size_t wrong = ls_first_not_finite(tensor->data, tensor->count);
    if (wrong < tensor->count)
        return ls_fail(LS_CODE_MISSING, ls_checkpoint_what, path,
                       "tensor '%.100s': element %zu is not finite; an intact checkpoint is "
                       "needed, for instance an older one",
                       tensor->name, wrong);
    if (p->values)
        memcpy(p->values + p->first, tensor->data, tensor->count * sizeof(float));
    p->found = true;
    return LS_OK;
}

static ls_status read_file(const reading *r, const char *name, const json_t *entry)
{
    ls_tensor_file *file = NULL;
    char *path = NULL;
    if (strchr(name, '/') || *name == '.')
        return broken(r->checkpoint->path, NULL, "a name of a file leads out of the folder");
    if (asprintf(&path, "%s/%s", r->checkpoint->folder, name) < 0)
        return ls_fail_memory(ls_checkpoint_what, strlen(name));
    ls_status status = check_file(path, entry);
    if (!status)
        status = ls_tensors_read(path, &file);
    for (size_t i = 0; !status && i < ls_tensors_count(file); i++)
        status = take_tensor(r, path, name, ls_tensors_at(file, i));
    ls_tensors_close(file);
    free(path);
    return status;
}

static ls_status read_files(const reading *r)
{
    const char *name;
    json_t *entry;
    json_object_foreach(json_object_get(r->checkpoint->manifest, "files"), name, entry)
    {
        LS_TRY(read_file(r, name, entry));
    }
    for (size_t i = 0; i < r->count; i++)
        if (!r->parts[i].found)
            return broken(r->checkpoint->path, r->parts[i].tensor,
                          "a part of it is not in its file");
    return LS_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* Each tensor that was read, and all parameters together, have the digests of the manifest. */
static ls_status check_digests(const reading *r)
{
    const json_t *m = r->checkpoint->manifest, *tensors = json_object_get(m, "tensors");
    char text[33];
    for (size_t i = 0; i < r->count; i++) {
        const part *p = &r->parts[i];
        ls_digest *digest;
        if (p->first || !p->values)
            continue;
        LS_TRY(ls_digest_open(&digest));
        ls_digest_add(digest, p->values, p->variable->count * sizeof *p->values);
        ls_digest_text(digest, text);
        ls_digest_close(digest);
        if (strcmp(text, json_string_value(
                             json_object_get(json_object_get(tensors, p->tensor), "digest"))) != 0)
            return broken(r->checkpoint->path, p->tensor,
                          "its elements do not have the digest of the manifest");
    }
    LS_TRY(ls_variables_digest(r->variables, r->values[LS_VALUES], text));
    return strcmp(text, json_string_value(json_object_get(m, "digest"))) == 0
               ? LS_OK
               : broken(r->checkpoint->path, NULL,
                        "the parameters do not have the digest of the manifest");
}

ls_status ls_checkpoint_read(const ls_checkpoint *checkpoint, const ls_variables *variables,
                             const char *const names[LS_ARRAYS], float *const values[LS_ARRAYS])
{
    reading r = {
        .checkpoint = checkpoint, .variables = variables, .names = names, .values = values};
    r.index = json_object();
    ls_status status = list_parts(&r);
    if (!status)
        status = read_files(&r);
    if (!status)
        status = check_digests(&r);
    json_decref(r.index);
    free(r.parts);
    return status;
}
