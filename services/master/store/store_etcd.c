/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the rows that a transaction of the database in memory changes as transactions of etcd.
 *
 * A write that etcd has not answered may have been done or not, or be done later. The rows that it
 * would have changed are written back as they were, in front of the next write: the database in
 * memory has rolled it back, and its caller was told so. */
#include "master/store/store_etcd.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "master/store/etcd_txn.h"
#include "master/store/store_journal.h"
#include "master/store/store_mirror.h"
#include "master/store/store_schema.h"
#include "os/chrono.h"
#include "os/log.h"

#define HEAD "head"
#define VERSION "gradus 4" /* the value of HEAD: how rows are written */
_Static_assert(SCHEMA_VERSION == 4, "VERSION changes with the rows");
#define CALL_MS 2000 /* the master's loop waits for it */
#define REST_MS 2000 /* after a write that etcd was slow to fail: the loop has other work */
#define SLOW_MS 500
#define AGAIN_MS 200
#define PAGE_JOBS 32 /* each may have VALUE_BYTES_MAX */
#define PAGE_ROWS 1000
#define VALUE_BYTES_MAX ((size_t)1400 << 10)

struct store_etcd {
    struct etcd *etcd;
    struct etcd_leader *leader;
    const struct etcd_leader_events *events;
    void *ctx;
    char *head, *leader_key;
    int64_t head_revision; /* of its last change; 0: there is no such key */
    struct store_journal journal;
    struct journal_change *undone; /* to be written back */
    size_t undone_count;
    uint64_t rest_until_ms; /* etcd is not asked until then, */
    struct err trouble;     /* since that was its answer */
};

/* ---- one transaction of etcd ---- */

/* One try. *@done false: a revision is another one; then *@reply has both keys. */
static int txn_try(struct store_etcd *e, struct etcd_txn *t, struct rpc_msg **reply,
                   struct err *err)
{
    Etcdserverpb__Compare leads = ETCDSERVERPB__COMPARE__INIT, next = ETCDSERVERPB__COMPARE__INIT;
    Etcdserverpb__Compare *compare[] = {&leads, &next};
    Etcdserverpb__RangeRequest ranges[2];
    Etcdserverpb__RequestOp reads[2], *failure[2];
    Etcdserverpb__TxnRequest body = ETCDSERVERPB__TXN_REQUEST__INIT;
    leads.target = ETCDSERVERPB__COMPARE_TARGET__CREATE;
    leads.key = etcd_bytes(e->leader_key);
    leads.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    leads.create_revision = etcd_leader_revision(e->leader);
    next.target = ETCDSERVERPB__COMPARE_TARGET__MOD;
    next.key = etcd_bytes(e->head);
    next.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_MOD_REVISION;
    next.mod_revision = e->head_revision;
    for (size_t i = 0; i < 2; i++) {
        etcdserverpb__range_request__init(&ranges[i]);
        etcdserverpb__request_op__init(&reads[i]);
        ranges[i].key = compare[i]->key;
        reads[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
        reads[i].request_range = &ranges[i];
        failure[i] = &reads[i];
    }
    etcdserverpb__request_op__init(&t->ops[t->count]);
    etcd_txn_put(t, t->count, e->head, etcd_bytes(VERSION));
    for (size_t i = 0; i <= t->count; i++) {
        t->list[i] = &t->ops[i];
    }
    body.n_compare = body.n_failure = 2;
    body.compare = compare;
    body.failure = failure;
    body.n_success = t->count + 1;
    body.success = t->list;
    return etcd_call(e->etcd, &etcdserverpb__kv__descriptor, "Txn", &body.base, CALL_MS, reply,
                     err);
}

/* The key that a failed transaction has read; NULL: it is not there. */
static const Etcdserverpb__KeyValue *read_key(const Etcdserverpb__TxnResponse *r, size_t i)
{
    const Etcdserverpb__RangeResponse *range =
        i < r->n_responses &&
                r->responses[i]->response_case == ETCDSERVERPB__RESPONSE_OP__RESPONSE_RESPONSE_RANGE
            ? r->responses[i]->response_range
            : NULL;
    return range != NULL && range->n_kvs == 1 ? range->kvs[0] : NULL;
}

static int deposed(struct store_etcd *e, const Etcdserverpb__KeyValue *leader, struct err *err)
{
    const int n = leader == NULL ? 0 : (int)(leader->value.len < 300 ? leader->value.len : 300);
    int rc = err_set(err, ERR_ABORTED,
                     "this master does not lead any more, so its rows are not stored in %s; %s%.*s",
                     etcd_url(e->etcd), n == 0 ? "nobody leads" : "the leader is ", n,
                     n == 0 ? "" : (const char *)leader->value.data);
    etcd_leader_lose(e->leader, err);
    return rc;
}

/* An attempt of which nobody knows whether it was done moves the head: then the next one finds it
 * elsewhere, and does it once more. */
static int txn_commit(struct store_etcd *e, struct etcd_txn *t, struct err *err)
{
    for (int tries = 0; tries < 4; tries++) {
        struct rpc_msg *reply = NULL;
        int rc = txn_try(e, t, &reply, err);
        if (rc < 0) {
            return rc;
        }
        const Etcdserverpb__TxnResponse *r = (const void *)reply->body;
        const Etcdserverpb__KeyValue *leader = read_key(r, 0), *head = read_key(r, 1);
        const bool done = r->succeeded && r->header != NULL;
        if (done) {
            e->head_revision = r->header->revision;
        } else if (leader == NULL || leader->create_revision != etcd_leader_revision(e->leader)) {
            rc = deposed(e, leader, err);
        } else {
            e->head_revision = head == NULL ? 0 : head->mod_revision;
        }
        rpc_msg_unref(reply);
        if (done || rc < 0) {
            return rc;
        }
    }
    return err_set(err, ERR_UNAVAILABLE, "%s: somebody else changes the key %s", etcd_url(e->etcd),
                   e->head);
}

/* ---- changes ---- */

bool store_etcd_leads(struct store_etcd *e)
{
    return etcd_leader_holds(e->leader);
}

static int send(struct store_etcd *e, const struct journal_change *changes, size_t count,
                struct err *err)
{
    struct etcd_txn *t = mem_new(1, sizeof *t);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < count; i++) {
        if (changes[i].is && changes[i].after.len > VALUE_BYTES_MAX) {
            rc = err_set(err, ERR_EXHAUSTED,
                         "%s: the row %.200s has %zu bytes, and etcd takes %zu at most",
                         etcd_url(e->etcd), changes[i].key, changes[i].after.len, VALUE_BYTES_MAX);
        }
    }
    for (size_t i = 0; rc == 0 && i < count;) {
        i += etcd_txn_fill(t, e->etcd, changes + i, count - i);
        rc = txn_commit(e, t, err);
        etcd_txn_release(t);
    }
    free(t);
    return rc;
}

/* The last change comes first, so that what was there before all of them is written last. */
static void remember(struct store_etcd *e, struct journal_change *changes, size_t count)
{
    e->undone = mem_new(count, sizeof *e->undone);
    for (size_t i = 0; i < count; i++) {
        struct journal_change *from = &changes[count - 1 - i];
        e->undone[i] =
            (struct journal_change){.key = from->key, .after = from->before, .is = from->was};
        from->key = NULL;
        from->before = (struct buf){0};
    }
    e->undone_count = count;
}

static void forget_undone(struct store_etcd *e)
{
    journal_changes_release(e->undone, e->undone_count);
    free(e->undone);
    e->undone = NULL;
    e->undone_count = 0;
}

static int write_changes(struct store_etcd *e, struct journal_change *changes, size_t count,
                         struct err *err)
{
    int rc = send(e, e->undone, e->undone_count, err);
    if (rc < 0) {
        return rc;
    }
    forget_undone(e);
    rc = send(e, changes, count, err);
    if (rc < 0) {
        remember(e, changes, count);
    }
    return rc;
}

static int commit(void *ctx, struct journal_change *changes, size_t count, struct err *err)
{
    struct store_etcd *e = ctx;
    const uint64_t now_ms = chrono_now_ms();
    struct err local = {0};
    if (!store_etcd_leads(e)) {
        return err_set(err, ERR_ABORTED,
                       "this master does not lead any more, so its rows are not stored in %s",
                       etcd_url(e->etcd));
    }
    if (now_ms < e->rest_until_ms) {
        return err_set(err, e->trouble.code, "not asked again yet: %s", e->trouble.msg);
    }
    int rc = write_changes(e, changes, count, &local);
    if (rc < 0 && chrono_now_ms() - now_ms >= SLOW_MS) {
        e->rest_until_ms = chrono_now_ms() + REST_MS;
        e->trouble = local;
    }
    return rc < 0 ? err_set(err, rc, "%s", local.msg) : 0;
}

/* ---- reading ---- */

static void pause_reading(void)
{
    const struct timespec ms = {.tv_nsec = (long)AGAIN_MS * 1000000};
    (void)nanosleep(&ms, NULL);
}

/* One page; tries until etcd answers. */
static int read_page(struct store_etcd *e, const Etcdserverpb__RangeRequest *body,
                     struct rpc_msg **reply, struct err *err)
{
    bool told = false;
    while (!e->events->ending(e->ctx)) {
        struct err why = {0};
        int rc = etcd_call(e->etcd, &etcdserverpb__kv__descriptor, "Range", &body->base,
                           CALL_MS * 4, reply, &why);
        if (rc != ERR_UNAVAILABLE && rc != ERR_TIMEOUT) {
            return rc < 0 ? err_set(err, rc, "%s", why.msg) : 0;
        }
        if (!told) {
            char quoted[1200];
            log_warn("store_not_read", "reason=%s", log_quote(why.msg, quoted, sizeof quoted));
            told = true;
        }
        pause_reading();
    }
    return err_set(err, ERR_CANCELLED, "asked to end before the rows are read");
}

/* Calls of one page: the key behind the prefix, and the value. */
static int restore_page(struct store_etcd *e, const Etcdserverpb__RangeResponse *page,
                        size_t prefix_bytes, sqlite3 *db, struct err *err)
{
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < page->n_kvs; i++) {
        const Etcdserverpb__KeyValue *kv = page->kvs[i];
        char *key = mem_printf("%.*s", (int)(kv->key.len - prefix_bytes),
                               (const char *)kv->key.data + prefix_bytes);
        rc = store_journal_restore(db, key, kv->value.data, kv->value.len, err);
        free(key);
    }
    return rc < 0 ? err_wrap(err, "%s", etcd_url(e->etcd)) : 0;
}

/* All keys that begin with @prefix, page by page. */
static int restore_table(struct store_etcd *e, const char *prefix, int64_t limit, sqlite3 *db,
                         struct err *err)
{
    char *first = etcd_key(e->etcd, prefix), *end = mem_strdup(first);
    const size_t prefix_bytes = strlen(first) - strlen(prefix);
    struct buf from = {0};
    bool more = true;
    int rc = 0;
    end[strlen(end) - 1]++; /* "job/" ends before "job0" */
    buf_add_str(&from, first);
    while (rc == 0 && more) {
        Etcdserverpb__RangeRequest body = ETCDSERVERPB__RANGE_REQUEST__INIT;
        struct rpc_msg *reply = NULL;
        body.key = (ProtobufCBinaryData){from.len, (uint8_t *)from.data};
        body.range_end = etcd_bytes(end);
        body.limit = limit;
        rc = read_page(e, &body, &reply, err);
        if (rc == 0) {
            const Etcdserverpb__RangeResponse *page = (const void *)reply->body;
            rc = restore_page(e, page, prefix_bytes, db, err);
            more = page->more && page->n_kvs > 0;
            if (more) { /* the smallest key behind the last one */
                const ProtobufCBinaryData *last = &page->kvs[page->n_kvs - 1]->key;
                buf_reset(&from);
                buf_add(&from, last->data, last->len);
                buf_add_char(&from, '\0');
            }
        }
        rpc_msg_unref(reply);
    }
    buf_release(&from);
    free(first);
    free(end);
    return rc;
}

static int restore_head(struct store_etcd *e, struct err *err)
{
    Etcdserverpb__RangeRequest body = ETCDSERVERPB__RANGE_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    body.key = etcd_bytes(e->head);
    int rc = read_page(e, &body, &reply, err);
    const Etcdserverpb__RangeResponse *page = rc < 0 ? NULL : (const void *)reply->body;
    if (rc == 0 && page->n_kvs == 1) {
        const Etcdserverpb__KeyValue *kv = page->kvs[0];
        e->head_revision = kv->mod_revision;
        if (kv->value.len != strlen(VERSION) ||
            memcmp(kv->value.data, VERSION, kv->value.len) != 0) {
            rc = err_set(err, ERR_UNSUPPORTED,
                         "%s has rows of \"%.*s\"; this master knows \"" VERSION "\"",
                         etcd_url(e->etcd), kv->value.len < 40 ? (int)kv->value.len : 40,
                         (const char *)kv->value.data);
        }
    }
    rpc_msg_unref(reply);
    return rc;
}

static int restore(void *ctx, sqlite3 *db, struct err *err)
{
    struct store_etcd *e = ctx;
    int rc = restore_head(e, err);
    const char *prefix;
    for (size_t i = 0; rc == 0 && (prefix = store_journal_prefix(i)) != NULL; i++) {
        rc = restore_table(e, prefix, i == 0 ? PAGE_JOBS : PAGE_ROWS, db, err);
    }
    return rc;
}

/* ---- life ---- */

struct store_etcd *store_etcd_lead(const struct store_etcd_options *o, struct err *err)
{
    struct store_etcd *e = mem_new(1, sizeof *e);
    e->events = o->events;
    e->ctx = o->ctx;
    e->etcd = etcd_new(&o->settings, err);
    if (e->etcd != NULL) {
        const struct etcd_leader_options options = {.etcd = e->etcd,
                                                    .address = o->address,
                                                    .lease_s = o->lease_s,
                                                    .events = o->events,
                                                    .ctx = o->ctx};
        e->head = etcd_key(e->etcd, HEAD);
        e->leader_key = etcd_key(e->etcd, ETCD_LEADER);
        e->leader = etcd_leader_win(&options, err);
    }
    if (e->leader == NULL) {
        store_etcd_free(e);
        return NULL;
    }
    return e;
}

int store_etcd_open(struct store_etcd *e, struct store **out, struct err *err)
{
    const struct store_mirror mirror = {
        .name = etcd_url(e->etcd), .restore = restore, .ctx = e, .journal = &e->journal};
    e->journal.commit = commit;
    e->journal.ctx = e;
    return store_mirror_open(&mirror, out, err);
}

void store_etcd_free(struct store_etcd *e)
{
    if (e == NULL) {
        return;
    }
    etcd_leader_free(e->leader);
    etcd_free(e->etcd);
    forget_undone(e);
    free(e->journal.changes);
    free(e->head);
    free(e->leader_key);
    free(e);
}
