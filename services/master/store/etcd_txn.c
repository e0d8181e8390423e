/* SPDX-License-Identifier: Apache-2.0 */
/* etcd refuses a transaction that writes a key twice, or that writes what it deletes: a change that
 * would do so begins the next one. */
#include "master/store/etcd_txn.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void etcd_txn_put(struct etcd_txn *t, size_t i, const char *key, ProtobufCBinaryData value)
{
    etcdserverpb__put_request__init(&t->puts[i]);
    t->puts[i].key = etcd_bytes(key);
    t->puts[i].value = value;
    t->ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_PUT;
    t->ops[i].request_put = &t->puts[i];
}

static void put_delete(struct etcd_txn *t, size_t i)
{
    etcdserverpb__delete_range_request__init(&t->deletes[i]);
    t->deletes[i].key = etcd_bytes(t->keys[i]);
    if (t->ends[i] != NULL) {
        t->deletes[i].range_end = etcd_bytes(t->ends[i]);
    }
    t->ops[i].request_case = ETCDSERVERPB__REQUEST_OP__REQUEST_REQUEST_DELETE_RANGE;
    t->ops[i].request_delete_range = &t->deletes[i];
}

static bool begins(const char *key, const char *with)
{
    return strncmp(key, with, strlen(with)) == 0;
}

/* Deletes all keys that begin as that of @c, up to the last '/'; false: there is no room. */
static bool add_range(struct etcd_txn *t, const struct etcd *e, const struct journal_change *c)
{
    char *key = etcd_key(e, c->key);
    strrchr(key, '/')[1] = '\0';
    bool room = t->count < ETCD_OPERATIONS_MAX;
    for (size_t i = 0; i < t->count; i++) {
        room = room && !begins(t->keys[i], key);
    }
    if (!room) {
        free(key);
        return false;
    }
    const size_t i = t->count++;
    t->keys[i] = key;
    t->ends[i] = mem_strdup(key);
    t->ends[i][strlen(key) - 1]++; /* "point/digits-1/" ends before "point/digits-10" */
    t->bytes += 2 * strlen(key);
    etcdserverpb__request_op__init(&t->ops[i]);
    put_delete(t, i);
    return true;
}

/* False: there is no room. One key has one change: the last one. */
static bool add(struct etcd_txn *t, const struct etcd *e, const struct journal_change *c)
{
    char *key = etcd_key(e, c->key);
    size_t i = 0;
    bool room = true;
    while (i < t->count && strcmp(t->keys[i], key) != 0) {
        room = room && (t->ends[i] == NULL || !begins(key, t->keys[i]));
        i++;
    }
    const size_t bytes = strlen(key) + (c->is ? c->after.len : 0);
    if (!room || i == ETCD_OPERATIONS_MAX ||
        (t->count > 0 && t->bytes + bytes > ETCD_REQUEST_BYTES_MAX)) {
        free(key);
        return false;
    }
    if (i == t->count) {
        t->keys[t->count++] = key;
    } else {
        free(key);
    }
    t->bytes += bytes;
    etcdserverpb__request_op__init(&t->ops[i]);
    if (c->is) {
        etcd_txn_put(t, i, t->keys[i],
                     (ProtobufCBinaryData){c->after.len, (uint8_t *)c->after.data});
    } else {
        put_delete(t, i);
    }
    return true;
}

static bool begin_alike(const struct journal_change *a, const struct journal_change *b)
{
    const char *slash = strrchr(b->key, '/');
    const size_t n = slash == NULL ? 0 : (size_t)(slash - b->key) + 1;
    return strncmp(a->key, b->key, n) == 0 && strchr(a->key + n, '/') == NULL;
}

/* Of the changes from the first one on, a deletion, those for which one deletion of all keys that
 * begin as theirs stands: the last of them removes the last of these keys. 0: there are none. */
static size_t count_run(const struct journal_change *changes, size_t count)
{
    for (size_t i = 0; !changes[0].is && i < count && begin_alike(&changes[i], &changes[0]); i++) {
        if (changes[i].last) {
            return i + 1;
        }
    }
    return 0;
}

size_t etcd_txn_fill(struct etcd_txn *t, const struct etcd *e, const struct journal_change *changes,
                     size_t count)
{
    size_t i = 0;
    while (i < count) {
        const size_t run = count_run(changes + i, count - i);
        if (run > 0 ? !add_range(t, e, &changes[i]) : !add(t, e, &changes[i])) {
            break;
        }
        i += run > 0 ? run : 1;
    }
    return i;
}

void etcd_txn_release(struct etcd_txn *t)
{
    for (size_t i = 0; i < t->count; i++) {
        free(t->keys[i]);
        free(t->ends[i]);
        t->ends[i] = NULL;
    }
    t->count = t->bytes = 0;
}
