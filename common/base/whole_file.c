/* SPDX-License-Identifier: MIT */
/*
 * Whole file; see whole_file.h. The text goes to a new file next to the target, NAME.part-PID,
 * which then takes the target's name. A target that cannot be replaced (its folder may not be
 * written, it is mounted, its name is too long, it has several hard links or a foreign owner) gets
 * the bytes instead. A process that is killed leaves its NAME.part-PID. Left out: access lists and
 * extended attributes.
 */
#include "common/base/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

static ls_status refuse(const char *what, const char *path, int error)
{
    return ls_fail(LS_CODE_MISSING, what, path, "cannot be written: %s; name another file",
                   error == ENXIO ? "no program reads this pipe" : strerror(error ? error : EIO));
}

/* ---- Writing -------------------------------------------------------------------------------- */

/* Gives the new file the owner and mode of the one that it replaces, before it has contents. */
static bool take_mode(int file, const struct stat *old)
{
    struct stat is;
    if (fstat(file, &is))
        return false;
    const bool same = is.st_uid == old->st_uid && is.st_gid == old->st_gid;
    return (same || fchown(file, old->st_uid, old->st_gid) == 0) &&
           fchmod(file, old->st_mode & 07777) == 0;
}

/* Makes a file that was not there, and follows no link; NULL where that cannot be. */
static FILE *make(const char *path, mode_t mode)
{
    const int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    FILE *stream = file < 0 ? NULL : fdopen(file, "w+");
    if (file >= 0 && !stream) {
        close(file);
        unlink(path);
    }
    return stream;
}

/* Opens a device, a pipe or a descriptor for appending: a descriptor may belong to a file with
 * other texts. Does not wait for a reader of a pipe (ENXIO). */
static FILE *open_direct(const char *path)
{
    const int file = open(path, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return NULL;
    const int flags = fcntl(file, F_GETFL);
    FILE *stream =
        flags >= 0 && fcntl(file, F_SETFL, flags & ~O_NONBLOCK) == 0 ? fdopen(file, "a") : NULL;
    if (!stream)
        close(file);
    return stream;
}

/* Opens a file next to `path` that can take its name; NULL where that cannot be. *part: its
 * name. */
static FILE *open_part(const char *path, char **part)
{
    struct stat old;
    const bool there = stat(path, &old) == 0;
    char *target = there ? realpath(path, NULL) : strdup(path);
    FILE *stream = NULL;
    /* a link to nothing is one, too: its target is made in place */
    const bool linked = there ? old.st_nlink > 1 : lstat(path, &old) == 0;
    if (!target || linked || asprintf(part, "%s.part-%ld", target, (long)getpid()) < 0)
        *part = NULL;
    else /* nobody else may open it before it has its mode */
        stream = make(*part, there ? 0600 : 0666);
    if (stream && there && !take_mode(fileno(stream), &old)) {
        fclose(stream);
        unlink(*part);
        stream = NULL;
    }
    free(target);
    return stream;
}

/* Writes the bytes of `from` into the file in place; returns errno. */
static int copy(FILE *from, const char *path)
{
    char block[1 << 16];
    const int to = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int error = to < 0 ? errno : 0;
    rewind(from);
    for (size_t length; !error && (length = fread(block, 1, sizeof block, from)) > 0;) {
        for (size_t at = 0; at < length && !error;) {
            const ssize_t done = write(to, block + at, length - at);
            at += done > 0 ? (size_t)done : 0;
            error = done < 0 && errno != EINTR ? errno : 0;
        }
    }
    if (!error && ferror(from))
        error = EIO;
    if (!error && fsync(to) && errno != EINVAL) /* the old contents are gone */
        error = errno;
    if (to >= 0 && close(to) && !error)
        error = errno;
    return error;
}

/* Whether the name belongs to a device, a pipe, or a descriptor: what is written there goes
 * elsewhere. */
static bool leads_elsewhere(const char *path)
{
    struct stat is;
    return (stat(path, &is) == 0 && !S_ISREG(is.st_mode)) || strncmp(path, "/dev/fd/", 8) == 0 ||
           (strncmp(path, "/proc/", 6) == 0 && strstr(path, "/fd/")) ||
           strcmp(path, "/dev/stderr") == 0;
}

/* Calls `write`, and flushes; *error: errno of the stream. */
static ls_status fill(FILE *stream, ls_status (*write)(FILE *stream, void *context), void *context,
                      int *error)
{
    errno = 0;
    ls_status status = write(stream, context);
    *error = ferror(stream) ? (errno ? errno : EIO) : 0;
    if (fflush(stream) && !*error)
        *error = errno;
    return status;
}

ls_status ls_whole_file(const char *what, const char *path,
                        ls_status (*write)(FILE *stream, void *context), void *context)
{
    const bool direct = leads_elsewhere(path);
    char *part = NULL;
    int error = 0;
    FILE *stream = direct ? open_direct(path) : open_part(path, &part);
    const bool replaces = stream && !direct;
    if (!stream && !direct)
        stream = tmpfile();
    if (!stream) {
        error = errno;
        free(part);
        return refuse(what, path, error);
    }
    ls_status status = fill(stream, write, context, &error);
    char *target = replaces && !status && !error ? realpath(path, NULL) : NULL;
    const bool renamed = replaces && !status && !error && rename(part, target ? target : path) == 0;
    if (!status && !error && !direct && !renamed)
        error = copy(stream, path);
    if (fclose(stream) && !error && (direct || renamed))
        error = errno;
    if (replaces && !renamed)
        unlink(part);
    free(target);
    free(part);
    if (!error || (status && ls_status_code(status) != LS_CODE_MISSING))
        return status;
    ls_status_free(status); /* it does not name the file */
    return refuse(what, path, error);
}

/* ---- Before --------------------------------------------------------------------------------- */

/* Makes the file, or what a link to nothing leads to, and removes it; returns errno. */
static int try_to_make(const char *path)
{
    struct stat link;
    const int only = lstat(path, &link) == 0 ? 0 : O_EXCL;
    const int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | only, 0666);
    if (file < 0)
        return errno == EEXIST ? 0 : errno; /* another process has just made it */
    close(file);
    char *made = realpath(path, NULL);
    unlink(made ? made : path);
    free(made);
    return 0;
}

/* Whether so many bytes go into a file here, as far as file system and limits say; returns errno.
 */
static int find_room(const char *path, uint64_t bytes)
{
    struct statvfs disk;
    struct rlimit most;
    char *folder = strdup(path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash)
        slash[slash == folder] = 0;
    const bool known =
        (statvfs(path, &disk) == 0 || (folder && statvfs(slash ? folder : ".", &disk) == 0)) &&
        disk.f_blocks > 0;
    free(folder);
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < bytes)
        return EFBIG;
    const uint64_t blocks = !known ? 0 : geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
    return known && (!blocks || blocks < bytes / disk.f_frsize) ? ENOSPC : 0;
}

ls_status ls_file_writable(const char *what, const char *path, uint64_t bytes)
{
    struct stat is;
    int error = stat(path, &is) == 0 ? 0 : errno;
    const bool there = !error, plain = !there || S_ISREG(is.st_mode);
    const dev_t full = makedev(1, 7); /* /dev/full */
    if (error == ENOENT)
        error = try_to_make(path);
    else if (there && S_ISDIR(is.st_mode))
        error = EISDIR;
    else if (there && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS))
        error = errno;
    else if (there && S_ISCHR(is.st_mode) && is.st_rdev == full)
        error = ENOSPC;
    if (!error && plain)
        error = find_room(path, bytes);
    return error ? refuse(what, path, error) : LS_OK;
}

bool ls_same_file(const char *path, const char *other)
{
    struct stat a, b;
    return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
           a.st_ino == b.st_ino;
}

ls_status ls_folder_make(const char *what, const char *path)
{
    char *whole;
    if (asprintf(&whole, "%s/.", path) < 0)
        return ls_fail_memory(what, strlen(path));
    for (char *end = strchr(whole + 1, '/'); end; end = strchr(end + 1, '/')) {
        *end = 0;
        (void)mkdir(whole, 0777);
        *end = '/';
    }
    const int error = access(whole, W_OK | X_OK) == 0 ? 0 : errno;
    free(whole);
    return error ? ls_fail(LS_CODE_MISSING, what, path,
                           "cannot be written: %s; name another folder", strerror(error))
                 : LS_OK;
}
