/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the kind of storage that a location is of, by its scheme, and calls its functions. */
#include "storage/storage.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "os/file.h"
#include "storage/storage_kind.h"

static const struct storage_kind *const kinds[] = {&storage_file, &storage_s3};

/* ---- locations ---- */

/* The length of "s3" in "s3://bucket"; 0: a path. A scheme is as in RFC 3986, section 3.1. */
static size_t scheme_bytes(const char *location)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.";
    size_t n = strspn(location, all);
    return n > 0 && strchr(letters, location[0]) != NULL && strncmp(location + n, "://", 3) == 0
               ? n
               : 0;
}

bool storage_is_url(const char *location)
{
    return scheme_bytes(location) > 0;
}

/* The kind of @location, which becomes what that kind is to be given. */
static int find_kind(const char **location, const struct storage_kind **kind, struct err *err)
{
    size_t n = scheme_bytes(*location);
    *kind = n == 0 ? &storage_file : NULL;
    for (size_t i = 0; n > 0 && i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strncmp(*location, kinds[i]->scheme, n) == 0 && kinds[i]->scheme[n] == '\0') {
            *kind = kinds[i];
        }
    }
    if (*kind == NULL) {
        struct buf known = {0};
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            buf_printf(&known, "%s%s://", i == 0 ? "" : " or ", kinds[i]->scheme);
        }
        int rc = err_set(err, ERR_UNSUPPORTED, "%.256s: a path, or a URL with %s, is expected",
                         *location, buf_str(&known));
        buf_release(&known);
        return rc;
    }
    if (*kind == &storage_file && n > 0) {
        *location += n + strlen("://");
        if ((*location)[0] != '/') {
            return err_set(err, ERR_INVALID, "file://%.256s: file:///PATH is expected", *location);
        }
    }
    return 0;
}

int storage_check(const char *location, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->check(location, err);
}

char *storage_absolute(const char *location)
{
    if (storage_is_url(location)) {
        size_t n = strlen(location);
        size_t least = scheme_bytes(location) + strlen("://") + 1;
        while (n > least && location[n - 1] == '/') {
            n--;
        }
        return mem_printf("%.*s", (int)n, location);
    }
    char *here = location[0] == '/' ? NULL : getcwd(NULL, 0);
    char *all = file_join(here, location);
    free(here);
    return all;
}

char *storage_join(const char *dir, const char *name)
{
    return storage_is_url(name) ? mem_strdup(name) : file_join(dir, name);
}

int storage_look(const char *location, enum storage_thing *thing, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->look(location, thing, err);
}

int storage_stamp(const char *location, struct buf *out, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->stamp(location, out, err);
}

/* ---- reading ---- */

int storage_open(struct storage_reader *r, const char *location, struct err *err)
{
    struct storage_reader made = {.fd = -1};
    int rc = find_kind(&location, &made.kind, err);
    rc = rc != 0 ? rc : made.kind->open(&made, location, err);
    if (rc == 0) {
        *r = made;
    }
    return rc;
}

int storage_read_at(const struct storage_reader *r, uint64_t at, void *out, size_t n,
                    struct err *err)
{
    return r->kind->read_at(r, at, out, n, err);
}

void storage_close(struct storage_reader *r)
{
    if (r->kind != NULL) {
        r->kind->close(r);
        *r = (struct storage_reader){.fd = -1};
    }
}

int storage_read(const char *location, size_t bytes_max, struct buf *out, struct err *err)
{
    struct storage_reader r;
    int rc = storage_open(&r, location, err);
    if (rc != 0) {
        return rc;
    }
    if (r.bytes > bytes_max) {
        rc = err_set(err, ERR_EXHAUSTED, "read %s: larger than %zu bytes", location, bytes_max);
    } else {
        char *data = mem_new((size_t)r.bytes + 1, 1);
        rc = storage_read_at(&r, 0, data, (size_t)r.bytes, err);
        if (rc == 0) {
            buf_add(out, data, (size_t)r.bytes);
        } else {
            (void)err_wrap(err, "read %s", location);
        }
        free(data);
    }
    storage_close(&r);
    return rc;
}

int storage_list(const char *location, struct storage_names *out, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    rc = rc != 0 ? rc : kind->list(location, out, err);
    if (rc != 0) {
        storage_names_release(out);
    }
    return rc;
}

int storage_find(const char *dir, const char *pattern, struct storage_names *out, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&dir, &kind, err);
    if (rc == 0 && kind->find == NULL) {
        rc = err_set(err, ERR_UNSUPPORTED, "%s: patterns are for object stores", dir);
    }
    rc = rc != 0 ? rc : kind->find(dir, pattern, out, err);
    if (rc != 0) {
        storage_names_release(out);
    }
    return rc;
}

void storage_names_add(struct storage_names *names, const char *name, size_t n)
{
    names->items = mem_grow(names->items, &names->capacity, names->count + 1, sizeof *names->items);
    names->items[names->count++] = mem_printf("%.*s", (int)n, name);
}

void storage_names_release(struct storage_names *n)
{
    for (size_t i = 0; i < n->count; i++) {
        free(n->items[i]);
    }
    free(n->items);
    *n = (struct storage_names){0};
}

/* ---- writing ---- */

int storage_create(struct storage_writer *w, const char *location, struct err *err)
{
    struct storage_writer made = {0};
    const char *given = location;
    int rc = find_kind(&location, &made.kind, err);
    rc = rc != 0 ? rc : made.kind->create(&made, location, err);
    if (rc == 0) {
        *w = made;
        w->location = mem_strdup(given);
    }
    return rc;
}

int storage_add(struct storage_writer *w, const void *data, size_t n, struct err *err)
{
    int rc = w->kind->add(w, data, n, err);
    w->bytes += rc == 0 ? n : 0;
    return rc;
}

int storage_commit(struct storage_writer *w, struct err *err)
{
    int rc = w->kind->commit(w, err);
    free(w->location);
    *w = (struct storage_writer){0};
    return rc;
}

void storage_abort(struct storage_writer *w)
{
    if (w->kind != NULL) {
        w->kind->abort(w);
        free(w->location);
        *w = (struct storage_writer){0};
    }
}

int storage_write(const char *location, const void *data, size_t n, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->write(location, data, n, err);
}

int storage_claim(const char *location, const void *data, size_t n, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->claim(location, data, n, err);
}

int storage_remove(const char *location, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->remove(location, err);
}

int storage_remove_tree(const char *location, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->remove_tree(location, err);
}

/* ---- directories ---- */

int storage_make_dirs(const char *location, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->make_dirs(location, err);
}

int storage_make_dir(const char *location, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->make_dir(location, err);
}

void storage_remove_dir(const char *location)
{
    const struct storage_kind *kind;
    if (find_kind(&location, &kind, NULL) == 0) {
        kind->remove_dir(location);
    }
}

int storage_sync_dir(const char *location, struct err *err)
{
    const struct storage_kind *kind;
    int rc = find_kind(&location, &kind, err);
    return rc != 0 ? rc : kind->sync_dir(location, err);
}
