/* SPDX-License-Identifier: MIT */
/* The manifest of a checkpoint that is being written: rank 0 reads the files for the digests of
 * whole tensors; see checkpoint_write.c. */
#include "bench/checkpoint/checkpoint_parts.h"

#include "common/base/digest.h"
#include "common/base/grow.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static ls_status map_shard(const ls_checkpoint_writing *w, ls_shard *s)
{
    const int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    struct stat is;
    const bool whole = fd >= 0 && fstat(fd, &is) == 0 && (size_t)is.st_size == ls_shard_bytes(w, s);
    void *read = whole
                     ? mmap(NULL, ls_shard_bytes(w, s), PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0)
                     : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (read == MAP_FAILED)
        return ls_fail(LS_CODE_MISSING, ls_checkpoint_what, s->path,
                       "rank 0 finds this file of the checkpoint missing or incomplete; name a "
                       "folder that all ranks share");
    s->read = read;
    s->read_bytes = ls_shard_bytes(w, s);
    return LS_OK;
}

/* The parts in the order of variables, and of their elements. */
typedef struct sorted {
    size_t variable, first, part;
} sorted;

static int compare_parts(const void *a, const void *b)
{
    const sorted *x = a, *y = b;
    return x->variable != y->variable ? (x->variable > y->variable) - (x->variable < y->variable)
                                      : (x->first > y->first) - (x->first < y->first);
}

/* Adds the elements of a variable of an array to the digest, part by part from sorted[*next] on. */
static void add_variable(const ls_checkpoint_writing *w, int array, size_t variable,
                         const sorted *order, size_t *next, ls_digest *digest, json_t *parts)
{
    for (; *next < w->parts.count && order[*next].variable == variable; ++*next) {
        const size_t p = order[*next].part;
        const ls_state_part *part = &w->parts.items[p];
        const ls_shard *s = &w->shards[w->shard_of[p]];
        const size_t at = (size_t)array * s->elements + w->at[p];
        ls_digest_add(digest, s->read + s->header_bytes + at * sizeof(float),
                      part->count * sizeof(float));
        if (parts)
            json_array_append_new(parts, json_pack("{s:s, s:I, s:I}", "file", s->name, "offset",
                                                   (json_int_t)part->first, "count",
                                                   (json_int_t)part->count));
    }
}

/* {"param/NAME": {shape, digest, parts}, ..} */
static ls_status describe_tensors(const ls_checkpoint_writing *w, const sorted *order,
                                  json_t *tensors)
{
    for (int a = 0; a < w->array_count; a++) {
        size_t next = 0;
        for (size_t v = 0; v < w->variables->count; v++) {
            const ls_variable *variable = &w->variables->items[v];
            json_t *shape = json_array(), *parts = json_array();
            ls_closing(ls_digest_close) ls_digest *digest = NULL;
            char text[33], name[LS_TENSOR_NAME];
            for (int i = 0; i < variable->rank; i++)
                json_array_append_new(shape, json_integer(variable->shape[i]));
            LS_TRY(ls_digest_open(&digest));
            add_variable(w, a, v, order, &next, digest, parts);
            ls_digest_text(digest, text);
            ls_checkpoint_tensor(w, a, &(ls_state_part){.variable = v, .count = variable->count},
                                 name);
            json_object_set_new(
                tensors, name,
                json_pack("{s:o, s:s, s:o}", "shape", shape, "digest", text, "parts", parts));
        }
    }
    return LS_OK;
}

/* The digest of a row: of all parameters, by their variables' names. */
static ls_status digest_parameters(const ls_checkpoint_writing *w, const sorted *order,
                                   char text[33])
{
    ls_closing(ls_digest_close) ls_digest *digest = NULL;
    ls_auto size_t *names = NULL;
    LS_TRY(ls_variables_by_name(w->variables, &names));
    LS_TRY(ls_digest_open(&digest));
    for (size_t n = 0; n < w->variables->count; n++) {
        size_t next = 0;
        while (next < w->parts.count && order[next].variable < names[n])
            next++;
        add_variable(w, 0, names[n], order, &next, digest, NULL);
    }
    ls_digest_text(digest, text);
    return LS_OK;
}

ls_status ls_manifest_make(ls_checkpoint_writing *w, json_t **out)
{
    ls_auto sorted *order = NULL;
    char digest[33];
    json_auto_t *tensors = json_object(), *files = json_object();
    *out = NULL;
    LS_TRY(ls_allocate(ls_checkpoint_what, &order, w->parts.count, sizeof *order));
    for (size_t p = 0; p < w->parts.count; p++)
        order[p] = (sorted){w->parts.items[p].variable, w->parts.items[p].first, p};
    if (w->parts.count)
        qsort(order, w->parts.count, sizeof *order, compare_parts);
    for (size_t i = 0; i < w->count; i++) {
        ls_shard *s = &w->shards[i];
        LS_TRY(map_shard(w, s));
        json_object_set_new(files, s->name,
                            json_pack("{s:I, s:s}", "bytes", (json_int_t)ls_shard_bytes(w, s),
                                      "digest", s->digest));
    }
    LS_TRY(describe_tensors(w, order, tensors));
    LS_TRY(digest_parameters(w, order, digest));
    *out =
        json_pack("{s:s, s:i, s:I, s:I, s:s, s:O, s:O, s:O, s:O}", "format", LS_CHECKPOINT_FORMAT,
                  "version", LS_CHECKPOINT_VERSION, "step", (json_int_t)w->order->step, "position",
                  (json_int_t)w->order->position, "digest", digest, "case", w->order->agree,
                  "written", w->order->written, "tensors", tensors, "files", files);
    return *out ? LS_OK : ls_fail_memory(ls_checkpoint_what, w->parts.count);
}

/* Under another name, flushed, then by its own: only then is there a checkpoint. No line ends it,
 * so that no byte can be cut unnoticed. */
ls_status ls_manifest_write(const ls_checkpoint_writing *w, const json_t *manifest)
{
    const ls_checkpoint_order *o = w->order;
    ls_auto char *path = ls_checkpoint_path(o->folder, o->step, LS_MANIFEST);
    ls_auto char *part = ls_checkpoint_path(o->folder, o->step, LS_MANIFEST_PART);
    ls_auto char *folder = ls_checkpoint_path(o->folder, o->step, NULL);
    ls_status status =
        path && part && folder ? LS_OK : ls_fail_memory(ls_checkpoint_what, LS_TENSOR_NAME);
    FILE *stream = status ? NULL : fopen(part, "wxe");
    if (!status && !stream)
        status = ls_checkpoint_refuse(part, errno);
    if (stream) {
        errno = 0;
        const bool written = json_dumpf(manifest, stream, JSON_INDENT(1)) == 0 &&
                             fflush(stream) == 0 && fsync(fileno(stream)) == 0;
        const int error = written ? 0 : errno;
        if ((fclose(stream) || !written) && !status)
            status = ls_checkpoint_refuse(path, error);
    }
    int error = status ? 0 : ls_folder_flush(folder); /* the shards' names */
    if (!status && !error && rename(part, path))
        error = errno;
    if (!status && !error)
        error = ls_folder_flush(folder);
    if (!status && !error)
        error = ls_folder_flush(o->folder);
    if (error)
        status = ls_checkpoint_refuse(path, error);
    return status;
}
