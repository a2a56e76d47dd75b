/* SPDX-License-Identifier: MIT */
/* `lockstep list [KIND]`: valid names on the command line, a section for each registry. */
#include "bench/cli/option.h"
#include "bench/commands/command.h"
#include "bench/output/standard_output.h"
#include "common/base/escape.h"
#include "common/comm/comm.h"
#include "common/data/data.h"
#include "common/kernel/kernel.h"
#include "common/nn/layer.h"
#include "common/nn/model.h"
#include "common/nn/optimizer.h"
#include "common/nn/rate.h"
#include "impl/outer_optimizer.h"
#include "impl/pipeline/pipeline_schedule.h"

#include <string.h>

static const struct {
    const char *title;
    const ls_registry *registry;
} sections[] = {
#define SECTION(title, registry) {title, &registry},
#include "bench/commands/commands.def"
};
enum { SECTIONS = sizeof sections / sizeof *sections };

static ls_status refuse_kind(const char *kind)
{
    char titles[512] = "", nearest[LS_NAME_SIZE], hint[96] = "";
    for (size_t i = 0; i < SECTIONS; i++)
        ls_text_add(titles, sizeof titles, "%s%s", i ? ", " : "", sections[i].title);
    if (ls_nearest_name(kind, titles, nearest))
        snprintf(hint, sizeof hint, "did you mean '%s'? ", nearest);
    return ls_fail(LS_CODE_USAGE, "list", kind, "unknown kind; %svalid are: %s", hint, titles);
}

ls_status ls_list_print(FILE *stream, const char *kind)
{
    size_t printed = 0;
    for (size_t s = 0; s < SECTIONS; s++) {
        const ls_registry *registry = sections[s].registry;
        if (kind && strcmp(sections[s].title, kind) != 0)
            continue;
        fprintf(stream, "%s%s\n", printed++ ? "\n" : "", sections[s].title);
        for (size_t i = 0; i < ls_registry_count(registry); i++)
            fprintf(stream, "  %-18s %s\n", ls_registry_name(registry, i),
                    ls_registry_help(registry, i));
    }
    return printed ? LS_OK : refuse_kind(kind);
}

ls_status ls_command_list(const ls_invocation *in, int *exit_status)
{
    const int argc = in->argc;
    char **argv = in->argv;
    if (argc > 1 && argv[1][0] == '-')
        return ls_fail(LS_CODE_USAGE, "option", argv[1],
                       "lockstep list takes no options; use lockstep list or lockstep list KIND");
    if (argc > 2)
        return ls_fail(LS_CODE_USAGE, "argument", argv[2],
                       "lockstep list takes at most one KIND; remove this argument");
    *exit_status = 0;
    return ls_list_print(ls_output(), argc > 1 ? argv[1] : NULL);
}
