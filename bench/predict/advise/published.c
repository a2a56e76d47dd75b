/* SPDX-License-Identifier: MIT */
/* The regret of choices by prediction over published rows; see advise_parts.h. The rows, with what
 * was predicted, are a part of the program. */
#include "bench/predict/advise/advise_parts.h"

#include "bench/output/document.h"
#include "published_questions.h"
#include "published_rows.h"
#include "template_published.h"

ls_regret ls_published_regret(void)
{
    ls_regret regret = {0};
    json_auto_t *found = json_array();
    json_auto_t *document = json_pack("{s:o,s:o}", "rows", ls_embedded_rows(ls_published_rows),
                                      "questions", json_loads(ls_published_questions, 0, NULL));
    size_t i;
    json_t *one;
    double chosen, best;
    ls_status_free(ls_document_query(ls_template_published, document, NULL, found));
    json_array_foreach(found, i, one)
    {
        if (json_unpack(one, "{s:F,s:F}", "chosen", &chosen, "best", &best) == 0)
            ls_regret_add(&regret, 1 / chosen, 1 / best);
    }
    return regret;
}
