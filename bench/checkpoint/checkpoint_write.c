/* SPDX-License-Identifier: MIT */
/*
 * Writes a checkpoint; see checkpoint.h. Each device that owns something writes one file, its
 * *shard*: a range at a time, from device memory to disk. All processes know from the plan what is
 * in every shard (impl/step/plan/state_parts.h), so none sends elements to another. Then rank 0
 * reads the files for the digests of whole tensors, and writes the manifest. Every file is flushed,
 * and so are the folders, before the manifest gets its name. Left out: writing while the next steps
 * run.
 */
#include "bench/checkpoint/checkpoint_parts.h"

#include "common/base/digest.h"
#include "common/base/escape.h"
#include "common/base/grow.h"
#include "common/base/numbers.h"
#include "common/data/safetensors.h"
#include "impl/step/run/run.h"
#include "impl/step/plan/state_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Elements that are moved from a device to a file at once. */
enum { AT_ONCE = 1 << 22 };

/* A file of a checkpoint that is being written. */
typedef struct shard {
    int member;
    char name[32];
    size_t first, end; /* of the parts */
    size_t elements;   /* of one array */
    char *header;
    size_t header_bytes;
    char *path;
    int fd;           /* of this process's, until it is flushed; else -1 */
    const char *read; /* the mapped file, on rank 0; NULL if not mapped */
    size_t read_bytes;
    char digest[33];
} shard;

/* A checkpoint that is being written. */
typedef struct writing {
    const ls_checkpoint_order *order;
    const ls_step_run *run;
    const ls_job *job;
    const ls_variables *variables;
    ls_state_parts parts;
    size_t *at;       /* [parts] first element of each in its shard's array */
    size_t *shard_of; /* [parts] */
    shard *shards;    /* [count] */
    size_t count;
    const char *names[LS_ARRAYS]; /* of the arrays, in the order of files */
    ls_values arrays[LS_ARRAYS];
    int array_count;
    float *block; /* [AT_ONCE] */
} writing;

/* "exp_avg/dense0.weight", or of a part "exp_avg/dense0.weight@1024"; `out` [LS_TENSOR_NAME]. */
static void name_tensor(const writing *w, int array, const ls_state_part *part, char *out)
{
    const ls_variable *v = &w->variables->items[part->variable];
    snprintf(out, LS_TENSOR_NAME, "%s/%s", w->names[array], v->name);
    if (part->count < v->count)
        ls_text_add(out, LS_TENSOR_NAME, "@%zu", part->first);
}

static size_t bytes_of(const writing *w, const shard *s)
{
    return s->header_bytes + (size_t)w->array_count * s->elements * sizeof(float);
}

/* ---- What is written ------------------------------------------------------------------------- */

static ls_status make_header(const writing *w, shard *s)
{
    const size_t parts = s->end - s->first, count = parts * (size_t)w->array_count;
    ls_auto ls_tensor *tensors = NULL;
    ls_auto char(*names)[LS_TENSOR_NAME] = NULL;
    LS_TRY(ls_allocate(ls_checkpoint_what, &tensors, count, sizeof *tensors));
    LS_TRY(ls_allocate(ls_checkpoint_what, &names, count, sizeof *names));
    for (size_t i = 0; i < count; i++) {
        const ls_state_part *part = &w->parts.items[s->first + i % parts];
        const ls_variable *v = &w->variables->items[part->variable];
        const bool whole = part->count == v->count;
        name_tensor(w, (int)(i / parts), part, names[i]);
        tensors[i] = (ls_tensor){.name = names[i],
                                 .rank = whole ? v->rank : 1,
                                 .shape = {(int64_t)part->count},
                                 .count = part->count};
        if (whole)
            memcpy(tensors[i].shape, v->shape, sizeof v->shape);
    }
    return ls_tensors_header(s->path, tensors, count, &s->header, &s->header_bytes);
}

static ls_status add_shard(writing *w, size_t first)
{
    const int member = w->parts.items[first].member;
    LS_TRY(ls_grow(ls_checkpoint_what, &w->shards, w->count, sizeof *w->shards));
    shard *s = &w->shards[w->count];
    *s = (shard){.member = member, .first = first, .end = first, .fd = -1};
    snprintf(s->name, sizeof s->name, LS_SHARD "%05zu.safetensors", w->count);
    for (; s->end < w->parts.count && w->parts.items[s->end].member == member; s->end++) {
        w->at[s->end] = s->elements;
        w->shard_of[s->end] = w->count;
        s->elements += w->parts.items[s->end].count;
    }
    w->count++;
    s->path = ls_checkpoint_path(w->order->folder, w->order->step, s->name);
    return s->path ? make_header(w, s) : ls_fail_memory(ls_checkpoint_what, LS_TENSOR_NAME);
}

static ls_status open_writing(writing *w)
{
    for (int a = 0; a < LS_ARRAYS; a++) {
        w->names[w->array_count] = ls_state_name(w->job, (ls_values)a);
        w->arrays[w->array_count] = (ls_values)a;
        w->array_count += w->names[w->array_count] != NULL;
    }
    LS_TRY(ls_state_parts_open(&w->run->plan, &w->parts));
    LS_TRY(ls_allocate(ls_checkpoint_what, &w->block, AT_ONCE, sizeof *w->block));
    LS_TRY(ls_allocate(ls_checkpoint_what, &w->at, w->parts.count, sizeof *w->at));
    LS_TRY(ls_allocate(ls_checkpoint_what, &w->shard_of, w->parts.count, sizeof *w->shard_of));
    for (size_t first = 0; first < w->parts.count; first = w->shards[w->count - 1].end)
        LS_TRY(add_shard(w, first));
    return LS_OK;
}

static void close_writing(writing *w)
{
    for (size_t i = 0; i < w->count; i++) {
        shard *s = &w->shards[i];
        if (s->fd >= 0)
            close(s->fd);
        if (s->read)
            munmap((void *)(uintptr_t)s->read, s->read_bytes);
        free(s->header);
        free(s->path);
    }
    free(w->shards);
    free(w->at);
    free(w->shard_of);
    free(w->block);
    ls_state_parts_close(&w->parts);
}

/* ---- Shards ---------------------------------------------------------------------------------- */

/* The failure of a write, by errno. */
static ls_status refuse(const char *path, int error)
{
    return ls_fail(
        LS_CODE_MISSING, ls_checkpoint_what, path,
        "cannot be written: %s; name a writable folder with free space, which all ranks share",
        strerror(error ? error : EIO));
}

static ls_status put(const shard *s, const void *bytes, size_t size, ls_digest *digest)
{
    const char *from = bytes;
    ls_digest_add(digest, bytes, size);
    while (size) {
        const ssize_t done = write(s->fd, from, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return refuse(s->path, errno);
        from += done;
        size -= (size_t)done;
    }
    (void)sync_file_range(s->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* the disk may begin */
    return LS_OK;
}

/* Elements of one array, from the member's memory: parts that are next to each other there at once.
 */
static ls_status put_array(const writing *w, const shard *s, int array, ls_digest *digest)
{
    ls_replica *replica = w->run->resources.members[s->member].replica;
    const ls_state_part *parts = w->parts.items;
    for (size_t p = s->first; p < s->end;) {
        ls_range range = {parts[p].at, 0};
        for (; p < s->end && parts[p].at == range.first + range.count; p++)
            range.count += parts[p].count;
        while (range.count) {
            const size_t count = range.count < AT_ONCE ? range.count : AT_ONCE;
            LS_TRY(ls_replica_read(replica, w->arrays[array], (ls_range){range.first, count},
                                   w->block));
            if (ls_first_not_finite(w->block, count) < count)
                return ls_fail(
                    LS_CODE_CHECK, NULL, NULL,
                    "diverged: %s has an element that is infinite or not a number after step %llu, "
                    "on device %d, so no checkpoint is written; use a smaller --lr, or --clip",
                    w->names[array], (unsigned long long)w->order->step, s->member);
            LS_TRY(put(s, w->block, count * sizeof *w->block, digest));
            range.first += count;
            range.count -= count;
        }
    }
    return LS_OK;
}

static ls_status write_shard(const writing *w, shard *s)
{
    ls_closing(ls_digest_close) ls_digest *digest = NULL;
    s->fd = open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd < 0)
        return refuse(s->path, errno);
    LS_TRY(ls_digest_open(&digest));
    LS_TRY(put(s, s->header, s->header_bytes, digest));
    for (int a = 0; a < w->array_count; a++)
        LS_TRY(put_array(w, s, a, digest));
    ls_digest_text(digest, s->digest);
    return LS_OK;
}

static ls_status flush_shards(writing *w)
{
    for (size_t i = 0; i < w->count; i++) {
        shard *s = &w->shards[i];
        if (s->fd < 0)
            continue;
        int error = fsync(s->fd) ? errno : 0;
        if (close(s->fd) && !error)
            error = errno;
        s->fd = -1;
        if (error)
            return refuse(s->path, error);
    }
    return LS_OK;
}

/* All ranks get the digests of all shards. */
static ls_status bring_digests(writing *w, ls_status status)
{
    const size_t n = (size_t)ls_job_processes(w->job), each = sizeof w->shards->digest;
    ls_auto char *digests = NULL, *all = NULL;
    if (!status)
        status = ls_allocate(ls_checkpoint_what, &digests, w->count, each);
    if (!status)
        status = ls_allocate(ls_checkpoint_what, &all, n * w->count, each);
    for (size_t i = 0; i < w->count && !status; i++)
        memcpy(digests + i * each, w->shards[i].digest, each);
    LS_TRY(ls_comm_bring(w->job->ranks.comm, status, digests, w->count * each, all));
    for (size_t i = 0; i < w->count; i++) {
        const size_t process = (size_t)w->run->plan.members[w->shards[i].member].process;
        memcpy(w->shards[i].digest, all + (process * w->count + i) * each, each);
    }
    return LS_OK;
}

/* ---- The manifest, by rank 0, which reads the files for the digests of whole tensors --------- */

static ls_status map_shard(const writing *w, shard *s)
{
    const int fd = open(s->path, O_RDONLY | O_CLOEXEC);
    struct stat is;
    const bool whole = fd >= 0 && fstat(fd, &is) == 0 && (size_t)is.st_size == bytes_of(w, s);
    void *read = whole ? mmap(NULL, bytes_of(w, s), PROT_READ, MAP_SHARED | MAP_POPULATE, fd, 0)
                       : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    if (read == MAP_FAILED)
        return ls_fail(LS_CODE_MISSING, ls_checkpoint_what, s->path,
                       "rank 0 finds this file of the checkpoint missing or incomplete; name a "
                       "folder that all ranks share");
    s->read = read;
    s->read_bytes = bytes_of(w, s);
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
static void add_variable(const writing *w, int array, size_t variable, const sorted *order,
                         size_t *next, ls_digest *digest, json_t *parts)
{
    for (; *next < w->parts.count && order[*next].variable == variable; ++*next) {
        const size_t p = order[*next].part;
        const ls_state_part *part = &w->parts.items[p];
        const shard *s = &w->shards[w->shard_of[p]];
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
static ls_status describe_tensors(const writing *w, const sorted *order, json_t *tensors)
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
            name_tensor(w, a, &(ls_state_part){.variable = v, .count = variable->count}, name);
            json_object_set_new(
                tensors, name,
                json_pack("{s:o, s:s, s:o}", "shape", shape, "digest", text, "parts", parts));
        }
    }
    return LS_OK;
}

/* The digest of a row: of all parameters, by their variables' names. */
static ls_status digest_parameters(const writing *w, const sorted *order, char text[33])
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

static ls_status make_manifest(writing *w, json_t **out)
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
        shard *s = &w->shards[i];
        LS_TRY(map_shard(w, s));
        json_object_set_new(
            files, s->name,
            json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes_of(w, s), "digest", s->digest));
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
static ls_status write_manifest(const writing *w, const json_t *manifest)
{
    const ls_checkpoint_order *o = w->order;
    ls_auto char *path = ls_checkpoint_path(o->folder, o->step, LS_MANIFEST);
    ls_auto char *part = ls_checkpoint_path(o->folder, o->step, LS_MANIFEST_PART);
    ls_auto char *folder = ls_checkpoint_path(o->folder, o->step, NULL);
    if (!path || !part || !folder)
        return ls_fail_memory(ls_checkpoint_what, LS_TENSOR_NAME);
    FILE *stream = fopen(part, "wxe");
    if (!stream)
        return refuse(part, errno);
    errno = 0;
    const bool written = json_dumpf(manifest, stream, JSON_INDENT(1)) == 0 && fflush(stream) == 0 &&
                         fsync(fileno(stream)) == 0;
    const int error = errno;
    if (fclose(stream) || !written)
        return refuse(path, written ? 0 : error);
    const bool named = ls_folder_flush(folder) && /* the shards' names */
                       rename(part, path) == 0 && ls_folder_flush(folder) &&
                       ls_folder_flush(o->folder);
    return named ? LS_OK : refuse(path, errno);
}

/* ---- All ------------------------------------------------------------------------------------- */

static ls_status make_folder(const ls_checkpoint_order *order)
{
    ls_auto char *path = ls_checkpoint_path(order->folder, order->step, NULL);
    if (!path)
        return ls_fail_memory(ls_checkpoint_what, LS_TENSOR_NAME);
    ls_checkpoint_remove(order->folder, order->step);
    return mkdir(path, 0777) ? refuse(path, errno) : LS_OK;
}

static ls_status write_all(writing *w, bool leads)
{
    ls_comm *comm = w->job->ranks.comm;
    json_t *manifest = NULL;
    ls_status status = open_writing(w);
    if (!status && leads)
        status = make_folder(w->order);
    LS_TRY(ls_comm_agree(comm, status));
    for (size_t i = 0; i < w->count && !status; i++) /* of this process's members */
        if (w->run->resources.members[w->shards[i].member].replica)
            status = write_shard(w, &w->shards[i]);
    if (!status && comm) /* for rank 0 to read; alone, it reads while the disk works */
        status = flush_shards(w);
    LS_TRY(bring_digests(w, status));
    if (leads)
        status = make_manifest(w, &manifest);
    if (!status)
        status = flush_shards(w);
    if (!status && leads)
        status = write_manifest(w, manifest);
    json_decref(manifest);
    return ls_comm_agree(comm, status);
}

ls_status ls_checkpoint_write(const ls_checkpoint_order *order, uint64_t *bytes)
{
    writing w = {.order = order,
                 .run = ls_step_run_of(order->run),
                 .job = order->run->job,
                 .variables = &order->run->job->model->graph->variables};
    const bool leads = ls_job_process(w.job) == 0;
    ls_status status = write_all(&w, leads);
    *bytes = w.variables->elements * (size_t)w.array_count * sizeof(float);
    close_writing(&w);
    if (status && leads)
        ls_checkpoint_remove(order->folder, order->step);
    return status;
}
