/* SPDX-License-Identifier: MIT */
/* An advice as text, of lines of at most 80 columns but for the command that checks it. */
#pragma once

#include "bench/case/case.h"
#include "bench/predict/advise/advise.h"

#include <stdio.h>

/** `guess`: durations are by a rate; `noise`: ls_durations_words, or none; `line` runs the first of
 * the ranking, NULL: nothing can; `cores`: of this machine. */
void ls_advice_print(const ls_request *request, const ls_advice *advice, bool guess,
                     const char *noise, const char *line, int cores, FILE *out);
