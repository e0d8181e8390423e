/* SPDX-License-Identifier: Apache-2.0 */
/* The slots of a shard: how large, and where those of a part begin. */
#include <assert.h>
#include <string.h>

#include "rule/update/update_impl.h"

size_t update_slot_count(const struct update *u)
{
    return u->slot_count;
}

const struct update_slot *update_slot(const struct update *u, size_t slot)
{
    assert(slot < u->slot_count);
    return &u->slots[slot];
}

uint64_t update_slot_floats(const struct update *u, size_t slot)
{
    assert(slot < u->slot_count);
    return u->slot_floats[slot];
}

uint64_t update_slot_offset(const struct update *u, size_t slot, size_t part)
{
    const struct update_part_state *p = &u->parts[part];
    switch (update_slot(u, slot)->kind) {
    case RULE_SLOT_ROW:
        return p->rows_before;
    case RULE_SLOT_COLUMN:
        return u->column_offsets[p->local];
    case RULE_SLOT_VARIABLE:
        return p->local;
    case RULE_SLOT_PARAMETER:
        break;
    }
    return p->part.offset;
}

uint64_t update_slot_part_floats(const struct update *u, size_t slot, size_t part)
{
    const struct update_part *p = &u->parts[part].part;
    const size_t width = u->variables[p->variable].spec.width;
    switch (update_slot(u, slot)->kind) {
    case RULE_SLOT_ROW:
        return p->count / width;
    case RULE_SLOT_COLUMN:
        return width;
    case RULE_SLOT_VARIABLE:
        return 1;
    case RULE_SLOT_PARAMETER:
        break;
    }
    return p->count;
}

void update_slots_fill(const struct update *u, const float *values, float *const *slots)
{
    for (size_t k = 0; k < u->slot_count; k++) {
        if (u->slots[k].of_values) {
            memcpy(slots[k], values, u->elements * sizeof(float));
            continue;
        }
        for (uint64_t i = 0; i < u->slot_floats[k]; i++) {
            slots[k][i] = u->slots[k].initial;
        }
    }
}
