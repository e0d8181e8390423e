/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at each different text of a column once. */
#include "data/unknown_cells.h"

#include <stdlib.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/column_layout.h"
#include "data/csv_columns.h"

/* The vocabulary of the declared column that is category @k of a record. */
static const struct column_vocabulary *declared(const struct column_layout *l, size_t k)
{
    for (size_t i = 0; i < l->category_count; i++) {
        if (l->categories[i].source == k) {
            return &l->categories[i].vocabulary;
        }
    }
    for (size_t i = 0; i < l->sparse_count; i++) {
        if (l->sparse[i].source == k) {
            return &l->sparse[i].vocabulary;
        }
    }
    return NULL;
}

static bool is_unknown(const struct encoding *known, size_t k, const char *text)
{
    uint32_t number;
    if (known->columns != NULL) {
        const struct column_vocabulary *v = declared(known->columns, k);
        return v != NULL && column_vocabulary_lacks(v, text);
    }
    return k < known->known.count && !names_find(&known->known.columns[k], text, &number);
}

static void take_first(struct encoder_unknown *out, const struct records *r, size_t k,
                       uint64_t record)
{
    const struct category_column *c = &r->categories[k];
    char text[CSV_SHOWN_BYTES + 16];
    struct buf first = {0};
    buf_printf(
        &first, "%s, ",
        cells_mark(c->values.texts[c->cells[record]], CSV_SHOWN_BYTES, true, text, sizeof text));
    records_where_label(r, record, &first);
    out->first = buf_take(&first);
}

void unknown_cells_count(const struct encoder *e, const struct records *r,
                         struct encoder_left *left)
{
    const struct records *like = encoder_raw(e);
    if (left->unknown == NULL && like->category_count > 0) {
        left->unknown_count = like->category_count;
        left->unknown = mem_new(left->unknown_count, sizeof *left->unknown);
    }
    for (size_t k = 0; k < r->category_count && k < left->unknown_count; k++) {
        const struct category_column *c = &r->categories[k];
        struct encoder_unknown *out = &left->unknown[k];
        bool *unknown = mem_new(c->values.count + 1, sizeof *unknown);
        out->column = like->categories[k].name; /* borrowed of the encoder */
        for (size_t i = 0; i < c->values.count; i++) {
            unknown[i] = is_unknown(encoder_encoding(e), k, c->values.texts[i]);
        }
        for (uint64_t i = 0; i < r->count; i++) {
            if (c->cells[i] != RECORDS_CATEGORY_NONE && unknown[c->cells[i]]) {
                if (out->records++ == 0) {
                    take_first(out, r, k, i);
                }
            }
        }
        free(unknown);
    }
}
