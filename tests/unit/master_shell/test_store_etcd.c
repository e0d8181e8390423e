/* SPDX-License-Identifier: Apache-2.0 */
/* A store in etcd while etcd is away or slow, and while another master leads. */
#include "support/test.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "master/core/job_record.h"
#include "store_rig.h"
#include "support/wait_until.h"

#define LONG_LEASE_S ETCD_LEASE_S_MAX

static struct rig_etcd server;

/* A master: what it hears of who leads. */
struct side {
    const char *address;
    atomic_bool ending;
    atomic_int lost;
    pthread_mutex_t lock; /* guards what follows */
    char leader[64], trouble[1024], why[1024];
    struct store_etcd *etcd;
    struct store *store;
};

static bool ending(void *ctx)
{
    return atomic_load(&((struct side *)ctx)->ending);
}

static void waits(void *ctx, const char *leader, const struct err *why)
{
    struct side *m = ctx;
    pthread_mutex_lock(&m->lock);
    (void)snprintf(m->leader, sizeof m->leader, "%s", leader);
    (void)snprintf(m->trouble, sizeof m->trouble, "%s", why == NULL ? "" : why->msg);
    pthread_mutex_unlock(&m->lock);
}

static void lost(void *ctx, const struct err *why)
{
    struct side *m = ctx;
    pthread_mutex_lock(&m->lock);
    (void)snprintf(m->why, sizeof m->why, "%s", why->msg);
    pthread_mutex_unlock(&m->lock);
    atomic_fetch_add(&m->lost, 1);
}

static int lead_at(struct side *m, const char *address, const char *url, unsigned lease_s,
                   struct err *err)
{
    static const struct etcd_leader_events events = {ending, waits, lost};
    m->address = address;
    const struct store_etcd_options options = {.settings = {.url = url},
                                               .address = address,
                                               .lease_s = lease_s,
                                               .events = &events,
                                               .ctx = m};
    m->etcd = store_etcd_lead(&options, err);
    return m->etcd == NULL ? err->code : store_etcd_open(m->etcd, &m->store, err);
}

static int lead_for(struct side *m, const char *address, const char *prefix, unsigned lease_s,
                    struct err *err)
{
    char *url = rig_etcd_url(&server, prefix);
    int rc = lead_at(m, address, url, lease_s, err);
    free(url);
    return rc;
}

static void lead(struct side *m, const char *address, const char *prefix)
{
    struct err err = {0};
    *m = (struct side){0};
    if (lead_for(m, address, prefix, LONG_LEASE_S, &err) < 0) {
        fail_msg("%s", err.msg);
    }
}

static void leave(struct side *m)
{
    if (m->store != NULL) {
        m->store->ops->close(m->store);
    }
    store_etcd_free(m->etcd);
    m->store = NULL;
    m->etcd = NULL;
}

static int put(struct store *s, const char *id, int state, struct err *err)
{
    const struct store_row row = {.id = id,
                                  .name = "a",
                                  .request_id = "",
                                  .number = strtoull(strrchr(id, '-') + 1, NULL, 10),
                                  .state = state,
                                  .ended_ms = job_state_is_final((enum job_state)state) ? 1 : 0,
                                  .job = id,
                                  .job_bytes = strlen(id)};
    return s->ops->put(s, &row, err);
}

static int collect(void *ctx, const struct store_row *row, struct err *err)
{
    (void)err;
    assert_null(row->damage);
    buf_printf(ctx, "%s/%d ", row->id, row->state);
    return 0;
}

static void check_rows(struct store *s, const char *expected)
{
    struct buf rows = {0};
    assert_int_equal(s->ops->load(s, 1000, collect, &rows, NULL), 0);
    assert_string_equal(buf_str(&rows), expected);
    buf_release(&rows);
}

/* Another program changes a key. */
static void change(const char *prefix, const char *name, const char *value)
{
    char *url = rig_etcd_url(&server, prefix);
    const struct etcd_settings settings = {.url = url};
    struct err err = {0};
    struct etcd *e = etcd_new(&settings, &err);
    assert_non_null(e);
    char *key = etcd_key(e, name);
    Etcdserverpb__PutRequest change_put = ETCDSERVERPB__PUT_REQUEST__INIT;
    Etcdserverpb__DeleteRangeRequest change_delete = ETCDSERVERPB__DELETE_RANGE_REQUEST__INIT;
    Etcdserverpb__RequestOp op = ETCDSERVERPB__REQUEST_OP__INIT;
    Etcdserverpb__TxnRequest body = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__RequestOp *success[] = {&op};
    change_put.key = change_delete.key = etcd_bytes(key);
    if (value != NULL) {
        change_put.value = etcd_bytes(value);
        op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
        op.request_put = &change_put;
    } else {
        op.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
        op.request_delete_range = &change_delete;
    }
    body.n_success = 1;
    body.success = success;
    assert_int_equal(
        etcd_call(e, &etcdserverpb__kv__descriptor, "Txn", &body.base, 60000, NULL, &err), 0);
    free(key);
    etcd_free(e);
    free(url);
}

/* ---- who leads ---- */

/* Its lease ended while it stood still, say; it does not know of it yet. */
static void a_master_that_leads_no_more_stores_nothing(void **state)
{
    (void)state;
    struct side old, new;
    struct err err = {0};
    lead(&old, "old:7000", "deposed");
    assert_true(store_etcd_leads(old.etcd));
    assert_int_equal(put(old.store, "a-1", 1, &err), 0);
    change("deposed", ETCD_LEADER, NULL);
    lead(&new, "new:7000", "deposed");
    assert_int_equal(put(old.store, "a-1", 2, &err), ERR_ABORTED);
    assert_non_null(strstr(err.msg, "does not lead any more"));
    assert_non_null(strstr(err.msg, "the leader is new:7000"));
    assert_int_equal(put(old.store, "a-2", 1, &err), ERR_ABORTED);
    assert_int_equal(atomic_load(&old.lost), 1);
    assert_false(store_etcd_leads(old.etcd));
    check_rows(old.store, "a-1/1 ");
    assert_int_equal(put(new.store, "a-3", 1, &err), 0);
    leave(&old); /* and the new one leads on */
    assert_int_equal(put(new.store, "a-4", 1, &err), 0);
    check_rows(new.store, "a-1/1 a-3/1 a-4/1 ");
    leave(&new);
}

struct waiting {
    struct side side;
    pthread_t thread;
    int rc;
};

static void *wait_for_the_lead(void *ctx)
{
    struct waiting *w = ctx;
    struct err err = {0};
    w->rc = lead_for(&w->side, "second:7000", "turns", LONG_LEASE_S, &err);
    return NULL;
}

static bool says(struct side *m, const char *text, const char *expected)
{
    pthread_mutex_lock(&m->lock);
    bool does = strstr(text, expected) != NULL;
    pthread_mutex_unlock(&m->lock);
    return does;
}

static void the_next_one_leads_when_the_first_goes(void **state)
{
    (void)state;
    struct side first;
    struct waiting second = {.rc = 1};
    lead(&first, "first:7000", "turns");
    assert_int_equal(put(first.store, "a-1", 3, NULL), 0);
    assert_int_equal(pthread_create(&second.thread, NULL, wait_for_the_lead, &second), 0);
    wait_until(says(&second.side, second.side.leader, "first:7000"));
    leave(&first);
    assert_int_equal(pthread_join(second.thread, NULL), 0);
    assert_int_equal(second.rc, 0);
    check_rows(second.side.store, "a-1/3 ");
    leave(&second.side);
}

static void who_waits_may_end(void **state)
{
    (void)state;
    struct side first;
    struct waiting second = {.rc = 1};
    lead(&first, "first:7000", "turns");
    assert_int_equal(pthread_create(&second.thread, NULL, wait_for_the_lead, &second), 0);
    atomic_store(&second.side.ending, true);
    assert_int_equal(pthread_join(second.thread, NULL), 0);
    assert_int_equal(second.rc, ERR_CANCELLED);
    leave(&first);
}

/* ---- etcd is away ---- */

/* It is done later, or not at all: whatever etcd does, the row is as its caller was told. */
static void what_was_not_answered_is_undone(void **state)
{
    (void)state;
    struct side m;
    struct err err = {0};
    lead(&m, "m:7000", "slow");
    assert_int_equal(put(m.store, "a-1", 1, &err), 0);
    assert_int_equal(kill(server.process.pid, SIGSTOP), 0);
    assert_true(put(m.store, "a-1", 2, &err) < 0);
    assert_true(put(m.store, "a-2", 2, &err) < 0);
    assert_non_null(strstr(err.msg, server.client.address));
    check_rows(m.store, "a-1/1 ");
    assert_int_equal(kill(server.process.pid, SIGCONT), 0);
    wait_until(put(m.store, "a-3", 1, &err) == 0);
    leave(&m);
    lead(&m, "m:7000", "slow");
    check_rows(m.store, "a-1/1 a-3/1 ");
    leave(&m);
}

static bool put_is_not_sent(struct store *s)
{
    struct err err = {0};
    return put(s, "a-1", 2, &err) == ERR_TIMEOUT && strstr(err.msg, "not asked again yet") != NULL;
}

/* The loop that writes has other work than to wait for it again and again. */
static void a_slow_etcd_is_left_alone_for_a_while(void **state)
{
    (void)state;
    struct side m;
    lead(&m, "m:7000", "rest");
    assert_int_equal(kill(server.process.pid, SIGSTOP), 0);
    wait_until(put_is_not_sent(m.store));
    assert_int_equal(kill(server.process.pid, SIGCONT), 0);
    wait_until(put(m.store, "a-1", 3, NULL) == 0);
    check_rows(m.store, "a-1/3 ");
    leave(&m);
}

/* It takes connections and says nothing. */
static void a_member_that_hangs_is_passed(void **state)
{
    (void)state;
    struct side m = {0};
    struct err err = {0};
    struct held_port silent;
    held_port_take(&silent);
    assert_int_equal(listen(silent.fd, 16), 0);
    char *url = mem_printf("etcd://%s,%s/two", silent.address, server.client.address);
    if (lead_at(&m, "m:7000", url, LONG_LEASE_S, &err) < 0) {
        fail_msg("%s", err.msg);
    }
    wait_until(put(m.store, "a-1", 1, &err) == 0);
    leave(&m);
    lead(&m, "m:7000", "two");
    check_rows(m.store, "a-1/1 ");
    leave(&m);
    free(url);
    held_port_release(&silent);
}

static void a_killed_etcd_comes_back(void **state)
{
    (void)state;
    struct side m;
    struct err err = {0};
    lead(&m, "m:7000", "killed");
    assert_int_equal(put(m.store, "a-1", 1, &err), 0);
    rig_etcd_kill(&server);
    int rc = put(m.store, "a-1", 2, &err);
    assert_true(rc == ERR_UNAVAILABLE || rc == ERR_TIMEOUT);
    rig_etcd_start(&server);
    wait_until(put(m.store, "a-1", 3, &err) == 0);
    leave(&m);
    lead(&m, "m:7000", "killed");
    check_rows(m.store, "a-1/3 ");
    leave(&m);
}

/* A master waits for it, and says so. */
static void an_etcd_that_is_not_there_is_waited_for(void **state)
{
    (void)state;
    struct waiting m = {.rc = 1};
    rig_etcd_kill(&server);
    assert_int_equal(pthread_create(&m.thread, NULL, wait_for_the_lead, &m), 0);
    wait_until(says(&m.side, m.side.trouble, server.client.address));
    rig_etcd_start(&server);
    assert_int_equal(pthread_join(m.thread, NULL), 0);
    assert_int_equal(m.rc, 0);
    leave(&m.side);
}

static void a_lease_ends_without_etcd(void **state)
{
    (void)state;
    struct side m = {0};
    struct err err = {0};
    assert_int_equal(lead_for(&m, "m:7000", "lease", ETCD_LEASE_S_MIN, &err), 0);
    rig_etcd_kill(&server);
    wait_until(atomic_load(&m.lost) == 1);
    assert_non_null(strstr(m.why, "its lease in etcd://"));
    assert_non_null(strstr(m.why, "is over"));
    assert_false(store_etcd_leads(m.etcd));
    assert_int_equal(put(m.store, "a-1", 1, &err), ERR_ABORTED); /* etcd is not asked */
    assert_non_null(strstr(err.msg, "does not lead any more"));
    rig_etcd_start(&server);
    leave(&m);
}

/* ---- limits ---- */

static void many_rows_go_in_several_transactions(void **state)
{
    (void)state;
    struct side m;
    const struct store_trim all = {.old_ms = INT64_MIN, .settled_ms = 1000, .now_ms = 1000};
    size_t removed = 0;
    uint64_t number = 0;
    lead(&m, "m:7000", "many");
    for (int i = 1; i <= 140; i++) {
        char id[16];
        (void)snprintf(id, sizeof id, "a-%d", i);
        assert_int_equal(put(m.store, id, JOB_FAILED, NULL), 0);
    }
    leave(&m);
    lead(&m, "m:7000", "many");
    assert_int_equal(m.store->ops->trim(m.store, &all, &removed, NULL), 0);
    assert_int_equal(removed, 140);
    leave(&m);
    lead(&m, "m:7000", "many");
    check_rows(m.store, "");
    assert_int_equal(m.store->ops->next_number(m.store, "a", &number, NULL), 0);
    assert_int_equal(number, 141);
    leave(&m);
}

/* Of the whole etcd: each transaction raises it by one. */
static int64_t revision(void)
{
    char *url = rig_etcd_url(&server, "curves");
    const struct etcd_settings settings = {.url = url};
    struct err err = {0};
    struct etcd *e = etcd_new(&settings, &err);
    struct rpc_msg *reply = NULL;
    Etcdserverpb__RangeRequest body = ETCDSERVERPB__RANGE_REQUEST__INIT;
    assert_non_null(e);
    body.key = etcd_bytes("/");
    assert_int_equal(
        etcd_call(e, &etcdserverpb__kv__descriptor, "Range", &body.base, 60000, &reply, &err), 0);
    const int64_t at = ((const Etcdserverpb__RangeResponse *)reply->body)->header->revision;
    rpc_msg_unref(reply);
    etcd_free(e);
    free(url);
    return at;
}

static void count_point(void *ctx, const struct store_point *point)
{
    (void)point;
    ++*(size_t *)ctx;
}

static size_t count_points(struct store *s, const char *job)
{
    size_t count = 0;
    assert_int_equal(s->ops->each_point(s, job, count_point, &count, NULL), 0);
    return count;
}

static void add_points(struct store *s, const char *job, uint64_t from, size_t count)
{
    struct store_point points[400];
    assert_true(count <= 400);
    for (size_t i = 0; i < count; i++) {
        points[i] = (struct store_point){job, from + i, 7, "x", 1};
    }
    assert_int_equal(s->ops->add_points(s, points, count, NULL), 0);
}

/* What is left of others, of names that begin alike and of what is written anew, stays. */
static void a_curve_goes_in_one_operation(void **state)
{
    (void)state;
    static const char *const jobs[] = {"a-1", "a-10", "a-2"};
    char rows[64];
    struct side m;
    lead(&m, "m:7000", "curves");
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(put(m.store, jobs[i], JOB_FAILED, NULL), 0);
        add_points(m.store, jobs[i], 1, 400);
    }
    int64_t before = revision();
    assert_int_equal(m.store->ops->remove(m.store, "a-1", NULL), 0);
    assert_int_equal(revision(), before + 1);
    before = revision();
    add_points(m.store, "a-2", 1, 5); /* it went back to its beginning: all others go */
    assert_true(revision() <= before + 2);
    add_points(m.store, "a-10", 201, 1); /* half of them */
    leave(&m);
    lead(&m, "m:7000", "curves");
    assert_int_equal(count_points(m.store, "a-1"), 0);
    assert_int_equal(count_points(m.store, "a-10"), 201);
    assert_int_equal(count_points(m.store, "a-2"), 5);
    (void)snprintf(rows, sizeof rows, "a-10/%d a-2/%d ", JOB_FAILED, JOB_FAILED);
    check_rows(m.store, rows);
    leave(&m);
}

static void a_row_has_a_limit(void **state)
{
    (void)state;
    struct side m;
    struct err err = {0};
    struct buf job = {0};
    char *data = mem_new(3 << 20, 1);
    memset(data, 'x', 3 << 20);
    struct store_row row = {.id = "a-1",
                            .name = "a",
                            .request_id = "",
                            .number = 1,
                            .state = 1,
                            .job = data,
                            .job_bytes = 1 << 20};
    lead(&m, "m:7000", "large");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(m.store->ops->put(m.store, &row, &err), 0);
    }
    row.id = "a-2";
    row.job_bytes = 3 << 20;
    assert_int_equal(m.store->ops->put(m.store, &row, &err), ERR_EXHAUSTED);
    assert_non_null(strstr(err.msg, "the row job/a-2 has 31457"));
    leave(&m);
    lead(&m, "m:7000", "large");
    assert_int_equal(m.store->ops->get(m.store, "a-1", &job, NULL), 0);
    assert_int_equal(job.len, 1 << 20);
    assert_int_equal(m.store->ops->get(m.store, "a-2", &job, NULL), ERR_NOT_FOUND);
    leave(&m);
    buf_release(&job);
    free(data);
}

/* ---- what is not ours ---- */

static void other_values_are_refused(void **state)
{
    (void)state;
    struct side m = {0};
    struct err err = {0};
    change("bad", "job/a-1", "\377 no row");
    assert_int_equal(lead_for(&m, "m:7000", "bad", LONG_LEASE_S, &err), ERR_CORRUPT);
    assert_non_null(strstr(err.msg, "the value of job/a-1 is no row"));
    leave(&m);
    change("newer", "head", "gradus 99");
    assert_int_equal(lead_for(&m, "m:7000", "newer", LONG_LEASE_S, &err), ERR_UNSUPPORTED);
    assert_non_null(strstr(err.msg, "has rows of \"gradus 99\""));
    leave(&m);
}

static void addresses_are_checked(void **state)
{
    (void)state;
    static const struct {
        struct etcd_settings settings;
        const char *words;
    } bad[] = {
        {{.url = "zookeeper://h:1/p"}, "no such kind of store"},
        {{.url = "etcd://h:1"}, "the prefix of the keys is missing"},
        {{.url = "etcd://h:1/"}, "the prefix of the keys is missing"},
        {{.url = "etcd://h:1/p/"}, "the prefix of the keys is missing"},
        {{.url = "etcd://h:1,/p"}, "a member is no host and port"},
        {{.url = "etcd://h/p"}, "a member is no host and port"},
        {{.url = "etcd://a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1,a:1/p"}, "too many members"},
        {{.url = "etcd://h:1/p", .cert = "c"}, "one is missing"},
        {{.url = "etcd://h:1/p", .cert = "c", .key = "k"}, "without --store-tls-ca"},
        {{.url = "etcd://h:1/p", .ca = "/nowhere.pem"}, "/nowhere.pem"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct err err = {0};
        assert_int_equal(etcd_check(&bad[i].settings, &err), ERR_INVALID);
        if (strstr(err.msg, bad[i].words) == NULL) {
            fail_msg("%s: %s", bad[i].settings.url, err.msg);
        }
    }
    const struct etcd_settings good = {.url = "etcd://a:1,[::1]:2/gradus/one"};
    assert_int_equal(etcd_check(&good, NULL), 0);
}

static int begin(void **state)
{
    (void)state;
    rpc_init();
    rig_etcd_make(&server);
    return 0;
}

static int end(void **state)
{
    (void)state;
    rig_etcd_remove(&server);
    rpc_shutdown();
    return 0;
}

int main(void)
{
    const struct CMUnitTest without[] = {cmocka_unit_test(addresses_are_checked)};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_master_that_leads_no_more_stores_nothing),
        cmocka_unit_test(the_next_one_leads_when_the_first_goes),
        cmocka_unit_test(who_waits_may_end),
        cmocka_unit_test(what_was_not_answered_is_undone),
        cmocka_unit_test(a_slow_etcd_is_left_alone_for_a_while),
        cmocka_unit_test(a_member_that_hangs_is_passed),
        cmocka_unit_test(a_killed_etcd_comes_back),
        cmocka_unit_test(an_etcd_that_is_not_there_is_waited_for),
        cmocka_unit_test(a_lease_ends_without_etcd),
        cmocka_unit_test(many_rows_go_in_several_transactions),
        cmocka_unit_test(a_curve_goes_in_one_operation),
        cmocka_unit_test(a_row_has_a_limit),
        cmocka_unit_test(other_values_are_refused),
    };
    int rc = cmocka_run_group_tests(without, NULL, NULL);
    if (!rig_etcd_is_installed()) {
        print_message("skipped: etcd is not installed (script/bootstrap)\n");
        return rc;
    }
    return rc + cmocka_run_group_tests(tests, begin, end);
}
