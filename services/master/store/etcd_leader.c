/* SPDX-License-Identifier: Apache-2.0 */
/* Times are taken before a call to etcd, of a clock that goes on while the machine sleeps, so that
 * this process never believes longer in its lease than etcd does; what it writes is fenced by the
 * key's revision all the same. */
#include "master/store/etcd_leader.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "os/log.h"
#include "os/thread.h"

#define CALL_MS 1000
#define LOOK_MS 100 /* between two looks at whether the leader is still there */

struct etcd_leader {
    struct etcd *etcd;
    char *key;
    char *address;
    unsigned lease_s;
    const struct etcd_leader_events *events;
    void *ctx;
    int64_t lease;              /* 0: none */
    _Atomic(uint64_t) until_ms; /* the lease lasts at least so long */
    int64_t revision;           /* of the key; 0: it is another master's */
    char leader[320];           /* while it waits: whose it is */
    int trouble;                /* why etcd does not answer: a code; 0: it does */
    bool told;
    atomic_bool lost;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool stopping;
};

static uint64_t boot_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Sleeps for @ms, or until it is to stop; true: it is. */
static bool pause_for(struct etcd_leader *l, uint64_t ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&l->lock);
    if (!l->stopping) {
        (void)pthread_cond_timedwait(&l->changed, &l->lock, &until); /* early is fine */
    }
    bool stopping = l->stopping;
    pthread_mutex_unlock(&l->lock);
    return stopping;
}

/* ---- waiting for the lead ---- */

static int grant(struct etcd_leader *l, struct err *err)
{
    Etcdserverpb__LeaseGrantRequest body = ETCDSERVERPB__LEASE_GRANT_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    const uint64_t now_ms = boot_ms();
    body.ttl = l->lease_s;
    int rc = etcd_call(l->etcd, &etcdserverpb__lease__descriptor, "LeaseGrant", &body.base, CALL_MS,
                       &reply, err);
    if (rc == 0) {
        l->lease = ((const Etcdserverpb__LeaseGrantResponse *)reply->body)->id;
        l->until_ms = now_ms + (uint64_t)l->lease_s * 1000;
        rpc_msg_unref(reply);
    }
    return rc;
}

static void revoke(struct etcd_leader *l)
{
    Etcdserverpb__LeaseRevokeRequest body = ETCDSERVERPB__LEASE_REVOKE_REQUEST__INIT;
    body.id = l->lease;
    if (l->lease != 0) { /* or it ends by itself */
        (void)etcd_call(l->etcd, &etcdserverpb__lease__descriptor, "LeaseRevoke", &body.base,
                        CALL_MS, NULL, NULL);
    }
    l->lease = 0;
}

/* Reads who leads from the key, if it is there. */
static void read_leader(struct etcd_leader *l, const Etcdserverpb__RangeResponse *found)
{
    l->revision = 0;
    l->leader[0] = '\0';
    if (found == NULL || found->n_kvs == 0) {
        return;
    }
    const Etcdserverpb__KeyValue *kv = found->kvs[0];
    if (l->lease != 0 && kv->lease == l->lease) {
        l->revision = kv->create_revision; /* an attempt whose answer was lost */
        return;
    }
    const size_t n = kv->value.len < sizeof l->leader ? kv->value.len : sizeof l->leader - 1;
    memcpy(l->leader, kv->value.data, n);
    l->leader[n] = '\0';
}

static int look(struct etcd_leader *l, bool *absent, struct err *err)
{
    Etcdserverpb__RangeRequest body = ETCDSERVERPB__RANGE_REQUEST__INIT;
    struct rpc_msg *reply = NULL;
    body.key = etcd_bytes(l->key);
    int rc = etcd_call(l->etcd, &etcdserverpb__kv__descriptor, "Range", &body.base, CALL_MS, &reply,
                       err);
    if (rc == 0) {
        const Etcdserverpb__RangeResponse *found = (const void *)reply->body;
        *absent = found->n_kvs == 0;
        read_leader(l, found);
        rpc_msg_unref(reply);
    }
    return rc;
}

/* Makes the key, unless another master was faster. */
static int claim(struct etcd_leader *l, struct err *err)
{
    Etcdserverpb__Compare absent = ETCDSERVERPB__COMPARE__INIT;
    Etcdserverpb__PutRequest put = ETCDSERVERPB__PUT_REQUEST__INIT;
    Etcdserverpb__RangeRequest range = ETCDSERVERPB__RANGE_REQUEST__INIT;
    Etcdserverpb__RequestOp make = ETCDSERVERPB__REQUEST_OP__INIT;
    Etcdserverpb__RequestOp read = ETCDSERVERPB__REQUEST_OP__INIT;
    Etcdserverpb__TxnRequest body = ETCDSERVERPB__TXN_REQUEST__INIT;
    Etcdserverpb__Compare *compare[] = {&absent};
    Etcdserverpb__RequestOp *success[] = {&make}, *failure[] = {&read};
    struct rpc_msg *reply = NULL;
    absent.target = ETCDSERVERPB__COMPARE_TARGET__CREATE;
    absent.key = put.key = range.key = etcd_bytes(l->key);
    absent.target_union_case = ETCDSERVERPB__COMPARE__TARGET_UNION_CREATE_REVISION;
    put.value = etcd_bytes(l->address);
    put.lease = l->lease;
    make.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    make.request_put = &put;
    read.request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_RANGE;
    read.request_range = &range;
    body.n_compare = body.n_success = body.n_failure = 1;
    body.compare = compare;
    body.success = success;
    body.failure = failure;
    int rc =
        etcd_call(l->etcd, &etcdserverpb__kv__descriptor, "Txn", &body.base, CALL_MS, &reply, err);
    if (rc == 0) {
        const Etcdserverpb__TxnResponse *done = (const void *)reply->body;
        if (done->succeeded && done->header != NULL) {
            l->revision = done->header->revision;
        } else {
            read_leader(l, done->n_responses == 1 ? done->responses[0]->response_range : NULL);
        }
        rpc_msg_unref(reply);
    }
    return rc;
}

/* One attempt; l->revision says whether it was well. */
static int attempt(struct etcd_leader *l, struct err *err)
{
    bool absent = false;
    int rc = look(l, &absent, err);
    if (rc == 0 && absent) {
        revoke(l); /* one of an attempt that nobody knows the end of */
        rc = grant(l, err);
        rc = rc < 0 ? rc : claim(l, err);
    }
    if (rc == 0 && l->revision != 0 && boot_ms() >= l->until_ms) {
        l->revision = 0; /* too late: the key goes by itself */
    }
    return rc;
}

static void tell(struct etcd_leader *l, int rc, const char *before, const struct err *why)
{
    if (!l->told || rc != l->trouble || strcmp(before, l->leader) != 0) {
        l->told = true;
        l->trouble = rc;
        l->events->waits(l->ctx, l->leader, rc == 0 ? NULL : why);
    }
}

static int win(struct etcd_leader *l, struct err *err)
{
    while (!l->events->ending(l->ctx)) {
        char before[sizeof l->leader];
        struct err why = {0};
        memcpy(before, l->leader, sizeof before);
        int rc = attempt(l, &why);
        if (rc == 0 && l->revision != 0) {
            return 0;
        }
        tell(l, rc, before, &why);
        (void)pause_for(l, LOOK_MS);
    }
    return err_set(err, ERR_CANCELLED, "asked to end before this master leads");
}

/* ---- keeping it ---- */

void etcd_leader_lose(struct etcd_leader *l, const struct err *why)
{
    if (!atomic_exchange(&l->lost, true)) {
        l->events->lost(l->ctx, why);
    }
}

static void over(struct etcd_leader *l, const struct err *why)
{
    struct err err;
    (void)err_set(&err, ERR_ABORTED,
                  "this master does not lead any more: its lease in %s is over%s%s",
                  etcd_url(l->etcd), why->code == 0 ? "" : "; ", why->code == 0 ? "" : why->msg);
    etcd_leader_lose(l, &err);
}

bool etcd_leader_holds(struct etcd_leader *l)
{
    static const struct err none;
    if (!atomic_load(&l->lost) && boot_ms() >= l->until_ms) {
        over(l, &none);
    }
    return !atomic_load(&l->lost);
}

/* When two thirds of the lease are left. */
static uint64_t until_due_ms(const struct etcd_leader *l)
{
    const uint64_t due_ms = l->until_ms - (uint64_t)l->lease_s * 1000 * 2 / 3;
    const uint64_t now_ms = boot_ms();
    return due_ms > now_ms ? due_ms - now_ms : 0;
}

/* Keeps the lease three times in its length, more often while etcd does not answer. */
static void *keep(void *ctx)
{
    struct etcd_leader *l = ctx;
    const uint64_t lease_ms = (uint64_t)l->lease_s * 1000;
    struct err why = {0};
    uint64_t pause_ms = until_due_ms(l);
    while (!pause_for(l, pause_ms)) {
        const uint64_t now_ms = boot_ms();
        int64_t ttl_s = 0;
        const uint64_t until_ms = l->until_ms;
        if (now_ms >= until_ms) {
            over(l, &why);
            break;
        }
        const uint64_t left_ms = until_ms - now_ms;
        int rc = etcd_keep_alive(l->etcd, l->lease,
                                 left_ms < CALL_MS ? (unsigned)left_ms + 1 : CALL_MS, &ttl_s, &why);
        if (rc == 0 && ttl_s <= 0) {
            (void)err_set(&why, ERR_NOT_FOUND, "etcd does not know it");
            over(l, &why);
            break;
        }
        if (rc == 0) {
            l->until_ms = now_ms + lease_ms;
            why.code = 0;
        }
        pause_ms = rc == 0 ? until_due_ms(l) : LOOK_MS;
    }
    return NULL;
}

/* ---- life ---- */

struct etcd_leader *etcd_leader_win(const struct etcd_leader_options *o, struct err *err)
{
    struct etcd_leader *l = mem_new(1, sizeof *l);
    pthread_condattr_t attr;
    l->etcd = o->etcd;
    l->key = etcd_key(o->etcd, ETCD_LEADER);
    l->address = mem_strdup(o->address);
    l->lease_s = o->lease_s;
    l->events = o->events;
    l->ctx = o->ctx;
    pthread_mutex_init(&l->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&l->changed, &attr);
    pthread_condattr_destroy(&attr);
    int rc = win(l, err);
    if (rc == 0) {
        l->started = thread_start(&l->thread, "master-lease", keep, l) == 0;
        rc = l->started ? 0 : err_set(err, ERR_EXHAUSTED, "no thread for the lease");
    }
    if (rc < 0) {
        etcd_leader_free(l);
        return NULL;
    }
    return l;
}

int64_t etcd_leader_revision(const struct etcd_leader *l)
{
    return l->revision;
}

void etcd_leader_free(struct etcd_leader *l)
{
    if (l == NULL) {
        return;
    }
    pthread_mutex_lock(&l->lock);
    l->stopping = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    if (l->started) {
        (void)pthread_join(l->thread, NULL);
    }
    revoke(l);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    free(l->key);
    free(l->address);
    free(l);
}
