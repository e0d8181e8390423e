/* SPDX-License-Identifier: Apache-2.0 */
/* Makes manifests in memory and takes them apart. */
#include "checkpoint/manifest.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

const char *const manifest_mode_names[] = {
    [TRAINING_SYNC] = "sync", [TRAINING_ASYNC] = "async", [TRAINING_BOUNDED] = "bounded", NULL};

const char *const manifest_slot_kinds[] = {[RULE_SLOT_PARAMETER] = "parameter",
                                           [RULE_SLOT_ROW] = "row",
                                           [RULE_SLOT_COLUMN] = "column",
                                           [RULE_SLOT_VARIABLE] = "variable",
                                           NULL};

void manifest_init(struct manifest *m, const char *job, const char *text, enum training_mode mode,
                   const struct update_spec *update, const struct plan *plan)
{
    struct update_slot slots[UPDATE_SLOTS_MAX];
    *m = (struct manifest){
        .job = mem_strdup(job),
        .owner = mem_strdup(""),
        .text = mem_strdup(text),
        .mode = (int)mode,
        .rule = mem_strdup(update->rule->name),
        .slot_count = update_spec_slots(update, slots),
        .variable_count = plan->variable_count,
        .shard_count = plan->shard_count,
    };
    for (size_t k = 0; k < m->slot_count; k++) {
        m->slots[k] = mem_strdup(slots[k].name);
        m->slot_kinds[k] = slots[k].kind;
    }
    m->variables = mem_new(m->variable_count, sizeof *m->variables);
    memcpy(m->variables, plan->variables, m->variable_count * sizeof *m->variables);
    m->shards = mem_new(m->shard_count, sizeof *m->shards);
}

void manifest_release(struct manifest *m)
{
    free(m->job);
    free(m->owner);
    free(m->text);
    free(m->encoding);
    free(m->rule);
    for (size_t k = 0; k < UPDATE_SLOTS_MAX; k++) {
        free(m->slots[k]);
    }
    ledger_release(&m->ledger);
    free(m->train_sums);
    free(m->variables);
    manifest_tables_release(m);
    manifest_eras_release(m);
    free(m->shards);
    *m = (struct manifest){0};
}

uint64_t manifest_slot_elements(const struct variable_spec *v, enum rule_slot_kind kind)
{
    switch (kind) {
    case RULE_SLOT_ROW:
        return plan_rows(&v->shape);
    case RULE_SLOT_COLUMN:
        return plan_row_elements(&v->shape);
    case RULE_SLOT_VARIABLE:
        return 1;
    case RULE_SLOT_PARAMETER:
        break;
    }
    return shape_count(&v->shape);
}

/* "0x" and 16 digits, as we write them. */
bool manifest_sum_parse(const char *text, uint64_t *out)
{
    if (strlen(text) != 18 || text[0] != '0' || text[1] != 'x' ||
        strspn(text + 2, "0123456789abcdef") != 16) {
        return false;
    }
    *out = strtoull(text, NULL, 16);
    return true;
}
