/* SPDX-License-Identifier: MIT */
/* Environment; see environment.h. */
#include "bench/row/environment.h"

#include "bench/output/results_db.h"
#include "common/base/digest.h"
#include "template_environment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MOST = 256, ENDING = 48 };

/* Printable ASCII, of at most TEXT_MOST characters. */
static void make_safe(const char *bytes, size_t length, char text[TEXT_MOST])
{
    size_t used = 0, i = 0;
    for (; i < length && used + ENDING < TEXT_MOST; i++)
        used += (size_t)snprintf(text + used, TEXT_MOST - used,
                                 bytes[i] >= ' ' && bytes[i] <= '~' ? "%c" : "\\x%02x",
                                 (unsigned char)bytes[i]);
    text[used] = 0;
    if (i < length)
        snprintf(text + used, TEXT_MOST - used, "... (%zu bytes, %016llx)", length,
                 (unsigned long long)ls_hash64(bytes, length));
}

json_t *ls_environment_build(FILE *stream)
{
    json_auto_t *given = json_array(), *found = json_array();
    size_t size = 0;
    char *text = NULL, name[TEXT_MOST], value[TEXT_MOST];
    json_t *group = NULL;
    while (getdelim(&text, &size, 0, stream) > 0) {
        const char *rest = strchr(text, '=');
        if (!rest)
            continue;
        make_safe(text, (size_t)(rest - text), name);
        make_safe(rest + 1, strlen(rest + 1), value);
        json_array_append_new(given, json_pack("[s,s]", name, value));
    }
    free(text);
    ls_status_free(ls_document_query(ls_template_environment, given, NULL, found));
    json_unpack(found, "[{s:O}]", "group", &group);
    return group;
}

json_t *ls_environment_own(void)
{
    FILE *stream = fopen("/proc/self/environ", "re");
    json_t *group = stream ? ls_environment_build(stream) : NULL;
    if (stream)
        fclose(stream);
    return group;
}
