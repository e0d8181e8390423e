/* SPDX-License-Identifier: Apache-2.0 */
/* What is pinned at the shards of a job, which they tell with each membership. */
#include "cluster.h"

void cluster_pins_answer(const struct cluster *c, struct fake_position *p, const struct flight *f,
                         struct master_call_done *done)
{
    const bool again = strcmp(p->pin_id, f->pin_id) == 0;
    if (f->c.kind == MASTER_CALL_PIN && !again) {
        p->pinned = p->version;
        memcpy(p->pin_id, f->pin_id, sizeof p->pin_id);
    } else if (f->c.kind == MASTER_CALL_UNPIN && again) {
        p->pin_id[0] = '\0';
    } else if (f->c.kind == MASTER_CALL_PIN) {
        done->version = p->pinned;
    } else if (f->c.kind == MASTER_CALL_MEMBERSHIP && c->tells_pins && p->pin_id[0] != '\0') {
        done->pins[0].id = p->pin_id;
        done->pins[0].version = p->pinned;
        done->pins[0].slots = true;
        done->pin_count = 1;
    }
}
