/* SPDX-License-Identifier: Apache-2.0 */
/* Holds the rule and the slots of a job against those of a checkpoint. */
#include "warm/warm_slots.h"

#include <string.h>

#include "base/buf.h"
#include "rule/update/update.h"

#define LIST_BYTES_MAX 260 /* of names of variables */

static void add_slot(struct buf *out, const char *name, enum rule_slot_kind kind)
{
    buf_printf(out, "%s%s per %s", out->len > 0 ? ", " : "", name, manifest_slot_kinds[kind]);
}

static void differ(const char *what, const char *here, const char *there, struct buf *said)
{
    if (strcmp(here, there) != 0) {
        buf_printf(said, "%s%s: %s here, %s there", said->len > 0 ? "; " : "", what,
                   here[0] == '\0' ? "none" : here, there[0] == '\0' ? "none" : there);
    }
}

static void check_slots(const struct manifest *m, const struct update_spec *update,
                        struct buf *said)
{
    struct update_slot slots[UPDATE_SLOTS_MAX];
    struct buf here = {0}, there = {0};
    const size_t count = update_spec_slots(update, slots);
    for (size_t i = 0; i < count; i++) {
        add_slot(&here, slots[i].name, slots[i].kind);
    }
    for (size_t i = 0; i < m->slot_count; i++) {
        add_slot(&there, m->slots[i], m->slot_kinds[i]);
    }
    differ("rule", update->rule->name, m->rule, said);
    differ("slots", buf_str(&here), buf_str(&there), said);
    buf_release(&here);
    buf_release(&there);
}

/* Slots go with values. */
static void check_values(const struct warm_wanted *wanted, const struct warm_match *match,
                         struct buf *said)
{
    struct buf list = {0};
    for (size_t i = 0; i < wanted->count && list.len < LIST_BYTES_MAX; i++) {
        if (match->tensors[i] == WARM_NONE) {
            buf_printf(&list, "%s%s%s", list.len > 0 ? ", " : "",
                       i < wanted->count - wanted->tables ? "" : "table ",
                       wanted->variables[i].name);
        }
    }
    if (list.len > 0) {
        buf_printf(said, "%swithout values there: %s", said->len > 0 ? "; " : "", buf_str(&list));
    }
    buf_release(&list);
}

int warm_slots_check(const struct manifest *m, const struct update_spec *update,
                     const struct warm_wanted *wanted, const struct warm_match *match,
                     struct err *err)
{
    struct buf said = {0};
    check_slots(m, update, &said);
    check_values(wanted, match, &said);
    for (uint32_t i = 1; i < m->shard_count; i++) {
        if (m->shards[i].version != m->shards[0].version) {
            buf_printf(&said, "%sits servers have made different numbers of updates",
                       said.len > 0 ? "; " : "");
            break;
        }
    }
    const int rc = said.len == 0 ? 0
                                 : err_set(err, ERR_INVALID,
                                           "from.slots: %s ('slots: false' begins with new ones)",
                                           buf_str(&said));
    buf_release(&said);
    return rc;
}
