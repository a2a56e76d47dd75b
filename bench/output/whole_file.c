/* SPDX-License-Identifier: MIT */
/* Whole file; see whole_file.h. */
#include "bench/output/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ls_status refuse(const char *path, int error)
{
    return ls_fail(LS_CODE_MISSING, "--out", path, "cannot be written: %s; name another file",
                   strerror(error ? error : EIO));
}

ls_status ls_whole_file(const char *path, ls_status (*write)(FILE *stream, void *context),
                        void *context)
{
    struct stat facts;
    char *part = NULL;
    const bool direct = stat(path, &facts) == 0 && !S_ISREG(facts.st_mode);
    if (!direct && asprintf(&part, "%s.part-%ld", path, (long)getpid()) < 0)
        return ls_fail_memory("--out", strlen(path));
    FILE *stream = fopen(direct ? path : part, direct ? "w" : "wx");
    ls_status status = stream ? write(stream, context) : refuse(path, errno);
    errno = 0;
    bool failed = stream && ferror(stream) != 0;
    failed |= stream && fclose(stream) != 0;
    if (!status && (failed || (!direct && rename(part, path) != 0)))
        status = refuse(path, errno);
    if (status && stream && !direct)
        unlink(part);
    free(part);
    return status;
}

ls_status ls_file_writable(const char *what, const char *path)
{
    int error = 0;
    const int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file >= 0) {
        close(file);
        unlink(path);
    } else {
        error = errno;
    }
    if (error == EEXIST) /* a link to nothing leads to a file that can be made, or not */
        error = access(path, W_OK) && errno != ENOENT ? errno : 0;
    struct stat facts;
    if (!error && stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        error = EISDIR;
    if (!error)
        return LS_OK;
    return ls_fail(LS_CODE_MISSING, what, path, "%s; a file that can be written works",
                   strerror(error));
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
