/* SPDX-License-Identifier: MIT */
/* The regret of choices by prediction over published rows; see advise_parts.h. The rows, with what
 * was predicted, are a part of the program. */
#include "bench/predict/advise/advise_parts.h"

#include "bench/rows/row.h"
#include "published_questions.h"
#include "published_rows.h"

#include <string.h>

/* A row's rate; the higher one is better. */
static double rate_of(const json_t *row, const char *name)
{
    return json_number_value(json_object_get(row, name));
}

static void add_question(const json_t *rows, const json_t *answers, ls_regret *regret)
{
    const json_t *chosen = NULL, *best = NULL;
    size_t count = 0;
    for (size_t i = 0; i < json_array_size(answers); i++) {
        const json_t *answer = json_array_get(answers, i), *one = NULL; /* [id, n] */
        for (size_t r = 0; r < json_array_size(rows) && !one; r++) {
            const json_t *row = json_array_get(rows, r);
            if (json_equal(ls_row_get(row, LS_F_id), json_array_get(answer, 0)) &&
                json_equal(json_object_get(row, "n"), json_array_get(answer, 1)))
                one = row;
        }
        if (!one)
            continue;
        count++;
        if (!chosen || rate_of(one, "predicted") > rate_of(chosen, "predicted"))
            chosen = one;
        if (!best || rate_of(one, "published") > rate_of(best, "published"))
            best = one;
    }
    if (count > 1)
        ls_regret_add(regret, 1 / rate_of(chosen, "published"), 1 / rate_of(best, "published"));
}

ls_regret ls_published_regret(void)
{
    ls_regret regret = {0};
    json_auto_t *rows = ls_embedded_rows(ls_published_rows),
                *questions = json_loads(ls_published_questions, 0, NULL);
    const char *question;
    json_t *answers;
    json_object_foreach(questions, question, answers)
    {
        (void)question;
        add_question(rows, answers, &regret);
    }
    return regret;
}
