/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors become records as a file format would have read them. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/csv_columns.h"
#include "serve/rpc/infer_bytes.h"
#include "serve/rpc/infer_inputs.h"

int infer_records_begin(const struct infer_inputs *in, size_t count, struct records *out,
                        struct err *err)
{
    int rc = encoder_begin(in->encoder, out, err);
    if (rc != 0) {
        return rc;
    }
    free(out->values);
    /* No more than a batch of the model, and every one is written. */
    out->values = mem_resize(NULL, count * in->numbers + 1, sizeof *out->values);
    for (size_t i = 0; i < out->category_count; i++) {
        free(out->categories[i].cells);
        out->categories[i].cells = mem_new(count, sizeof *out->categories[i].cells);
    }
    return 0;
}

static void add_numbers(const struct infer_tensor *t, size_t count, struct records *out)
{
    float *to = out->values + out->count * out->numbers;
    const size_t n = count * out->numbers;
    memcpy(to, t->raw != NULL ? (const void *)t->raw->data : t->typed->fp32_contents,
           n * sizeof *to);
}

static int add_categories(const struct infer_tensor *t, size_t count, struct category_column *c,
                          uint64_t first, struct err *err)
{
    struct infer_bytes texts = {.raw = t->raw, .typed = t->typed};
    int rc = 0;
    for (size_t i = 0; i < count && rc == 0; i++) {
        const ProtobufCBinaryData bytes = infer_bytes_next(&texts);
        char *text = mem_new(bytes.len + 1, 1);
        if (bytes.len > 0) {
            memcpy(text, bytes.data, bytes.len);
        }
        if (csv_is_missing(text)) {
            c->cells[first + i] = RECORDS_CATEGORY_NONE;
        } else {
            rc = names_add(&c->values, text, &c->cells[first + i], err);
        }
        free(text);
    }
    return rc;
}

static uint64_t key_at(const struct infer_tensor *t, size_t i)
{
    uint64_t key;
    if (t->raw != NULL) {
        memcpy(&key, t->raw->data + i * sizeof key, sizeof key);
        return key;
    }
    return t->is_signed ? (uint64_t)t->typed->int64_contents[i] : t->typed->uint64_contents[i];
}

/* The lists of record @record of the request. A key that a list has twice counts once. */
static int add_lists(const struct infer_inputs *in, const struct infer_tensor *tensors,
                     size_t record, struct sparse_draft *draft, struct records *out,
                     struct err *err)
{
    int rc = 0;
    for (size_t i = 0; i < in->count && rc == 0; i++) {
        const struct infer_tensor *t = &tensors[i];
        if (in->items[i].kind != INFER_FIELD) {
            continue;
        }
        for (size_t k = 0; k < t->elements && rc == 0; k++) {
            rc = sparse_draft_add(draft, (uint32_t)in->items[i].index,
                                  key_at(t, record * t->elements + k), 1, err);
        }
    }
    (void)sparse_draft_sort(draft, true);
    return rc != 0 ? rc : sparse_fields_add(&out->fields, draft, "request", err);
}

int infer_records_add(const struct infer_inputs *in, const struct infer_tensor *tensors,
                      size_t count, struct records *out, struct err *err)
{
    struct sparse_draft draft = {0};
    int rc = 0;
    for (size_t i = 0; i < in->count && rc == 0; i++) {
        if (in->items[i].kind == INFER_NUMBERS) {
            add_numbers(&tensors[i], count, out);
        } else if (in->items[i].kind == INFER_CATEGORY) {
            rc = add_categories(&tensors[i], count, &out->categories[in->items[i].index],
                                out->count, err);
        }
    }
    for (size_t r = 0; r < count && rc == 0 && in->fields > 0; r++) {
        rc = add_lists(in, tensors, r, &draft, out, err);
    }
    sparse_draft_release(&draft);
    out->count += count;
    return rc;
}
