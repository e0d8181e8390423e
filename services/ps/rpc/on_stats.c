/* SPDX-License-Identifier: Apache-2.0 */
/* Stats: each shard tells on its own strand, of itself and its tables; the last one sends the
 * answer. Hottest keys are looked for some rows at a time, so that training goes on. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "job/plan/plan_tables.h"
#include "ps/rpc/ps_shell.h"
#include "wire/wire.h"

#define HOTTEST_ROWS 16384 /* rows of one visit to the strand: a millisecond or two */

struct telling {
    struct strand_task task;
    struct stats *stats;
    struct ps_shard *shard;
    Gradus__V1__ShardStats message;
    Gradus__V1__Ledger ledger_message;
    struct ledger ledger;
    Gradus__V1__TableStats *tables;
    size_t hot;  /* the table whose hottest keys are asked for */
    bool backup; /* whose tables are its primary's once more: it is left out */
    struct table_hottest hottest;
    Gradus__V1__HotKey keys[TABLE_HOTTEST_MAX], *key_list[TABLE_HOTTEST_MAX];
};

struct stats {
    struct rpc_call *call;
    struct rpc_msg *msg; /* the request */
    atomic_size_t missing;
    size_t count;
    struct telling shards[];
};

static void send_stats(struct stats *st)
{
    Gradus__V1__StatsResponse m = GRADUS__V1__STATS_RESPONSE__INIT;
    Gradus__V1__ShardStats **list = mem_new(st->count, sizeof(Gradus__V1__ShardStats *));
    m.shards = list;
    for (size_t i = 0; i < st->count; i++) {
        if (!st->shards[i].backup) {
            list[m.n_shards++] = &st->shards[i].message;
        }
    }
    (void)rpc_reply(st->call, &m.base, NULL);
    free(list);
    for (size_t i = 0; i < st->count; i++) {
        ledger_release(&st->shards[i].ledger);
        free(st->shards[i].message.tables);
        free(st->shards[i].tables);
        ps_shard_unref(st->shards[i].shard);
    }
    rpc_msg_unref(st->msg);
    rpc_call_unref(st->call);
    free(st);
}

static void told(struct stats *st)
{
    if (atomic_fetch_sub(&st->missing, 1) == 1) {
        send_stats(st);
    }
}

static void tell_table(const struct ps_shard *s, size_t i, Gradus__V1__TableStats *m)
{
    struct table_config config;
    struct table_stats stats;
    plan_table_config(&s->spec, i, NULL, s->number, s->plan.shard_count, &config);
    table_stats(s->tables->tables[i], &stats);
    gradus__v1__table_stats__init(m);
    m->name = s->spec.model.tables[i].name;
    m->dim = (uint32_t)config.dim;
    m->rows = stats.rows;
    m->bytes = stats.bytes;
    m->bytes_max = config.bytes_max;
    m->copied_rows = stats.copied_rows;
    m->copies_bytes = stats.copies_bytes;
    m->copies_bytes_max = config.copies_bytes_max;
    m->admitted = stats.admitted;
    m->evicted = stats.evicted;
    m->dropped = stats.dropped;
    m->updated = stats.updated;
    m->refused = stats.refused;
    m->read = stats.read;
}

/* Tells of all tables. True: the hottest keys of one of them are asked for, too. */
static bool tell_tables(struct telling *t)
{
    const char *hottest = ((const Gradus__V1__StatsRequest *)t->stats->msg->body)->hottest;
    const struct ps_shard *s = t->shard;
    bool asked = false;
    if (s->tables == NULL || s->tables->bytes == 0) { /* they are gone */
        return false;
    }
    const size_t count = s->tables->count;
    t->tables = mem_new(count, sizeof *t->tables);
    t->message.tables = mem_new(count, sizeof(Gradus__V1__TableStats *));
    t->message.n_tables = count;
    for (size_t i = 0; i < count; i++) {
        tell_table(s, i, &t->tables[i]);
        t->message.tables[i] = &t->tables[i];
        if (strcmp(hottest, t->tables[i].name) == 0) {
            t->hot = i;
            asked = true;
        }
    }
    return asked;
}

static struct telling *telling_of(struct strand_task *task)
{
    return (struct telling *)((char *)task - offsetof(struct telling, task));
}

static void tell_hottest(struct strand_task *task)
{
    struct telling *t = telling_of(task);
    struct ps_shard *s = t->shard;
    if (s->tables->bytes > 0 &&
        table_hottest(s->tables->tables[t->hot], &t->hottest, HOTTEST_ROWS)) {
        (void)strand_post(&s->strand, task, tell_hottest); /* behind requests that came meanwhile */
        return;
    }
    for (size_t i = 0; i < t->hottest.count; i++) {
        gradus__v1__hot_key__init(&t->keys[i]);
        t->keys[i].key = t->hottest.keys[i].key;
        t->keys[i].sightings = t->hottest.keys[i].sightings;
        t->key_list[i] = &t->keys[i];
    }
    t->tables[t->hot].hottest = t->key_list;
    t->tables[t->hot].n_hottest = t->hottest.count;
    told(t->stats);
}

static void tell(struct strand_task *task)
{
    struct telling *t = telling_of(task);
    struct ps_shard *s = t->shard;
    struct shard_info info;
    struct snapshots_usage usage;
    shard_info(s->core, &info);
    snapshots_usage(&s->snapshots, &usage);
    t->backup = s->tables != NULL && info.role == SHARD_BACKUP;
    Gradus__V1__ShardStats *m = &t->message;
    gradus__v1__shard_stats__init(m);
    m->job = s->job;
    m->shard = s->number;
    m->generation = info.generation;
    m->version = info.version;
    m->elements = info.elements;
    m->bytes = ps_shard_bytes(s);
    m->pushes_applied = info.pushes_applied;
    m->pushes_duplicate = info.pushes_duplicate;
    m->pushes_dropped = info.pushes_dropped;
    m->updates_skipped = s->updates_skipped;
    m->examples = info.examples;
    m->requests_parked = info.parked;
    m->snapshots = usage.held;
    if (info.ledger != NULL) {
        ledger_copy(&t->ledger, info.ledger);
        wire_ledger_to_proto(&t->ledger, &t->ledger_message);
        m->ledger = &t->ledger_message;
    }
    if (tell_tables(t)) {
        (void)strand_post(&s->strand, task, tell_hottest);
        return;
    }
    told(t->stats);
}

void ps_on_stats(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    const Gradus__V1__StatsRequest *r = (const Gradus__V1__StatsRequest *)msg->body;
    struct ps_shard *shards[PS_SHARDS_MAX];
    size_t n = ps_list(service, r->job, shards);
    struct stats *st = mem_new(1, sizeof *st + n * sizeof st->shards[0]);
    st->call = rpc_call_ref(call);
    st->msg = rpc_msg_ref(msg);
    st->count = n;
    atomic_store(&st->missing, n + 1); /* one for this loop */
    for (size_t i = 0; i < n; i++) {
        struct telling *t = &st->shards[i];
        t->stats = st;
        t->shard = shards[i];
        struct ps_shard *s = ps_shard_ref(shards[i]); /* the strand outlives its tasks */
        (void)strand_post(&s->strand, &t->task, tell);
        ps_shard_unref(s);
    }
    told(st);
}
