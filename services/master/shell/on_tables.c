/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs.Tables: all servers of a job are asked at once what their tables hold. The call that ends
 * last, with an answer or because its time is up, answers the client, on its own thread. When the
 * client goes away, the rest ends by itself, because a server is not asked for long. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "gradus/v1/jobs.pb-c.h"
#include "gradus/v1/ps.pb-c.h"
#include "master/shell/shell.h"

#define ASKED_MAX 8
#define ASK_MS 5000
#define ASK_HOTTEST_MS 20000 /* time in which servers read the notes of all rows */

struct asked_server {
    struct asking *asking;
    char *id;
    struct err err; /* why it has not answered */
    struct rpc_msg *answer;
};

struct asking {
    struct shell *shell;
    struct rpc_call *call;
    char *job, *table;
    atomic_size_t missing; /* calls to servers, and one for the call that makes them */
    size_t count;
    struct asked_server servers[];
};

static const Gradus__V1__StatsResponse *stats_of(const struct asked_server *n)
{
    return n->answer == NULL ? NULL : (const Gradus__V1__StatsResponse *)n->answer->body;
}

static void asking_free(struct asking *a)
{
    for (size_t i = 0; i < a->count; i++) {
        rpc_msg_unref(a->servers[i].answer);
        free(a->servers[i].id);
    }
    rpc_call_unref(a->call);
    free(a->job);
    free(a->table);
    free(a);
}

/* ---- the answer ---- */

struct told_tables {
    size_t count; /* servers, with those that do not answer */
    struct told_shard {
        Gradus__V1__ShardTables message;
        Gradus__V1__TableStats *one; /* of the table that was asked for */
    } * shards;
    Gradus__V1__ShardTables **list;
};

static void add_shard(struct told_tables *told, char *server, const Gradus__V1__ShardStats *stats,
                      char *problem)
{
    Gradus__V1__ShardTables *m = &told->shards[told->count].message;
    gradus__v1__shard_tables__init(m);
    m->ps = server;
    if (stats == NULL) {
        m->problem = problem;
    } else {
        m->shard = stats->shard;
        m->version = stats->version;
        m->tables = stats->tables;
        m->n_tables = stats->n_tables;
    }
    told->list[told->count++] = m;
}

static int by_shard(const void *left, const void *right)
{
    const Gradus__V1__ShardTables *a = *(Gradus__V1__ShardTables *const *)left;
    const Gradus__V1__ShardTables *b = *(Gradus__V1__ShardTables *const *)right;
    const bool a_missing = a->problem[0] != '\0', b_missing = b->problem[0] != '\0';
    if (a_missing != b_missing) {
        return a_missing ? 1 : -1;
    }
    return a->shard != b->shard ? (a->shard < b->shard ? -1 : 1) : strcmp(a->ps, b->ps);
}

/* Gathers what all servers have answered, or why they have not. */
static void gather(struct asking *a, struct told_tables *told)
{
    size_t room = a->count;
    for (size_t i = 0; i < a->count; i++) {
        const Gradus__V1__StatsResponse *r = stats_of(&a->servers[i]);
        room += r == NULL ? 0 : r->n_shards;
    }
    told->shards = mem_new(room + 1, sizeof *told->shards);
    told->list = mem_new(room + 1, sizeof(Gradus__V1__ShardTables *));
    for (size_t i = 0; i < a->count; i++) {
        struct asked_server *n = &a->servers[i];
        const Gradus__V1__StatsResponse *r = stats_of(n);
        if (n->err.code == 0 && (r == NULL || r->n_shards == 0)) {
            (void)err_set(&n->err, ERR_NOT_FOUND, "it has no shard of the job");
        }
        if (n->err.code != 0) {
            add_shard(told, n->id, NULL, n->err.msg);
        }
        for (size_t k = 0; n->err.code == 0 && k < r->n_shards; k++) {
            add_shard(told, n->id, r->shards[k], NULL);
        }
    }
    qsort(told->list, told->count, sizeof(Gradus__V1__ShardTables *), by_shard);
}

static void told_release(struct told_tables *told)
{
    free(told->shards);
    free(told->list);
}

/* Keeps only the table that is asked for. Errors: ERR_NOT_FOUND names the tables that there are. */
static int choose(const struct asking *a, struct told_tables *told, struct err *err)
{
    const Gradus__V1__ShardTables *any = told->list[0];
    struct buf names = {0};
    bool found = false;
    for (size_t i = 0; i < any->n_tables; i++) {
        buf_printf(&names, "%s%s", i > 0 ? ", " : "", any->tables[i]->name);
    }
    for (size_t i = 0; i < told->count; i++) {
        Gradus__V1__ShardTables *m = told->list[i];
        size_t k = 0;
        while (k < m->n_tables && strcmp(m->tables[k]->name, a->table) != 0) {
            k++;
        }
        found = found || k < m->n_tables;
        m->tables = k < m->n_tables ? &m->tables[k] : NULL;
        m->n_tables = k < m->n_tables ? 1 : 0;
    }
    char table[160];
    int rc = found ? 0
                   : err_set(err, ERR_NOT_FOUND, "job %s has no table '%s'; it has %s", a->job,
                             text_shown(a->table, table, sizeof table), buf_str(&names));
    buf_release(&names);
    return rc;
}

static int check(const struct asking *a, struct told_tables *told, struct err *err)
{
    if (told->count == 0) {
        return err_set(err, ERR_STATE, "job %s has no parameter server now", a->job);
    }
    const Gradus__V1__ShardTables *first = told->list[0];
    if (first->problem[0] != '\0') {
        return err_set(err, ERR_UNAVAILABLE,
                       "no parameter server of job %s says what its tables hold: %s: %s", a->job,
                       first->ps, first->problem);
    }
    if (first->n_tables == 0) {
        return err_set(err, ERR_STATE, "job %s has no tables (model.tables)", a->job);
    }
    return a->table[0] == '\0' ? 0 : choose(a, told, err);
}

static void answer(struct asking *a)
{
    struct told_tables told = {0};
    struct err err = {0};
    gather(a, &told);
    if (check(a, &told, &err) != 0) {
        (void)rpc_fail(a->call, &err);
    } else {
        Gradus__V1__TablesResponse r = GRADUS__V1__TABLES_RESPONSE__INIT;
        r.job = a->job;
        r.table = a->table;
        r.shards = told.list;
        r.n_shards = told.count;
        (void)rpc_reply(a->call, &r.base, NULL);
    }
    told_release(&told);
}

/* Any thread: one less is waited for. */
static void answered(struct asking *a)
{
    if (atomic_fetch_sub(&a->missing, 1) != 1) {
        return;
    }
    struct shell *s = a->shell;
    answer(a);
    asking_free(a);
    atomic_fetch_sub(&s->tables_asked, 1);
}

/* ---- the questions ---- */

static void on_done(void *ctx, const struct rpc_status *status, struct rpc_msg *reply)
{
    struct asked_server *n = ctx;
    n->err = status->err;
    if (n->err.code == 0) {
        n->answer = rpc_msg_ref(reply);
    }
    answered(n->asking);
}

static int start(struct asked_server *n, struct err *err)
{
    struct asking *a = n->asking;
    struct master_node_info info;
    if (!shell_find_node(a->shell, n->id, &info) || !info.alive) {
        return err_set(err, ERR_UNAVAILABLE, "the master has lost this node");
    }
    Gradus__V1__StatsRequest q = GRADUS__V1__STATS_REQUEST__INIT;
    q.job = a->job;
    q.hottest = a->table;
    const struct rpc_request request = {
        .service = &gradus__v1__parameter_server__descriptor,
        .method = "Stats",
        .body = &q.base,
        .timeout_ms = a->table[0] == '\0' ? ASK_MS : ASK_HOTTEST_MS,
    };
    struct rpc_channel *channel = peer_channel(a->shell, info.address, 0, err);
    return channel == NULL ? err->code : rpc_call_start(channel, &request, on_done, n, err);
}

static void ask(struct asking *a)
{
    for (size_t i = 0; i < a->count; i++) {
        if (start(&a->servers[i], &a->servers[i].err) != 0) {
            answered(a);
        }
    }
    answered(a);
}

static void run_tables(struct request *r)
{
    struct shell *s = r->shell;
    const Gradus__V1__TablesRequest *q = (const Gradus__V1__TablesRequest *)r->msg->body;
    const struct job_record *record = NULL;
    struct err err = {0};
    int rc = shell_running_job(s, q->job, "asked for its tables", &record, &err);
    if (rc == 0 && atomic_load(&s->tables_asked) >= ASKED_MAX) {
        rc = err_set(&err, ERR_EXHAUSTED, "%d clients are asking for tables", ASKED_MAX);
    }
    if (rc != 0) {
        request_fail(r, &err);
        return;
    }
    const size_t count = record->ps.count;
    struct asking *a = mem_new(1, sizeof *a + count * sizeof a->servers[0]);
    a->shell = s;
    a->call = rpc_call_ref(r->call);
    a->job = mem_strdup(q->job);
    a->table = mem_strdup(q->table);
    a->count = count;
    for (size_t i = 0; i < count; i++) {
        a->servers[i] = (struct asked_server){.asking = a, .id = mem_strdup(record->ps.items[i])};
    }
    atomic_store(&a->missing, count + 1);
    atomic_fetch_add(&s->tables_asked, 1);
    request_free(r);
    ask(a);
}

void on_tables_call(struct rpc_call *call, struct rpc_msg *msg, void *service)
{
    request_begin(service, call, msg, run_tables);
}
