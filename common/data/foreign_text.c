/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at each different text once, and for its record only where one is found. */
#include "data/foreign_text.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "data/cells.h"
#include "data/csv_columns.h"

/* The first of @count records whose cell is no UTF-8. */
static uint64_t find(const struct names *texts, const uint32_t *cells, uint64_t count)
{
    bool *foreign = mem_new(texts->count + 1, sizeof *foreign), any = false;
    for (size_t i = 0; i < texts->count; i++) {
        foreign[i] = !text_is_utf8(texts->texts[i], strlen(texts->texts[i]));
        any = any || foreign[i];
    }
    uint64_t i = 0;
    while (any && i < count && (cells[i] == RECORDS_CATEGORY_NONE || !foreign[cells[i]])) {
        i++;
    }
    free(foreign);
    return any ? i : count;
}

char *foreign_text_first(const struct records *r)
{
    uint64_t first = r->count;
    const char *column = NULL, *text = NULL;
    if (r->label_cells != NULL) {
        first = find(&r->label_texts, r->label_cells, r->count);
        text = first < r->count ? r->label_texts.texts[r->label_cells[first]] : NULL;
    }
    for (size_t k = 0; k < r->category_count; k++) {
        const struct category_column *c = &r->categories[k];
        const uint64_t i = find(&c->values, c->cells, first);
        if (i < first) {
            first = i;
            column = c->name;
            text = c->values.texts[c->cells[i]];
        }
    }
    if (text == NULL) {
        return NULL;
    }
    struct buf out = {0};
    char name[96], cell[CSV_SHOWN_BYTES + 16];
    records_where_label(r, first, &out);
    buf_printf(&out, ": %s%s: %s", column == NULL ? "the label" : "column ",
               column == NULL ? "" : cells_mark(column, 60, false, name, sizeof name),
               cells_mark(text, CSV_SHOWN_BYTES, true, cell, sizeof cell));
    return buf_take(&out);
}
