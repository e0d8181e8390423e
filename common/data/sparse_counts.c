/* SPDX-License-Identifier: Apache-2.0 */
/* Counts and limits of the lists of a field, from the lists in memory or from their summary. */
#include <inttypes.h>

#include "data/sparse_fields.h"
#include "data/sparse_summary.h"

bool sparse_fields_beyond(const struct sparse_fields *f, size_t field, uint64_t keys, size_t length,
                          struct sparse_extreme *found)
{
    if (f->summary != NULL) {
        return sparse_summary_beyond(f->summary, field, keys, length, found);
    }
    for (uint64_t r = 0; r < f->records; r++) {
        const struct sparse_list list = sparse_fields_list(f, r, field);
        const uint64_t largest = list.count > 0 ? list.keys[list.count - 1] : 0; /* keys rise */
        if (list.count > length || (list.count > 0 && largest >= keys && keys < UINT64_MAX)) {
            *found = (struct sparse_extreme){.record = r, .count = list.count, .key = largest};
            return true;
        }
    }
    return false;
}

bool sparse_fields_not_one(const struct sparse_fields *f, size_t field,
                           struct sparse_extreme *found)
{
    if (f->summary != NULL) {
        *found = f->summary->fields[field].not_one;
        return f->summary->fields[field].without_one > 0;
    }
    for (uint64_t r = 0; r < f->records; r++) {
        const uint64_t count = sparse_fields_list(f, r, field).count;
        if (count != 1) {
            *found = (struct sparse_extreme){.record = r, .count = count};
            return true;
        }
    }
    return false;
}

uint64_t sparse_fields_keys_of(const struct sparse_fields *f, size_t field)
{
    if (f->summary != NULL) {
        return f->summary->fields[field].keys;
    }
    uint64_t keys = 0;
    for (uint64_t r = 0; r < f->records; r++) {
        keys += sparse_fields_list(f, r, field).count;
    }
    return keys;
}

void sparse_fields_describe(const struct sparse_fields *f, struct buf *out)
{
    for (size_t i = 0, next; i < f->count; i = next) {
        const struct sparse_field *field = &f->fields[i];
        uint64_t keys = 0;
        for (next = i; next < f->count && f->fields[next].width == field->width; next++) {
            keys += sparse_fields_keys_of(f, next);
        }
        double each = f->records == 0 ? 0 : (double)keys / (double)f->records;
        if (next - i > 1) {
            buf_printf(out, "sparse fields %s to %s (%zu): %.1f keys of a record", field->name,
                       f->fields[next - 1].name, next - i, each);
        } else {
            buf_printf(out, "sparse field %s: %.1f keys of a record", field->name, each);
        }
        if (field->width > 0) {
            buf_printf(out, ", %sas %" PRIu32 " column%s", next - i > 1 ? "each field " : "",
                       field->width, field->width == 1 ? "" : "s");
        }
        buf_add_char(out, '\n');
    }
}
