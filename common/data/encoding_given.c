/* SPDX-License-Identifier: Apache-2.0 */
/* Reads what another job measured, and holds the records of this one against it. */
#include "data/encoding_given.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/column_layout.h"

#define NEWS_SHOWN 3 /* categories of a column */
#define NEWS_BYTES_MAX 500

void encoding_given_free(struct encoding_given *g)
{
    if (g != NULL) {
        encoding_recalled_release(&g->recalled);
        data_spec_release(&g->spec);
        free(g);
    }
}

static int misfit(int rc, struct err *err)
{
    struct err cause = err != NULL ? *err : (struct err){0};
    return err_set(err, rc == ERR_CORRUPT ? ERR_INVALID : rc,
                   "the records do not fit what the source of the job has measured: %s "
                   "('from.encoding: measure' measures these records instead)",
                   cause.msg);
}

int encoding_given_open(const struct data_spec *spec, bool label_is_class,
                        struct encoding_given **out, struct err *err)
{
    struct err local = {0};
    *out = NULL;
    if (spec->measured == NULL) {
        return 0;
    }
    struct encoding_given *g = mem_new(1, sizeof *g);
    g->spec = data_spec_copy(spec);
    g->spec.measured = NULL;
    int rc = encoding_recall(spec->measured, &g->spec, label_is_class, &g->recalled, &local);
    if (rc != 0) {
        encoding_given_free(g);
        rc = misfit(rc, &local);
        return err_set(err, rc, "%s", local.msg);
    }
    *out = g;
    return 0;
}

/* Which of @here are not @known. */
static void add_news(const char *column, const struct names *here, const struct names *known,
                     bool own_feature, struct buf *news)
{
    struct buf list = {0};
    size_t count = 0;
    char shown[80];
    uint32_t number;
    for (size_t i = 0; i < here->count; i++) {
        if (names_find(known, here->texts[i], &number)) {
            continue;
        }
        if (count++ < NEWS_SHOWN) {
            buf_printf(&list, "%s%s", count == 1 ? "" : ", ",
                       cells_mark(here->texts[i], 40, false, shown, sizeof shown));
        }
    }
    if (count > 0 && news->len > NEWS_BYTES_MAX) {
        const char more[] = "; and more";
        const size_t n = sizeof more - 1;
        const bool said = memcmp(news->data + news->len - n, more, n) == 0;
        buf_add_str(news, said ? "" : more);
    } else if (count > 0) {
        buf_printf(news, "%scolumn %s: %zu new categor%s (%s%s), %s", news->len > 0 ? "; " : "",
                   cells_mark(column, 40, false, shown, sizeof shown), count,
                   count == 1 ? "y" : "ies", buf_str(&list), count > NEWS_SHOWN ? ", …" : "",
                   !own_feature ? "whose features are all 0"
                   : count == 1 ? "which has the feature of unknown ones"
                                : "which have the feature of unknown ones");
    }
    buf_release(&list);
}

static int news_of_columns(const struct encoding_given *g, const struct records *digest,
                           struct buf *news, struct err *err)
{
    const struct column_layout *known = g->recalled.encoding.columns;
    struct column_layout *here = NULL;
    const int rc = column_layout_texts(&g->spec, digest, &here, err);
    for (size_t i = 0; rc == 0 && i < known->category_count; i++) {
        const struct column_vocabulary *v = &known->categories[i].vocabulary;
        if (column_needs_texts(v->column)) {
            add_news(digest->categories[known->categories[i].source].name,
                     &here->categories[i].vocabulary.known, &v->known,
                     v->unknown != RECORDS_CATEGORY_NONE, news);
        }
    }
    column_layout_free(here);
    return rc;
}

static int news_of_categories(const struct encoding_given *g, const struct records *digest,
                              struct buf *news, struct err *err)
{
    const struct encode_known *known = &g->recalled.encoding.known;
    struct encode_known here = {0};
    const int rc = known->count == 0 ? 0 : encode_known_fit(&here, digest, err);
    for (size_t i = 0; rc == 0 && i < known->count; i++) {
        add_news(digest->categories[i].name, &here.columns[i], &known->columns[i], false, news);
    }
    encode_known_release(&here);
    return rc;
}

int encoding_given_check(const struct encoding_given *g, const struct records *digest,
                         struct buf *news, struct err *err)
{
    struct err local = {0};
    const struct label_map *labels = &g->recalled.encoding.labels;
    int rc = records_match(&g->recalled.like, digest, &local);
    if (rc == 0 && labels->is_class) {
        rc = classes_check(&labels->classes, digest, g->spec.classes, &local);
    }
    if (rc != 0) {
        rc = misfit(rc, &local);
        return err_set(err, rc, "%s", local.msg);
    }
    return digest->declared != NULL ? news_of_columns(g, digest, news, err)
                                    : news_of_categories(g, digest, news, err);
}
