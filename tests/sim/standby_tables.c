/* SPDX-License-Identifier: Apache-2.0 */
/* What a primary says of tables, as bytes: the rows of an update, and all of them, in parts, to a
 * backup that joins. */
#include "sim/sim.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ps/data/tables_state.h"

/* Bytes that a message has; they are there until the end. */
struct sim_bytes {
    struct sim_bytes *all;
    const struct sim_bytes *then; /* the next part of a state */
    struct sim_rows model;        /* of a state: what must come of it */
    size_t bytes;
    void *data;
};

static struct sim_bytes *bytes_new(struct world *w, size_t bytes, void *data)
{
    struct sim_bytes *b = mem_new(1, sizeof *b);
    b->all = w->said_bytes;
    w->said_bytes = b;
    b->bytes = bytes;
    b->data = data;
    return b;
}

void standby_forget(struct world *w)
{
    while (w->said_bytes != NULL) {
        struct sim_bytes *b = w->said_bytes;
        w->said_bytes = b->all;
        free(b->data);
        free(b);
    }
}

/* ---- an update ---- */

void standby_rows_say(struct world *w, const struct gradient *g, struct sim_record *out)
{
    if (g->tables == NULL) {
        return;
    }
    const size_t bytes = (size_t)tables_gradient_bytes(g->tables);
    void *data = mem_new(1, bytes);
    tables_gradient_encode(g->tables, data);
    out->rows = bytes_new(w, bytes, data);
}

void standby_rows_bring(struct world *w, const struct sim_shard *s, const struct sim_record *said,
                        struct gradient *g)
{
    struct err err = {0};
    if (said->rows == NULL) {
        return;
    }
    g->tables = tables_gradient_new(s->tables->real->dims, SIM_TABLE_COUNT, VALUE_FP32,
                                    said->rows->bytes, &w->tables_budget, &err);
    if (g->tables == NULL || tables_gradient_decode(g->tables, said->rows->data, &err) != 0) {
        violated(w, INVARIANT_STANDBY, "rows that a record brings are refused: %s", err.msg);
    }
}

/* ---- a state ---- */

bool standby_tables_say(struct world *w, const struct sim_shard *s, uint64_t version,
                        struct sim_record *out)
{
    struct tables_state st;
    struct sim_bytes *first = NULL, *last = NULL;
    struct err err = {0};
    void *part;
    size_t bytes;
    int rc = 0;
    if (s->tables == NULL) {
        return true;
    }
    first = last = bytes_new(w, 0, NULL);
    first->model = *tables_model(w, s, version);
    tables_state_begin(&st, s->tables->real, version);
    while ((rc = tables_state_next(&st, &part, &bytes, &err)) == 0 && part != NULL) {
        struct sim_bytes *b = bytes_new(w, bytes, part);
        last->then = b;
        last = b;
    }
    out->state = first;
    if (rc != 0 && tables_has(s, version) && !w->jobs[s->job].table_plans[1].tight) {
        violated(w, INVARIANT_STANDBY, "the state of shard %u cannot be read: %s", s->number,
                 err.msg);
    }
    return rc == 0;
}

void standby_tables_load(struct world *w, struct sim_shard *s, const struct sim_record *said,
                         uint64_t version)
{
    struct err err = {0};
    int rc = 0;
    if (s->tables == NULL) {
        return;
    }
    tables_renew(w, s, version);
    for (const struct sim_bytes *b = said->state->then; rc == 0 && b != NULL; b = b->then) {
        rc = tables_state_take(s->tables->real, b->data, b->bytes, &err);
    }
    if (rc != 0) {
        violated(w, INVARIANT_STANDBY, "a state is refused: %s", err.msg);
    }
    s->tables->models[s->present] = said->state->model;
    tables_check(w, s, w->jobs[s->job].shard_count, version, s->present);
}
