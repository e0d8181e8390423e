/* SPDX-License-Identifier: Apache-2.0 */
/* Notes which rows went, and when: what is copied of a table since a version has the rows that
 * changed, which say so themselves (`seen`), and has to name those that are not there any more.
 *
 * Notes come in the order of versions. They are forgotten from the front when nobody will ask for
 * them any more, and all at once when there are too many: then the next copy is of the whole table.
 * Only common/table includes this. Owner: that of the table.
 *
 * A delta is one of the last full checkpoint (decision 55). A row notes the version of its last
 * update, for eviction and catch-up; a row above the base's version has changed, and no other has.
 * So a delta costs nothing beside while nothing is evicted. A chain of deltas would write less and
 * read more: restoring would read all of it, and one damaged file would cost all behind it. The
 * base is forgotten with the shards that wrote it, so each recovery writes one full checkpoint.
 * Counts of admission are written whole: they have no version of their own. */
#ifndef GRADUS_TABLE_TABLE_EVICTED_H
#define GRADUS_TABLE_TABLE_EVICTED_H

#include <stdbool.h>

#include "table/table_memory.h"

#define TABLE_EVICTED_SHARE 8 /* divisor of the memory for copies: the part for notes */

struct table_evicted_note {
    uint64_t key;
    uint64_t version; /* the first without the row */
};

struct table_evicted {
    bool on;
    struct table_budget *budget;
    uint64_t bytes_max;
    struct table_evicted_note *notes;
    size_t count, capacity;
    uint64_t from; /* all keys that were evicted in later versions are noted */
};

/* Nothing is known of what was before @version. Keeps @budget, of which it takes up to
 * 1/TABLE_EVICTED_SHARE. */
void table_evicted_init(struct table_evicted *e, struct table_budget *budget, uint64_t version);
void table_evicted_release(struct table_evicted *e); /* zeroed is fine */

/* Notes that @key has no row from @version on, which is not less than in any note before. When
 * there is no memory for the note, all are forgotten. */
void table_evicted_add(struct table_evicted *e, uint64_t key, uint64_t version);
/* Forgets all notes: nothing is known of versions before @version. False: there were none. */
bool table_evicted_forget(struct table_evicted *e, uint64_t version);
/* Forgets notes of versions before @version, for which nobody will ask. */
void table_evicted_trim(struct table_evicted *e, uint64_t version);

#endif
