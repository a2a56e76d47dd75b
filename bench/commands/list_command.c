/* SPDX-License-Identifier: MIT */
/* `lockstep list`: what can be named on the command line. */
#include "bench/cli/list.h"
#include "bench/commands/command.h"

ls_status ls_command_list(int argc, char **argv, int *exit_status)
{
    if (argc > 1 && argv[1][0] == '-')
        return ls_fail(LS_CODE_USAGE, "option", argv[1],
                       "unknown option; lockstep list [KIND] has none");
    if (argc > 2)
        return ls_fail(LS_CODE_USAGE, "argument", argv[2],
                       "unexpected; lockstep list takes one kind, or none for all");
    size_t count;
    const ls_list_section *sections = ls_list_sections(&count);
    *exit_status = 0;
    return ls_list_print(stdout, sections, count, argc > 1 ? argv[1] : NULL);
}
