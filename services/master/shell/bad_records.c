/* SPDX-License-Identifier: Apache-2.0 */
/* The number of bad records of a job's files that are left out, as the worker said that looked at
 * the data: a text of the store beside the job's row. The core knows nothing of it. Everything on
 * the loop. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "master/shell/shell.h"

static void read_text(struct shell *s, const char *job, struct buf *out)
{
    if (s->store == NULL) { /* a shell without one has no rows either */
        return;
    }
    char *key = mem_printf(STORE_BAD_RECORDS_OF "%s", job);
    if (s->store->ops->get_text(s->store, key, out, NULL) != 0) {
        buf_reset(out);
    }
    free(key);
}

/* A store that fails has been reported by those whose rows must be stored; here it costs a number
 * in a status. */
void bad_records_store(struct shell *s, const char *job, uint64_t count)
{
    struct buf before = {0};
    read_text(s, job, &before);
    char *now = mem_printf("%" PRIu64, count);
    if (s->store != NULL && strcmp(buf_str(&before), now) != 0 && (before.len > 0 || count > 0)) {
        char *key = mem_printf(STORE_BAD_RECORDS_OF "%s", job);
        (void)s->store->ops->put_text(s->store, key, now, NULL);
        free(key);
    }
    free(now);
    buf_release(&before);
}

uint64_t bad_records_read(struct shell *s, const char *job)
{
    struct buf text = {0};
    int64_t count = 0;
    read_text(s, job, &text);
    bool known = text_to_int(buf_str(&text), &count) && count > 0;
    buf_release(&text);
    return known ? (uint64_t)count : 0;
}
