/* SPDX-License-Identifier: MIT */
/*
 * Writes a checkpoint; see checkpoint.h. Each device that owns something writes one file, its
 * *shard*: a range at a time, from device memory to disk. All processes know from the plan what is
 * in every shard (impl/step/plan/state_parts.h), so none sends elements to another. Then rank 0
 * reads the files for the digests of whole tensors, and writes the manifest. Every file is flushed,
 * and so are the folders, before the manifest gets its name. Left out: writing while the next steps
 * run.
 */
#include "bench/checkpoint/checkpoint.h"

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

void ls_checkpoint_tensor(const ls_checkpoint_writing *w, int array, const ls_state_part *part,
                          char *out)
{
    const ls_variable *v = &w->variables->items[part->variable];
    snprintf(out, LS_TENSOR_NAME, "%s/%s", w->names[array], v->name);
    if (part->count < v->count)
        ls_text_add(out, LS_TENSOR_NAME, "@%zu", part->first);
}

size_t ls_shard_bytes(const ls_checkpoint_writing *w, const ls_shard *s)
{
    return s->header_bytes + (size_t)w->array_count * s->elements * sizeof(float);
}

/* ---- What is written ------------------------------------------------------------------------- */

static ls_status make_header(const ls_checkpoint_writing *w, ls_shard *s)
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
        ls_checkpoint_tensor(w, (int)(i / parts), part, names[i]);
        tensors[i] = (ls_tensor){.name = names[i],
                                 .rank = whole ? v->rank : 1,
                                 .shape = {(int64_t)part->count},
                                 .count = part->count};
        if (whole)
            memcpy(tensors[i].shape, v->shape, sizeof v->shape);
    }
    return ls_tensors_header(s->path, tensors, count, &s->header, &s->header_bytes);
}

static ls_status add_shard(ls_checkpoint_writing *w, size_t first)
{
    const int member = w->parts.items[first].member;
    LS_TRY(ls_grow(ls_checkpoint_what, &w->shards, w->count, sizeof *w->shards));
    ls_shard *s = &w->shards[w->count];
    *s = (ls_shard){.member = member, .first = first, .end = first, .fd = -1};
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

static ls_status open_writing(ls_checkpoint_writing *w)
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

static void close_writing(ls_checkpoint_writing *w)
{
    for (size_t i = 0; i < w->count; i++) {
        ls_shard *s = &w->shards[i];
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

ls_status ls_checkpoint_refuse(const char *path, int error)
{
    return ls_fail(
        LS_CODE_MISSING, ls_checkpoint_what, path,
        "cannot be written: %s; name a writable folder with free space, which all ranks share",
        strerror(error ? error : EIO));
}

static ls_status put(const ls_shard *s, const void *bytes, size_t size, ls_digest *digest)
{
    const char *from = bytes;
    ls_digest_add(digest, bytes, size);
    while (size) {
        const ssize_t done = write(s->fd, from, size);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return ls_checkpoint_refuse(s->path, errno);
        from += done;
        size -= (size_t)done;
    }
    (void)sync_file_range(s->fd, 0, 0, SYNC_FILE_RANGE_WRITE); /* the disk may begin */
    return LS_OK;
}

/* Elements of one array, from the member's memory: parts that are next to each other there at once.
 */
static ls_status put_array(const ls_checkpoint_writing *w, const ls_shard *s, int array,
                           ls_digest *digest)
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

static ls_status write_shard(const ls_checkpoint_writing *w, ls_shard *s)
{
    ls_closing(ls_digest_close) ls_digest *digest = NULL;
    s->fd = open(s->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (s->fd < 0)
        return ls_checkpoint_refuse(s->path, errno);
    LS_TRY(ls_digest_open(&digest));
    LS_TRY(put(s, s->header, s->header_bytes, digest));
    for (int a = 0; a < w->array_count; a++)
        LS_TRY(put_array(w, s, a, digest));
    ls_digest_text(digest, s->digest);
    return LS_OK;
}

static ls_status flush_shards(ls_checkpoint_writing *w)
{
    for (size_t i = 0; i < w->count; i++) {
        ls_shard *s = &w->shards[i];
        if (s->fd < 0)
            continue;
        int error = fsync(s->fd) ? errno : 0;
        if (close(s->fd) && !error)
            error = errno;
        s->fd = -1;
        if (error)
            return ls_checkpoint_refuse(s->path, error);
    }
    return LS_OK;
}

/* All ranks get the digests of all shards. */
static ls_status bring_digests(ls_checkpoint_writing *w, ls_status status)
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

/* ---- All ------------------------------------------------------------------------------------- */

static ls_status make_folder(const ls_checkpoint_order *order)
{
    ls_auto char *path = ls_checkpoint_path(order->folder, order->step, NULL);
    if (!path)
        return ls_fail_memory(ls_checkpoint_what, LS_TENSOR_NAME);
    ls_checkpoint_remove(order->folder, order->step);
    return mkdir(path, 0777) ? ls_checkpoint_refuse(path, errno) : LS_OK;
}

static ls_status write_all(ls_checkpoint_writing *w, bool leads)
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
        status = ls_manifest_make(w, &manifest);
    if (!status)
        status = flush_shards(w);
    if (!status && leads)
        status = ls_manifest_write(w, manifest);
    json_decref(manifest);
    return ls_comm_agree(comm, status);
}

ls_status ls_checkpoint_write(const ls_checkpoint_order *order, uint64_t *bytes)
{
    ls_checkpoint_writing w = {.order = order,
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
