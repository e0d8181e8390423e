/* SPDX-License-Identifier: Apache-2.0 */
/* What the newest generation says that this worker has heard of: its number, where the shards are,
 * the eras of their versions. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/mutant.h"
#include "worker/core/worker_state.h"

uint64_t worker_generation(const struct worker *w)
{
    return w->next_pending ? w->next.generation : w->a.generation;
}

void worker_take_places(struct worker *w, uint64_t generation, const struct worker_place *places)
{
    bool over = generation <= w->placed_generation && !MUTANT(late_places);
    if (places == NULL || over) {
        return;
    }
    w->placed_generation = generation;
    for (uint32_t s = 0; s < w->config.shard_count; s++) {
        struct placed *p = &w->placed[s];
        bool known = p->address != NULL;
        if (known && (MUTANT(first_places) || (p->opening == places[s].opening &&
                                               strcmp(p->address, places[s].address) == 0))) {
            continue;
        }
        free(p->address);
        p->address = mem_strdup(places[s].address);
        p->opening = places[s].opening;
        worker_add(w, WORKER_DO_PLACE)->place =
            (struct worker_do_place){s, {p->address, p->opening}};
    }
}

void worker_take_eras(struct worker *w, const struct era *eras, size_t count)
{
    if (count == 0 || (w->era_count > 0 && MUTANT(first_eras))) {
        return;
    }
    w->era_count = count;
    w->eras = mem_resize(w->eras, count, sizeof *w->eras);
    memcpy(w->eras, eras, count * sizeof *w->eras);
}
