/* SPDX-License-Identifier: Apache-2.0 */
/* Object stores that speak S3. An object appears at once and whole, so nothing is to be renamed or
 * synced; a directory is the part of a key before a slash. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "os/chrono.h"
#include "storage/s3_find.h"
#include "storage/s3_list.h"
#include "storage/s3_upload.h"
#include "storage/storage_kind.h"
#include "storage/storage_stream.h"

/* Small files come with the request that opens them, and who reads in small pieces, one behind the
 * other, gets them from one request. */
#define HEAD_BYTES STREAM_HEAD_BYTES
#define AHEAD_BYTES ((size_t)4 << 20)
#define SETTLE_MS_MAX 2000

static int check(const char *location, struct err *err)
{
    struct s3_place place;
    int rc = s3_place_parse(location, &place, err);
    rc = rc != 0 ? rc : s3_ready(err);
    return rc == 0 ? 0 : err_wrap(err, "object store");
}

static int parse_file(const char *location, struct s3_place *place, struct err *err)
{
    int rc = s3_place_parse(location, place, err);
    return rc != 0 || place->key[0] != '\0'
               ? rc
               : err_set(err, ERR_INVALID, "%s: a bucket, not a file", location);
}

/* ---- reading ---- */

struct reading {
    struct s3_place place;
    char *if_match; /* header; NULL: the store has no entity tags */
    char *head;
    size_t head_bytes;
    pthread_mutex_t lock; /* of what is below */
    char *ahead;
    uint64_t ahead_first;
    size_t ahead_bytes;
};

static int get(const struct s3_place *place, void *out, size_t n, struct s3_answer *a,
               struct err *err)
{
    struct s3_request r = {.method = "GET", .place = place, .out = out, .out_bytes = n};
    return s3_call(&r, a, err);
}

static int one(void *ctx, const char *key, struct err *err)
{
    (void)key;
    (void)err;
    *(bool *)ctx = true;
    return 0;
}

static int look(const char *location, enum storage_thing *thing, struct err *err)
{
    struct s3_place place;
    struct err local = {0};
    int rc = s3_place_parse(location, &place, &local);
    if (rc == 0 && place.key[0] != '\0') {
        struct s3_answer a;
        char byte;
        rc = get(&place, &byte, 1, &a, &local);
        s3_answer_release(&a);
        if (rc == 0 || rc == ERR_RANGE) { /* of an empty file */
            *thing = STORAGE_FILE;
            return 0;
        }
    }
    if (rc == 0 || rc == ERR_NOT_FOUND) {
        bool is_there = place.key[0] == '\0';
        rc = s3_list(&place, "", false, 1, one, &is_there, &local);
        if (rc == 0) {
            *thing = is_there ? STORAGE_DIRECTORY : STORAGE_NOTHING;
        }
    }
    return rc == 0 ? 0 : err_set(err, rc, "%s", local.msg);
}

static int stamp(const char *location, struct buf *out, struct err *err)
{
    struct s3_place place;
    struct s3_answer a = {0};
    struct err local = {0};
    char byte;
    int rc = parse_file(location, &place, &local);
    rc = rc != 0 ? rc : get(&place, &byte, 1, &a, &local);
    if (rc == 0 || rc == ERR_RANGE) {
        rc = 0;
        buf_printf(out, "%llu %s", (unsigned long long)a.total_bytes, a.etag);
    }
    s3_answer_release(&a);
    return rc == 0 ? 0 : err_set(err, rc, "%s", local.msg);
}

static int open_reader(struct storage_reader *r, const char *location, struct err *err)
{
    struct reading *o = mem_new(1, sizeof *o);
    o->head = mem_new(HEAD_BYTES, 1);
    pthread_mutex_init(&o->lock, NULL);
    r->state = o;
    struct s3_answer a = {0};
    struct err local = {0};
    int rc = parse_file(location, &o->place, &local);
    if (rc == 0) {
        rc = get(&o->place, o->head, HEAD_BYTES, &a, &local);
        rc = rc == ERR_RANGE ? 0 : rc;
        o->head_bytes = a.got;
        r->bytes = a.got == 0 ? 0 : a.total_bytes;
        o->if_match = a.etag[0] == '\0' ? NULL : mem_printf("if-match: %s", a.etag);
    }
    s3_answer_release(&a);
    if (rc != 0) {
        r->kind->close(r);
        r->state = NULL;
        (void)err_set(err, rc, "%s", local.msg);
    }
    return rc;
}

static void close_reader(struct storage_reader *r)
{
    struct reading *o = r->state;
    pthread_mutex_destroy(&o->lock);
    free(o->if_match);
    free(o->head);
    free(o->ahead);
    free(o);
}

/* An entity tag is another one when the object is; where a store has none, its size may tell. */
static int fetch(const struct storage_reader *r, uint64_t at, char *out, size_t n, struct err *err)
{
    const struct reading *o = r->state;
    struct s3_request request = {.method = "GET",
                                 .place = &o->place,
                                 .headers = {o->if_match},
                                 .out = out,
                                 .first = at,
                                 .out_bytes = n,
                                 .stop = r->stop};
    struct s3_answer a;
    struct err local = {0};
    int rc = s3_call(&request, &a, &local);
    if (rc == ERR_EXISTS || rc == ERR_RANGE ||
        (rc == 0 && (a.got != n || a.total_bytes != r->bytes))) {
        rc = err_set(err, ERR_CORRUPT, "the file was replaced while it was read");
    } else if (rc == ERR_NOT_FOUND) {
        rc = err_set(err, rc, "the file was removed while it was read");
    } else if (rc != 0) {
        (void)err_set(err, rc, "%s", local.msg);
    }
    s3_answer_release(&a);
    return rc;
}

/* Reads from what was read ahead; when @at is not in it, the next part is read ahead first. */
static int read_ahead(const struct storage_reader *r, uint64_t at, char *out, size_t n,
                      struct err *err)
{
    struct reading *o = r->state;
    int rc = 0;
    pthread_mutex_lock(&o->lock);
    if (o->ahead == NULL || at < o->ahead_first || at + n > o->ahead_first + o->ahead_bytes) {
        o->ahead = o->ahead != NULL ? o->ahead : mem_new(AHEAD_BYTES, 1);
        o->ahead_bytes = r->bytes - at < AHEAD_BYTES ? (size_t)(r->bytes - at) : AHEAD_BYTES;
        o->ahead_first = at;
        rc = fetch(r, at, o->ahead, o->ahead_bytes, err);
        o->ahead_bytes = rc == 0 ? o->ahead_bytes : 0;
    }
    if (rc == 0) {
        memcpy(out, o->ahead + (at - o->ahead_first), n);
    }
    pthread_mutex_unlock(&o->lock);
    return rc;
}

static int read_at(const struct storage_reader *r, uint64_t at, void *out, size_t n,
                   struct err *err)
{
    const struct reading *o = r->state;
    if (n == 0) {
        return 0;
    }
    if (at > r->bytes || n > r->bytes - at) {
        return err_set(err, ERR_CORRUPT, "the file ends at byte %llu",
                       (unsigned long long)r->bytes);
    }
    if (at + n <= o->head_bytes) {
        memcpy(out, o->head + at, n);
        return 0;
    }
    return n < AHEAD_BYTES / 2 ? read_ahead(r, at, out, n, err) : fetch(r, at, out, n, err);
}

struct listing {
    struct storage_names *names;
    size_t prefix_bytes;
};

static int add_name(void *ctx, const char *key, struct err *err)
{
    (void)err;
    const struct listing *l = ctx;
    const char *name = key + (strlen(key) < l->prefix_bytes ? strlen(key) : l->prefix_bytes);
    size_t n = strcspn(name, "/");
    if (n > 0) {
        storage_names_add(l->names, name, n);
    }
    return 0;
}

static int list(const char *location, struct storage_names *out, struct err *err)
{
    struct s3_place place;
    int rc = s3_place_parse(location, &place, err);
    if (rc != 0) {
        return rc;
    }
    size_t n = strlen(place.key);
    struct listing l = {.names = out, .prefix_bytes = n == 0 ? 0 : n + 1};
    rc = s3_list(&place, "", true, 0, add_name, &l, err);
    if (rc == 0 && out->count == 0) {
        rc = err_set(err, ERR_NOT_FOUND, "%s: nothing is there", location);
    }
    return rc;
}

/* ---- writing ---- */

static int create(struct storage_writer *w, const char *location, struct err *err)
{
    struct s3_place place;
    int rc = parse_file(location, &place, err);
    w->state = rc == 0 ? s3_upload_new(&place) : NULL;
    return rc;
}

static int add(struct storage_writer *w, const void *data, size_t n, struct err *err)
{
    return s3_upload_add(w->state, data, n, err);
}

static int commit(struct storage_writer *w, struct err *err)
{
    return s3_upload_commit(w->state, err);
}

static void abort_writer(struct storage_writer *w)
{
    s3_upload_abort(w->state);
}

static int put(const struct s3_place *place, const void *data, size_t n, const char *condition,
               const char *nonce, struct err *err)
{
    struct s3_request r = {.method = "PUT", .place = place, .body = data, .body_bytes = n};
    size_t count = 0;
    if (condition != NULL) {
        r.headers[count++] = condition;
    }
    r.headers[count] = nonce;
    struct s3_answer a;
    int rc = s3_call(&r, &a, err);
    s3_answer_release(&a);
    return rc;
}

static int write_file(const char *location, const void *data, size_t n, struct err *err)
{
    struct s3_place place;
    int rc = parse_file(location, &place, err);
    return rc != 0 ? rc : put(&place, data, n, NULL, NULL, err);
}

static int make_dir(const char *location, struct err *err)
{
    enum storage_thing thing = STORAGE_NOTHING;
    int rc = look(location, &thing, err);
    return rc == 0 && thing != STORAGE_NOTHING
               ? err_set(err, ERR_EXISTS, "%s: something is there", location)
               : rc;
}

/* True if the object at @place is the one with @nonce. */
static int holds(const struct s3_place *place, const char *nonce, struct err *err)
{
    struct s3_answer a;
    char byte;
    int rc = get(place, &byte, 1, &a, err);
    if (rc == ERR_RANGE || (rc == 0 && strcmp(a.nonce, nonce) != 0)) {
        rc =
            err_set(err, ERR_EXISTS, "s3://%s/%s: somebody else has it", place->bucket, place->key);
    }
    s3_answer_release(&a);
    return rc;
}

/* Time for a write that was let in together with ours, which took @took_ms, to be seen. */
static void let_others_end(uint64_t took_ms)
{
    uint64_t ms = 2 * took_ms < SETTLE_MS_MAX ? 2 * took_ms : SETTLE_MS_MAX;
    struct timespec left = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Claims a name. "If-None-Match: *" lets one of all who try succeed, where the store looks and
 * writes in one step. Some stores do it in two, so the object is read again: of those that were let
 * in, the last one has the name. And an attempt whose answer was lost may have made the object that
 * refuses the next attempt. */
static int claim(const char *location, const void *data, size_t n, struct err *err)
{
    struct s3_place place;
    int rc = parse_file(location, &place, err);
    if (rc != 0) {
        return rc;
    }
    char nonce[S3_NONCE_BYTES];
    s3_nonce_new(nonce);
    char *header = mem_printf(S3_NONCE_HEADER ": %s", nonce);
    uint64_t began_ms = chrono_now_ms();
    struct err local = {0};
    rc = put(&place, data, n, "if-none-match: *", header, &local);
    if (rc == ERR_UNSUPPORTED) { /* then nothing but the second look decides */
        rc = make_dir(location, &local);
        rc = rc != 0 ? rc : put(&place, data, n, NULL, header, &local);
    }
    free(header);
    if (rc == 0) {
        let_others_end(chrono_now_ms() - began_ms);
    }
    return rc == 0 || rc == ERR_EXISTS ? holds(&place, nonce, err)
                                       : err_set(err, rc, "%s", local.msg);
}

static int remove_key(const struct s3_place *place, struct err *err)
{
    struct s3_request r = {.method = "DELETE", .place = place};
    struct s3_answer a;
    struct err local;
    int rc = s3_call(&r, &a, &local);
    s3_answer_release(&a);
    return rc == 0 || rc == ERR_NOT_FOUND ? 0 : err_set(err, rc, "%s", local.msg);
}

static int remove_file(const char *location, struct err *err)
{
    struct s3_place place;
    int rc = parse_file(location, &place, err);
    return rc != 0 ? rc : remove_key(&place, err);
}

static int remove_one(void *ctx, const char *key, struct err *err)
{
    struct s3_place *place = ctx;
    int n = (int)strnlen(key, S3_KEY_BYTES_MAX);
    memcpy(place->key, key, (size_t)n);
    place->key[n] = '\0';
    return remove_key(place, err);
}

/* Uploads that were begun and not finished go, too: whoever began them has died, or is not meant to
 * write there any more. */
static int remove_tree(const char *location, struct err *err)
{
    struct s3_place place;
    int rc = parse_file(location, &place, err);
    rc = rc != 0 ? rc : s3_upload_abort_below(&place, err);
    if (rc == 0) {
        struct s3_place each = place;
        rc = s3_list(&place, "", false, 0, remove_one, &each, err);
    }
    return rc;
}

/* ---- directories ---- */

static int nothing(const char *location, struct err *err)
{
    (void)location;
    (void)err;
    return 0;
}

static void remove_dir(const char *location)
{
    (void)location;
}

const struct storage_kind storage_s3 = {
    .scheme = "s3",
    .check = check,
    .look = look,
    .stamp = stamp,
    .open = open_reader,
    .read_at = read_at,
    .close = close_reader,
    .list = list,
    .find = s3_find,
    .create = create,
    .add = add,
    .commit = commit,
    .abort = abort_writer,
    .write = write_file,
    .claim = claim,
    .remove = remove_file,
    .remove_tree = remove_tree,
    .make_dirs = nothing,
    .make_dir = make_dir,
    .remove_dir = remove_dir,
    .sync_dir = nothing,
};
