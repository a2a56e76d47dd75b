/* SPDX-License-Identifier: MIT */
/* Folders of checkpoints, and the manifest of one; see checkpoint.h. Only files and folders with a
 * checkpoint's own names are ever removed. */
#include "bench/checkpoint/checkpoint_parts.h"
#include "common/base/grow.h"
#include "common/base/whole_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char ls_checkpoint_what[] = "checkpoint";

char *ls_checkpoint_path(const char *folder, uint64_t step, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/step-%08llu%s%s", folder, (unsigned long long)step, name ? "/" : "",
                 name ? name : "") < 0)
        return NULL;
    return path;
}

/* Whether a name belongs to a step's folder; sets the step. */
static bool is_step(const char *name, uint64_t *step)
{
    char again[40];
    *step = strtoull(name + strcspn(name, "0123456789"), NULL, 10);
    snprintf(again, sizeof again, "step-%08llu", (unsigned long long)*step);
    return strcmp(again, name) == 0;
}

static bool is_complete(const char *folder, uint64_t step)
{
    ls_auto char *path = ls_checkpoint_path(folder, step, LS_MANIFEST);
    struct stat is;
    return path && stat(path, &is) == 0;
}

/* The last step before *at that has a checkpoint, or only a part of one; false if there is none. */
static bool last_step(const char *folder, bool complete, uint64_t *at)
{
    DIR *directory = opendir(folder);
    bool any = false;
    uint64_t step, last = 0;
    for (struct dirent *entry; directory && (entry = readdir(directory));)
        if (is_step(entry->d_name, &step) && step < *at && step >= last &&
            is_complete(folder, step) == complete) {
            last = step;
            any = true;
        }
    if (directory)
        closedir(directory);
    *at = last;
    return any;
}

ls_status ls_check_share_find(const char *path, int host, ls_comm *comm, ls_status own_status,
                              ls_check_share *out)
{
    const int count = comm ? comm->size : 1, me = comm ? comm->rank : 0;
    struct stat is = {0};
    uint64_t *all, own[3] = {(uint64_t)host};
    if (stat(path, &is) == 0) {
        own[1] = (uint64_t)is.st_dev;
        own[2] = (uint64_t)is.st_ino;
    }
    *out = (ls_check_share){.first = me, .comm = comm};
    own_status = ls_status_first(own_status,
                                 ls_allocate(ls_checkpoint_what, &all, (size_t)count, sizeof own));
    own_status = ls_comm_bring(comm, own_status, own, sizeof own, all);
    for (int r = 0; r < count && !own_status; r++) {
        if (memcmp(&all[3 * r], own, sizeof own) != 0)
            continue;
        out->first = r < out->first ? r : out->first;
        out->share += r < me;
        out->shares++;
    }
    free(all);
    return own_status;
}

ls_status ls_checkpoint_find(const char *path, char **out)
{
    struct stat is;
    ls_auto char *own = NULL;
    uint64_t step = UINT64_MAX;
    *out = NULL;
    if (asprintf(&own, "%s/%s", path, LS_MANIFEST) < 0)
        return ls_fail_memory(ls_checkpoint_what, strlen(path));
    const bool itself = stat(own, &is) == 0;
    if (!itself && !last_step(path, true, &step))
        return LS_OK;
    *out = itself ? strdup(path) : ls_checkpoint_path(path, step, NULL);
    return *out ? LS_OK : ls_fail_memory(ls_checkpoint_what, strlen(path));
}

ls_status ls_checkpoints_make(const char *folder)
{
    struct stat is;
    if (stat(folder, &is) == 0 && !S_ISDIR(is.st_mode))
        return ls_fail(LS_CODE_MISSING, "option --checkpoint", folder,
                       "this is not a folder; name a folder (a new one is created)");
    return ls_folder_make("option --checkpoint", folder);
}

void ls_checkpoint_remove(const char *folder, uint64_t step)
{
    ls_auto char *whole = ls_checkpoint_path(folder, step, NULL);
    ls_auto char *manifest = ls_checkpoint_path(folder, step, LS_MANIFEST);
    if (manifest)
        unlink(manifest); /* from here on it is not a checkpoint */
    DIR *directory = whole ? opendir(whole) : NULL;
    for (struct dirent *entry; directory && (entry = readdir(directory));) {
        const char *name = entry->d_name;
        if (strncmp(name, LS_SHARD, sizeof LS_SHARD - 1) == 0 ||
            strcmp(name, LS_MANIFEST_PART) == 0)
            unlinkat(dirfd(directory), name, 0);
    }
    if (directory)
        closedir(directory);
    if (whole)
        rmdir(whole); /* stays if it has something else */
}

void ls_checkpoints_clean(const char *folder)
{
    for (uint64_t step = UINT64_MAX; last_step(folder, false, &step);)
        ls_checkpoint_remove(folder, step);
}

void ls_checkpoints_keep(const char *folder, uint64_t step, int64_t keep)
{
    while (last_step(folder, true, &step))
        if (--keep < 1)
            ls_checkpoint_remove(folder, step);
}

bool ls_folder_flush(const char *path)
{
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool done =
        fd >= 0 && (fsync(fd) == 0 || errno == EINVAL); /* some need not, and cannot */
    const int error = errno;
    if (fd >= 0)
        close(fd);
    errno = error;
    return done;
}

/* ---- The manifest of one --------------------------------------------------------------------- */

ls_status ls_checkpoint_broken(const char *path, const char *tensor, const char *why)
{
    return ls_fail(LS_CODE_MISSING, ls_checkpoint_what, path,
                   "%s%.100s%s%s; use an intact checkpoint of this model and optimizer",
                   tensor ? "tensor '" : "", tensor ? tensor : "", tensor ? "': " : "", why);
}

bool ls_manifest_size(const json_t *value, size_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0)
        return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

bool ls_manifest_digest(const json_t *value)
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
        return ls_checkpoint_broken(c->path, NULL,
                                    "the manifest's format is not \"" LS_CHECKPOINT_FORMAT "\"");
    if (!ls_manifest_size(json_object_get(m, "version"), &version))
        return ls_checkpoint_broken(c->path, NULL, "the manifest has no version");
    if (version != LS_CHECKPOINT_VERSION)
        return ls_fail(LS_CODE_MISSING, ls_checkpoint_what, c->path,
                       "the checkpoint has version %zu, but this program reads version %d; use the "
                       "version of lockstep that wrote it",
                       version, LS_CHECKPOINT_VERSION);
    for (size_t i = 0; i < sizeof objects / sizeof *objects; i++)
        if (!json_is_object(json_object_get(m, objects[i])))
            return ls_fail(
                LS_CODE_MISSING, ls_checkpoint_what, c->path,
                "the manifest's member '%s' is not a JSON object; use an intact checkpoint",
                objects[i]);
    if (!ls_manifest_size(json_object_get(m, "step"), &number) ||
        !ls_manifest_size(json_object_get(m, "position"), &number))
        return ls_checkpoint_broken(
            c->path, NULL, "the manifest's step or position is not a whole number, 0 or more");
    if (!ls_manifest_digest(json_object_get(m, "digest")))
        return ls_checkpoint_broken(c->path, NULL,
                                    "the digest in the manifest is not 32 hexadecimal digits");
    return LS_OK;
}

ls_status ls_checkpoint_open(const char *folder, ls_checkpoint *out)
{
    json_error_t error;
    *out = (ls_checkpoint){.folder = strdup(folder)};
    if (!out->folder || asprintf(&out->path, "%s/" LS_MANIFEST, folder) < 0)
        return ls_fail_memory(ls_checkpoint_what, strlen(folder));
    out->manifest = json_load_file(out->path, JSON_REJECT_DUPLICATES, &error);
    ls_status status;
    if (out->manifest)
        status = check_form(out);
    else if (error.line < 0) /* before the first line */
        status = ls_fail(LS_CODE_MISSING, ls_checkpoint_what, out->path,
                         "the manifest cannot be read: %s; make the file readable", error.text);
    else
        status = ls_fail(LS_CODE_MISSING, ls_checkpoint_what, out->path,
                         "the manifest is not valid JSON (line %d: %s); use an intact checkpoint "
                         "of this model and optimizer",
                         error.line, error.text);
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
