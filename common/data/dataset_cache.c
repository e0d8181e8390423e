/* SPDX-License-Identifier: Apache-2.0 */
/* Remembers the last data set by a text key of its settings and files. The key is made before
 * and after reading: data whose files changed meanwhile are used, but not taken for the same
 * later. */
#include "data/dataset_cache.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "data/file_list.h"
#include "storage/storage.h"

struct dataset_cache {
    const struct data_roots *roots;
    const char *cache_dir;
    pthread_mutex_t lock;
    struct buf key;
    struct dataset *train, *test; /* test may be NULL; train NULL: nothing is kept */
};

struct dataset_cache *dataset_cache_new(const struct data_roots *roots, const char *cache_dir)
{
    struct dataset_cache *c = mem_new(1, sizeof *c);
    c->roots = roots;
    c->cache_dir = cache_dir;
    pthread_mutex_init(&c->lock, NULL);
    return c;
}

const struct data_roots *dataset_cache_roots(const struct dataset_cache *c)
{
    return c->roots;
}

static void forget(struct dataset_cache *c)
{
    dataset_free(c->train);
    dataset_free(c->test);
    c->train = c->test = NULL;
}

void dataset_cache_free(struct dataset_cache *c)
{
    if (c == NULL) {
        return;
    }
    forget(c);
    buf_release(&c->key);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

/* False: a file is missing; dataset_open() says more. */
static bool add_files(struct buf *key, const struct data_spec *spec, const char *names)
{
    struct file_list files = {0};
    bool there = file_list_make(spec->roots, spec->dir, names, "", &files, NULL) == 0;
    for (size_t i = 0; i < files.count && there; i++) {
        buf_printf(key, "%s ", files.paths[i]);
        there = data_roots_check(spec->roots, files.paths[i], NULL) == 0 &&
                storage_stamp(files.paths[i], key, NULL) == 0;
        buf_add_char(key, '\n');
    }
    file_list_release(&files);
    return there;
}

/* A text of everything that decides what is read. */
static bool make_key(const struct data_spec *spec, enum data_label_kind label_kind, struct buf *key)
{
    buf_printf(key, "%d\n", (int)label_kind);
    data_spec_text(spec, NULL, key);
    const char *const files[] = {spec->train.file, spec->train.labels, spec->test.file,
                                 spec->test.labels};
    bool there = true;
    for (size_t i = 0; i < sizeof files / sizeof files[0] && there; i++) {
        there = add_files(key, spec, files[i]);
    }
    for (size_t i = 0; i < spec->column_count && there; i++) {
        there = add_files(key, spec, spec->columns[i].vocabulary_file);
    }
    return there;
}

static int open_anew(struct dataset_cache *c, const struct data_spec *spec,
                     enum data_label_kind label_kind, struct buf *key, struct err *err)
{
    struct buf after = {0};
    forget(c); /* frees the old data first, so that not both are in memory */
    int rc = dataset_open(spec, label_kind, &c->train, &c->test, err);
    bool same = rc == 0 && make_key(spec, label_kind, &after) && after.len == key->len &&
                memcmp(after.data, key->data, key->len) == 0;
    buf_reset(&c->key);
    if (same) { /* otherwise a file was changed while it was read */
        buf_add(&c->key, key->data, key->len);
    }
    buf_release(&after);
    return rc;
}

int dataset_cache_open(struct dataset_cache *c, const struct data_spec *spec,
                       enum data_label_kind label_kind, struct dataset **train,
                       struct dataset **test, bool *known, struct err *err)
{
    struct buf key = {0};
    int rc = 0;
    struct data_spec bound = *spec; /* borrows what @spec has */
    bound.roots = c->roots;
    bound.cache_dir = c->cache_dir;
    bool there = make_key(&bound, label_kind, &key);
    pthread_mutex_lock(&c->lock);
    *known = there && c->train != NULL && c->key.len == key.len &&
             memcmp(c->key.data, key.data, key.len) == 0;
    if (!*known) {
        rc = open_anew(c, &bound, label_kind, &key, err);
    }
    if (rc == 0) {
        *train = dataset_ref(c->train);
        *test = c->test == NULL ? NULL : dataset_ref(c->test);
    }
    pthread_mutex_unlock(&c->lock);
    buf_release(&key);
    return rc;
}
