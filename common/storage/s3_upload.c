/* SPDX-License-Identifier: Apache-2.0 */
/* Multipart uploads: parts go out side by side, and the object appears when the store is told to
 * put them together. */
#include "storage/s3_upload.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "storage/s3_list.h"
#include "storage/s3_xml.h"

#define UPLOAD_ID_BYTES 1024

struct part { /* memory, and the thread that sends it */
    struct s3_upload *upload;
    pthread_t thread;
    char *data;
    size_t bytes, capacity;
    unsigned number; /* from 1 */
    bool full;       /* the thread owns it */
};

struct s3_upload {
    struct s3_place place;
    char nonce[S3_NONCE_BYTES];
    struct buf id; /* id of the upload, as a query needs it; empty: not begun, and no thread runs */
    struct part parts[S3_PARTS_PARALLEL];
    size_t started; /* threads */
    struct part *filling;
    unsigned number; /* number of the last part that was given to a thread */
    uint64_t bytes;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* under the lock, and part.full */
    char (*etags)[S3_ETAG_BYTES];
    size_t etag_capacity;
    bool stop;
    struct err err; /* of the first part that failed */
};

struct s3_upload *s3_upload_new(const struct s3_place *place)
{
    struct s3_upload *u = mem_new(1, sizeof *u);
    u->place = *place;
    s3_nonce_new(u->nonce);
    pthread_mutex_init(&u->lock, NULL);
    pthread_cond_init(&u->changed, NULL);
    for (size_t i = 0; i < S3_PARTS_PARALLEL; i++) {
        u->parts[i].upload = u;
    }
    return u;
}

static void upload_free(struct s3_upload *u)
{
    pthread_mutex_lock(&u->lock);
    u->stop = true;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    for (size_t i = 0; i < u->started; i++) {
        (void)pthread_join(u->parts[i].thread, NULL);
    }
    for (size_t i = 0; i < S3_PARTS_PARALLEL; i++) {
        free(u->parts[i].data);
    }
    pthread_mutex_destroy(&u->lock);
    pthread_cond_destroy(&u->changed);
    buf_release(&u->id);
    free(u->etags);
    free(u);
}

/* ---- requests ---- */

static void on_begun(void *ctx, const char *path, const char *text)
{
    struct s3_upload *u = ctx;
    if (strcmp(path, "InitiateMultipartUploadResult/UploadId") == 0 &&
        strlen(text) < UPLOAD_ID_BYTES) {
        s3_encode(&u->id, text, false);
    }
}

static int begin(struct s3_upload *u, struct err *err)
{
    char *nonce = mem_printf(S3_NONCE_HEADER ": %s", u->nonce);
    struct s3_request r = {
        .method = "POST", .place = &u->place, .query = "uploads=", .headers = {nonce}};
    struct s3_answer a;
    int rc = s3_call(&r, &a, err);
    rc = rc != 0 ? rc : s3_xml_parse(buf_str(&a.body), a.body.len, on_begun, u, err);
    if (rc == 0 && u->id.len == 0) {
        rc = err_set(err, ERR_INTERNAL, "s3://%s/%s: the store began an upload without an id",
                     u->place.bucket, u->place.key);
    }
    s3_answer_release(&a);
    free(nonce);
    return rc;
}

static int send_part(struct part *p, char etag[S3_ETAG_BYTES], struct err *err)
{
    struct s3_upload *u = p->upload;
    char *query = mem_printf("partNumber=%u&uploadId=%s", p->number, buf_str(&u->id));
    struct s3_request r = {.method = "PUT",
                           .place = &u->place,
                           .query = query,
                           .body = p->data,
                           .body_bytes = p->bytes};
    struct s3_answer a;
    int rc = s3_call(&r, &a, err);
    if (rc == 0) {
        memcpy(etag, a.etag, S3_ETAG_BYTES);
    } else if (rc == ERR_NOT_FOUND) { /* or others would take it for a file that is missing */
        rc = err_set(err, ERR_ABORTED, "s3://%s/%s: somebody has given up this upload",
                     u->place.bucket, u->place.key);
    }
    s3_answer_release(&a);
    free(query);
    return rc;
}

/* Nothing is said when it fails: the parts then stay until the store, or the next one who begins
 * the same checkpoint, removes them. */
static void give_up(const struct s3_place *place, const char *id)
{
    char *query = mem_printf("uploadId=%s", id);
    struct s3_request r = {.method = "DELETE", .place = place, .query = query};
    struct s3_answer a;
    (void)s3_call(&r, &a, NULL);
    s3_answer_release(&a);
    free(query);
}

/* The answer to "put it together" was lost, and the upload is not known any more: is the object
 * what we sent? */
static int is_ours(const struct s3_upload *u, struct err *err)
{
    char byte;
    struct s3_request r = {
        .method = "GET", .place = &u->place, .out = &byte, .out_bytes = sizeof byte};
    struct s3_answer a;
    int rc = s3_call(&r, &a, err);
    if (rc == 0 && (a.total_bytes != u->bytes || strcmp(a.nonce, u->nonce) != 0)) {
        rc = ERR_NOT_FOUND;
    }
    s3_answer_release(&a);
    return rc == ERR_NOT_FOUND
               ? err_set(err, ERR_ABORTED, "s3://%s/%s: somebody has given up this upload",
                         u->place.bucket, u->place.key)
               : rc;
}

static int put_together(const struct s3_upload *u, struct err *err)
{
    struct buf body = {0};
    buf_add_str(&body, "<CompleteMultipartUpload>");
    for (unsigned i = 0; i < u->number; i++) {
        buf_printf(&body, "<Part><PartNumber>%u</PartNumber><ETag>%s</ETag></Part>", i + 1,
                   u->etags[i]);
    }
    buf_add_str(&body, "</CompleteMultipartUpload>");
    char *query = mem_printf("uploadId=%s", buf_str(&u->id));
    struct s3_request r = {.method = "POST",
                           .place = &u->place,
                           .query = query,
                           .body = body.data,
                           .body_bytes = body.len};
    struct s3_answer a;
    struct err local;
    int rc = s3_call(&r, &a, &local);
    if (rc == ERR_NOT_FOUND) {
        rc = is_ours(u, err);
    } else if (rc != 0) {
        (void)err_set(err, rc, "%s", local.msg);
    }
    s3_answer_release(&a);
    free(query);
    buf_release(&body);
    return rc;
}

static int put_whole(const struct s3_upload *u, struct err *err)
{
    const struct part *p = u->filling;
    struct s3_request r = {.method = "PUT", .place = &u->place};
    r.body = p == NULL ? NULL : p->data;
    r.body_bytes = p == NULL ? 0 : p->bytes;
    struct s3_answer a;
    int rc = s3_call(&r, &a, err);
    s3_answer_release(&a);
    return rc;
}

/* ---- threads ---- */

static void keep_result(struct part *p, const char *etag, const struct err *err)
{
    struct s3_upload *u = p->upload;
    if (err->code == 0) {
        memcpy(u->etags[p->number - 1], etag, S3_ETAG_BYTES);
    } else if (u->err.code == 0) {
        u->err = *err;
    }
    p->full = false;
    p->bytes = 0;
    pthread_cond_broadcast(&u->changed);
}

static void *run(void *ctx)
{
    struct part *p = ctx;
    struct s3_upload *u = p->upload;
    pthread_mutex_lock(&u->lock);
    while (!u->stop || p->full) {
        if (!p->full) {
            pthread_cond_wait(&u->changed, &u->lock);
            continue;
        }
        char etag[S3_ETAG_BYTES] = "";
        struct err err = u->err;
        bool skip = err.code != 0 || u->stop;
        pthread_mutex_unlock(&u->lock);
        if (!skip) {
            (void)send_part(p, etag, &err);
        }
        pthread_mutex_lock(&u->lock);
        keep_result(p, etag, &err);
    }
    pthread_mutex_unlock(&u->lock);
    return NULL;
}

static int start_threads(struct s3_upload *u, struct err *err)
{
    for (size_t i = 0; i < S3_PARTS_PARALLEL; i++) {
        int failed = pthread_create(&u->parts[i].thread, NULL, run, &u->parts[i]);
        if (failed != 0) {
            return err_errno(err, failed, "start a thread for an upload");
        }
        u->started++;
    }
    return 0;
}

/* Give the part that is being filled to its thread. */
static int hand_over(struct s3_upload *u, struct err *err)
{
    int rc = u->id.len > 0 ? 0 : begin(u, err);
    rc = rc != 0 || u->started > 0 ? rc : start_threads(u, err);
    if (rc == 0 && u->number == S3_PARTS_MAX) {
        rc = err_set(err, ERR_EXHAUSTED, "s3://%s/%s: more than %d parts", u->place.bucket,
                     u->place.key, S3_PARTS_MAX);
    }
    if (rc != 0) {
        return rc;
    }
    pthread_mutex_lock(&u->lock);
    u->etags = mem_grow(u->etags, &u->etag_capacity, u->number + 1, sizeof *u->etags);
    u->filling->number = ++u->number;
    u->filling->full = true;
    u->filling = NULL;
    pthread_cond_broadcast(&u->changed);
    pthread_mutex_unlock(&u->lock);
    return 0;
}

/* Wait for a part that no thread owns, and make it large enough. */
static int take_part(struct s3_upload *u, struct err *err)
{
    struct part *found = NULL;
    struct err failed = {0};
    pthread_mutex_lock(&u->lock);
    while (found == NULL && u->err.code == 0) {
        for (size_t i = 0; found == NULL && i < S3_PARTS_PARALLEL; i++) {
            found = u->parts[i].full ? NULL : &u->parts[i];
        }
        if (found == NULL) {
            pthread_cond_wait(&u->changed, &u->lock);
        }
    }
    failed = u->err;
    pthread_mutex_unlock(&u->lock);
    if (failed.code != 0) {
        return err_set(err, failed.code, "%s", failed.msg);
    }
    size_t wanted = (size_t)S3_PART_BYTES * (1 + u->number / S3_PARTS_OF_A_SIZE);
    if (found->capacity < wanted) {
        char *data = mem_try_aligned(wanted, 1, "a part of an upload", err);
        if (data == NULL) {
            return ERR_EXHAUSTED;
        }
        free(found->data);
        found->data = data;
        found->capacity = wanted;
    }
    u->filling = found;
    return 0;
}

int s3_upload_add(struct s3_upload *u, const void *data, size_t n, struct err *err)
{
    const char *p = data;
    while (n > 0) {
        int rc = 0;
        if (u->filling != NULL && u->filling->bytes == u->filling->capacity) {
            rc = hand_over(u, err);
        }
        rc = rc != 0 || u->filling != NULL ? rc : take_part(u, err);
        if (rc != 0) {
            return rc;
        }
        struct part *part = u->filling;
        size_t room = part->capacity - part->bytes, k = n < room ? n : room;
        memcpy(part->data + part->bytes, p, k);
        part->bytes += k;
        u->bytes += k;
        p += k;
        n -= k;
    }
    return 0;
}

static int wait_for_parts(struct s3_upload *u, struct err *err)
{
    pthread_mutex_lock(&u->lock);
    for (size_t i = 0; i < S3_PARTS_PARALLEL; i++) {
        while (u->parts[i].full) {
            pthread_cond_wait(&u->changed, &u->lock);
        }
    }
    struct err failed = u->err;
    pthread_mutex_unlock(&u->lock);
    return failed.code == 0 ? 0 : err_set(err, failed.code, "%s", failed.msg);
}

int s3_upload_commit(struct s3_upload *u, struct err *err)
{
    int rc;
    if (u->id.len == 0) {
        rc = put_whole(u, err);
    } else {
        rc = u->filling == NULL || u->filling->bytes == 0 ? 0 : hand_over(u, err);
        rc = rc != 0 ? rc : wait_for_parts(u, err);
        rc = rc != 0 ? rc : put_together(u, err);
    }
    if (rc != 0) {
        s3_upload_abort(u);
    } else {
        upload_free(u);
    }
    return rc;
}

void s3_upload_abort(struct s3_upload *u)
{
    struct s3_place place = u->place;
    char *id = u->id.len == 0 ? NULL : buf_take(&u->id);
    upload_free(u); /* no part is on its way any more */
    if (id != NULL) {
        give_up(&place, id);
    }
    free(id);
}

/* ---- of others ---- */

static int give_up_one(void *ctx, const char *key, const char *id, struct err *err)
{
    (void)err;
    struct s3_place place = *(const struct s3_place *)ctx;
    struct buf encoded = {0};
    text_copy(place.key, sizeof place.key, key);
    s3_encode(&encoded, id, false);
    give_up(&place, buf_str(&encoded));
    buf_release(&encoded);
    return 0;
}

int s3_upload_abort_below(const struct s3_place *place, struct err *err)
{
    struct s3_place of = *place;
    return s3_list_uploads(place, give_up_one, &of, err);
}
