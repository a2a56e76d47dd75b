/* SPDX-License-Identifier: MIT */
/* Opens a checkpoint: reads its manifest, and checks its form; see checkpoint.h. */
#include "bench/checkpoint/checkpoint_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
