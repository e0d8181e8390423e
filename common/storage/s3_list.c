/* SPDX-License-Identifier: Apache-2.0 */
/* Lists objects (ListObjectsV2) and unfinished uploads (ListMultipartUploads) below a key. */
#include "storage/s3_list.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "storage/s3_xml.h"

#define PAGE_MAX 1000

/* An entry's texts come one by one; it is complete at the end of its element. */
struct page {
    char **keys, **ids; /* ids: of uploads */
    size_t count, key_capacity, id_capacity;
    char key[S3_KEY_BYTES_MAX + 2], id[S3_KEY_BYTES_MAX];
    char *next, *next_id; /* where the next page begins; NULL: there is none */
    bool more;
};

static void page_release(struct page *p)
{
    for (size_t i = 0; i < p->count; i++) {
        free(p->keys[i]);
        free(p->ids[i]);
    }
    free(p->keys);
    free(p->ids);
    free(p->next);
    free(p->next_id);
    *p = (struct page){0};
}

static void set(char **to, const char *text)
{
    free(*to);
    *to = mem_strdup(text);
}

static void add_entry(struct page *p)
{
    p->keys = mem_grow(p->keys, &p->key_capacity, p->count + 1, sizeof *p->keys);
    p->ids = mem_grow(p->ids, &p->id_capacity, p->count + 1, sizeof *p->ids);
    p->keys[p->count] = mem_strdup(p->key);
    p->ids[p->count++] = mem_strdup(p->id);
    p->key[0] = p->id[0] = '\0';
}

static void on_element(void *ctx, const char *path, const char *text)
{
    struct page *p = ctx;
    const char *name = strchr(path, '/');
    if (name == NULL) {
        return;
    }
    name++;
    if (strcmp(name, "Contents/Key") == 0 || strcmp(name, "CommonPrefixes/Prefix") == 0 ||
        strcmp(name, "Upload/Key") == 0) {
        text_copy(p->key, sizeof p->key, text);
    } else if (strcmp(name, "Upload/UploadId") == 0) {
        text_copy(p->id, sizeof p->id, text);
    } else if (strcmp(name, "Contents") == 0 || strcmp(name, "CommonPrefixes") == 0 ||
               strcmp(name, "Upload") == 0) {
        add_entry(p);
    } else if (strcmp(name, "IsTruncated") == 0) {
        p->more = strcmp(text, "true") == 0;
    } else if (strcmp(name, "NextContinuationToken") == 0 || strcmp(name, "NextKeyMarker") == 0) {
        set(&p->next, text);
    } else if (strcmp(name, "NextUploadIdMarker") == 0) {
        set(&p->next_id, text);
    }
}

/* Gets one page into @p, which is empty but for where the page begins. */
static int get_page(const struct s3_place *bucket, const char *query, struct page *p,
                    struct err *err)
{
    struct s3_request r = {.method = "GET", .place = bucket, .query = query};
    struct s3_answer a;
    int rc = s3_call(&r, &a, err);
    page_release(p);
    rc = rc != 0 ? rc : s3_xml_parse(buf_str(&a.body), a.body.len, on_element, p, err);
    if (rc == 0 && p->more && p->next == NULL) {
        rc = err_set(err, ERR_CORRUPT, "list s3://%s: a page without a next one", bucket->bucket);
    }
    s3_answer_release(&a);
    return rc;
}

static void add_prefix(const struct s3_place *place, const char *begin, struct buf *query)
{
    buf_add_str(query, "&prefix=");
    s3_encode(query, place->key, false);
    buf_add_str(query, place->key[0] == '\0' ? "" : "%2F");
    s3_encode(query, begin, false);
}

/* The names of a query have to be sorted. */
static char *objects_query(const struct s3_place *place, const char *begin, bool names,
                           unsigned max, const struct page *before)
{
    struct buf query = {0};
    if (before->next != NULL) {
        buf_add_str(&query, "continuation-token=");
        s3_encode(&query, before->next, false);
        buf_add_char(&query, '&');
    }
    buf_printf(&query, "%slist-type=2&max-keys=%u", names ? "delimiter=%2F&" : "",
               max > 0 && max < PAGE_MAX ? max : PAGE_MAX);
    add_prefix(place, begin, &query);
    return buf_take(&query);
}

int s3_list(const struct s3_place *place, const char *begin, bool names, unsigned max,
            s3_list_each *each, void *ctx, struct err *err)
{
    struct s3_place bucket = *place;
    bucket.key[0] = '\0';
    struct page page = {0};
    size_t seen = 0;
    int rc = 0;
    do {
        char *query = objects_query(place, begin, names, max, &page);
        rc = get_page(&bucket, query, &page, err);
        free(query);
        for (size_t i = 0; rc == 0 && i < page.count && (max == 0 || seen < max); i++, seen++) {
            rc = each(ctx, page.keys[i], err);
        }
    } while (rc == 0 && page.more && (max == 0 || seen < max));
    page_release(&page);
    return rc;
}

static char *uploads_query(const struct s3_place *place, const struct page *before)
{
    struct buf query = {0};
    if (before->next != NULL) {
        buf_add_str(&query, "key-marker=");
        s3_encode(&query, before->next, false);
        buf_add_char(&query, '&');
    }
    buf_printf(&query, "max-uploads=%u", PAGE_MAX);
    add_prefix(place, "", &query);
    if (before->next_id != NULL) {
        buf_add_str(&query, "&upload-id-marker=");
        s3_encode(&query, before->next_id, false);
    }
    buf_add_str(&query, "&uploads=");
    return buf_take(&query);
}

int s3_list_uploads(const struct s3_place *place, s3_list_upload *each, void *ctx, struct err *err)
{
    struct s3_place bucket = *place;
    bucket.key[0] = '\0';
    struct page page = {0};
    int rc = 0;
    do {
        char *query = uploads_query(place, &page);
        rc = get_page(&bucket, query, &page, err);
        free(query);
        for (size_t i = 0; rc == 0 && i < page.count; i++) {
            rc = each(ctx, page.keys[i], page.ids[i], err);
        }
    } while (rc == 0 && page.more);
    page_release(&page);
    return rc;
}
