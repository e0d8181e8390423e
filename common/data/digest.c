/* SPDX-License-Identifier: Apache-2.0 */
/* Gathers texts block by block. */
#include "data/digest.h"

#include <stdlib.h>

#include "base/mem.h"
#include "data/cells.h"
#include "data/column_vocabulary.h"
#include "data/encode.h"

static void forget_texts(struct names *n)
{
    const size_t limit = n->limit;
    names_release(n);
    n->limit = limit;
}

void digest_begin(struct digest *d, struct records *like)
{
    struct records *r = &d->records;
    *r = *like;
    *like = (struct records){0};
    free(r->bytes);
    free(r->values);
    free(r->sparse.ends);
    free(r->sparse.indices);
    free(r->sparse.values);
    free(r->label_cells);
    free(r->places);
    r->bytes = NULL;
    r->values = NULL;
    r->sparse = (struct sparse_rows){0};
    r->label_cells = NULL;
    r->places = NULL;
    r->count = 0;
    forget_texts(&r->label_texts);
    for (size_t k = 0; k < r->category_count; k++) {
        struct category_column *c = &r->categories[k];
        forget_texts(&c->values);
        c->values.limit =
            c->values.limit > ENCODE_FEATURES_MAX ? ENCODE_FEATURES_MAX : c->values.limit;
        free(c->cells);
        c->cells = NULL;
    }
    struct sparse_fields fields = sparse_fields_twin(&r->fields);
    sparse_fields_release(&r->fields);
    r->fields = fields;
}

static int too_many(const struct records *r, const char *what, const struct err *cause,
                    struct err *err)
{
    return err_set(err, ERR_EXHAUSTED, "%s: %s: %s", r->where, what, cause->msg);
}

static void add_place(struct digest *d, const struct place *place)
{
    struct records *r = &d->records;
    r->places = mem_grow(r->places, &d->place_capacity, r->label_texts.count, sizeof *r->places);
    r->places[r->label_texts.count - 1] = *place;
}

/* Adds the labels of records that are used; the source may have others where it was divided. */
static int add_labels(struct digest *d, const struct records *block, struct err *err)
{
    struct records *r = &d->records;
    bool *seen = mem_new(block->label_texts.count, sizeof *seen);
    struct err cause = {0};
    int rc = 0;
    for (uint64_t i = 0; i < block->count && rc == 0; i++) {
        const uint32_t cell = block->label_cells[i];
        uint32_t number;
        const size_t had = r->label_texts.count;
        if (seen[cell]) {
            continue;
        }
        seen[cell] = true;
        rc = names_add(&r->label_texts, block->label_texts.texts[cell], &number, &cause);
        if (rc == 0 && r->label_texts.count > had) {
            add_place(d, &block->places[i]);
        }
    }
    free(seen);
    return rc == 0
               ? 0
               : too_many(block, "labels; for real labels set data.label_kind: real", &cause, err);
}

static int add_categories(struct category_column *c, const struct records *block, size_t k,
                          struct err *err)
{
    const struct category_column *from = &block->categories[k];
    bool *seen = mem_new(from->values.count, sizeof *seen);
    struct err cause = {0};
    int rc = 0;
    for (uint64_t i = 0; i < block->count && rc == 0; i++) {
        const uint32_t cell = from->cells[i];
        uint32_t number;
        if (cell != RECORDS_CATEGORY_NONE && !seen[cell]) {
            seen[cell] = true;
            rc = names_add(&c->values, from->values.texts[cell], &number, &cause);
        }
    }
    free(seen);
    char shown[64];
    return rc == 0 ? 0
                   : too_many(block, cells_mark(from->name, 40, true, shown, sizeof shown), &cause,
                              err);
}

int digest_add(struct digest *d, const struct data_spec *spec, const struct records *block,
               struct err *err)
{
    struct records *r = &d->records;
    int rc = block->label_cells != NULL ? add_labels(d, block, err) : 0;
    for (size_t k = 0; k < r->category_count && rc == 0; k++) {
        const bool needed =
            r->declared == NULL || column_needs_texts(&spec->columns[r->declared[r->numbers + k]]);
        rc = needed ? add_categories(&r->categories[k], block, k, err) : 0;
    }
    return rc;
}

void digest_end(struct digest *d, size_t numbers)
{
    struct records *r = &d->records;
    r->numbers = numbers;
    r->shape = (struct shape){.rank = 1, .dims = {numbers}};
    r->count = r->label_texts.count;
    for (size_t k = 0; k < r->category_count; k++) {
        const size_t n = r->categories[k].values.count;
        r->count = n > r->count ? n : r->count;
    }
    if (r->label_texts.count > 0) {
        r->label_cells = mem_new((size_t)r->count, sizeof *r->label_cells);
        r->places = mem_resize(r->places, (size_t)r->count, sizeof *r->places);
        for (size_t i = 0; i < r->count; i++) {
            /* what lies behind the distinct texts repeats the first one */
            r->label_cells[i] = i < r->label_texts.count ? (uint32_t)i : 0;
            r->places[i] = i < r->label_texts.count ? r->places[i] : r->places[0];
        }
    }
    for (size_t k = 0; k < r->category_count; k++) {
        struct category_column *c = &r->categories[k];
        c->cells = mem_new((size_t)r->count, sizeof *c->cells);
        for (size_t i = 0; i < r->count; i++) {
            c->cells[i] = i < c->values.count ? (uint32_t)i : RECORDS_CATEGORY_NONE;
        }
    }
}

void digest_release(struct digest *d)
{
    records_release(&d->records);
}

static void note_texts(const struct names *n, struct buf *notes)
{
    notes_add_number(notes, n->count);
    for (size_t i = 0; i < n->count; i++) {
        notes_add_text(notes, n->texts[i]);
    }
}

static void recall_texts(struct names *n, struct notes *notes)
{
    const size_t count = notes_count(notes, 2 * sizeof(uint64_t));
    for (size_t i = 0; i < count && notes->ok; i++) {
        char *text = notes_text(notes);
        uint32_t number = 0;
        notes->ok =
            notes->ok && text != NULL && names_add(n, text, &number, NULL) == 0 && number == i;
        free(text);
    }
}

void digest_note(const struct digest *d, struct buf *notes)
{
    const struct records *r = &d->records;
    note_texts(&r->label_texts, notes);
    for (size_t i = 0; i < r->label_texts.count; i++) {
        notes_add_number(notes, r->places[i].number);
    }
    for (size_t k = 0; k < r->category_count; k++) {
        note_texts(&r->categories[k].values, notes);
    }
}

void digest_recall(struct digest *d, struct notes *notes)
{
    struct records *r = &d->records;
    recall_texts(&r->label_texts, notes);
    r->places = mem_resize(r->places, r->label_texts.count, sizeof *r->places);
    d->place_capacity = r->label_texts.count;
    for (size_t i = 0; i < r->label_texts.count; i++) {
        r->places[i] = (struct place){.number = (uint32_t)notes_number(notes)};
    }
    for (size_t k = 0; k < r->category_count && notes->ok; k++) {
        recall_texts(&r->categories[k].values, notes);
    }
}
