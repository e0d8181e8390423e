/* SPDX-License-Identifier: Apache-2.0 */
/* What a backup hears of tables. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "ps/rpc/ps_rows.h"
#include "ps/rpc/ps_standby.h"

int ps_heard_rows(struct ps_shard *s, const Gradus__V1__UpdateRecord *m,
                  struct tables_gradient **out, struct err *err)
{
    *out = NULL;
    if (m->rows_bytes == 0) {
        return 0;
    }
    if (s->tables == NULL || m->examples == 0 || m->rows_bytes % sizeof(float) != 0) {
        return err_set(err, ERR_INVALID, "an update with %" PRIu64 " bytes of tables%s",
                       m->rows_bytes, s->tables == NULL ? ", but the job has none" : "");
    }
    *out = tables_gradient_new(s->tables->dims, s->tables->count, VALUE_FP32, m->rows_bytes,
                               &s->ps->budget, err);
    return *out == NULL || tables_gradient_expect(*out, err) != 0 ? ERR_EXHAUSTED : 0;
}

/* ---- parts of a state ---- */

struct heard_part {
    struct strand_task task;
    struct ps_record_stream *stream; /* keeps a reference */
    bool first;
    uint64_t version;
    size_t bytes;
    void *data;
};

/* True if the shard has no state yet, and so no tables. */
static bool joins(const struct ps_shard *s)
{
    struct shard_info info;
    shard_info(s->core, &info);
    return !s->let_go && info.role == SHARD_BACKUP && info.records == 0 && info.broken == NULL;
}

static int put_in(struct ps_shard *s, const struct heard_part *p, struct err *err)
{
    if (p->first) {
        int rc = ps_tables_renew(s, p->version, err);
        s->tables_from = rc == 0 ? p->stream->call : NULL;
        if (rc != 0) {
            return rc;
        }
    }
    const bool takes =
        p->bytes > 0 && s->tables_from == p->stream->call; /* else another stream brings it */
    return takes ? tables_state_take(s->tables, p->data, p->bytes, err) : 0;
}

static void run_part(struct strand_task *task)
{
    struct heard_part *p = (struct heard_part *)((char *)task - offsetof(struct heard_part, task));
    struct ps_record_stream *stream = p->stream;
    struct ps_shard *s = stream->shard;
    struct err err;
    if (joins(s) && put_in(s, p, &err) != 0) {
        s->tables_from = NULL;
        (void)ps_shard_wrap(s, &err);
        (void)rpc_fail(stream->call, &err);
    }
    rpc_resume(stream->call);
    ps_record_stream_unref(stream);
    free(p->data);
    free(p);
}

int ps_heard_part(struct ps_record_stream *s, struct rpc_spans *spans, bool first, uint64_t version,
                  struct err *err)
{
    const size_t bytes = rpc_spans_bytes(spans);
    void *data = bytes == 0 ? NULL : mem_try_aligned(bytes, 1, "a part of the tables", err);
    if (bytes > 0 && data == NULL) {
        return ERR_EXHAUSTED;
    }
    struct heard_part *p = mem_new(1, sizeof *p);
    *p = (struct heard_part){
        .stream = s, .first = first, .version = version, .bytes = bytes, .data = data};
    (void)rpc_spans_read(spans, data, bytes);
    atomic_fetch_add(&s->refs, 1);
    rpc_pause(s->call);
    struct ps_shard *shard = ps_shard_ref(s->shard); /* the part may end the stream */
    (void)strand_post(&shard->strand, &p->task, run_part);
    ps_shard_unref(shard);
    return 0;
}

int ps_heard_whole(const struct ps_shard *s, const struct rpc_call *stream, struct err *err)
{
    return s->tables == NULL || !joins(s) || s->tables_from == stream
               ? 0
               : err_set(err, ERR_UNAVAILABLE, "the tables of the state have not come");
}
