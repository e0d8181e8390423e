/* SPDX-License-Identifier: Apache-2.0 */
/* Paths are compared as the kernel writes them, in /proc/self/fd, for the root and for what was
 * opened; a process that has no /proc reads no file. URLs are compared as texts, part by part: a
 * key has no links, and the storage room refuses keys with "." and "..". */
#include "data/data_roots.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "config/field_texts.h"
#include "storage/storage.h"

#define SCHEME "s3://"
#define SHOWN_BYTES 256 /* bytes of a name in the sentence of a refusal */

/* "s3://bucket//prefix/" as "s3://bucket/prefix". Returns owned. */
static char *plain_url(const char *url)
{
    size_t bucket = sizeof SCHEME - 1 + strcspn(url + sizeof SCHEME - 1, "/");
    const char *key = url + bucket + strspn(url + bucket, "/");
    size_t n = strlen(key);
    while (n > 0 && key[n - 1] == '/') {
        n--;
    }
    return mem_printf("%.*s%s%.*s", (int)bucket, url, n > 0 ? "/" : "", (int)n, key);
}

static bool is_url(const char *location)
{
    return strncmp(location, SCHEME, sizeof SCHEME - 1) == 0;
}

/* A root as it is kept; NULL: it is none. */
static char *plain_root(const char *item)
{
    if (is_url(item)) {
        size_t bucket = strcspn(item + sizeof SCHEME - 1, "/");
        return bucket > 0 ? plain_url(item) : NULL;
    }
    item += strncmp(item, "file:///", 8) == 0 ? 7 : 0;
    return item[0] == '/' ? mem_strdup(item) : NULL;
}

int data_roots_read(const char *text, struct data_roots *out, struct err *err)
{
    struct field_texts texts = {0};
    if (text != NULL && !field_texts_read(text, &texts)) {
        return err_set(err, ERR_INVALID, "data_root: %s is not a list; expected [/a, /b]", text);
    }
    struct data_roots made = {.items = mem_new(texts.count + 1, sizeof *made.items)};
    int rc = 0;
    for (size_t i = 0; i < texts.count && rc == 0; i++) {
        char *root = plain_root(texts.items[i]);
        if (root == NULL) {
            rc = err_set(err, ERR_INVALID,
                         "data_root: %s is neither an absolute path nor s3://BUCKET/PREFIX",
                         texts.items[i]);
        } else {
            made.items[made.count++] = root;
        }
    }
    field_texts_release(&texts);
    if (rc != 0) {
        data_roots_release(&made);
        return rc;
    }
    *out = made;
    return 0;
}

void data_roots_release(struct data_roots *roots)
{
    for (size_t i = 0; i < roots->count; i++) {
        free(roots->items[i]);
    }
    free(roots->items);
    *roots = (struct data_roots){0};
}

bool data_roots_bind(const struct data_roots *roots)
{
    return roots != NULL && roots->count > 0;
}

int data_roots_refuse(const struct data_roots *roots, const char *location, struct err *err)
{
    char shown[SHOWN_BYTES];
    struct buf list = {0};
    for (size_t i = 0; i < roots->count; i++) {
        buf_printf(&list, "%s%s", i == 0 ? "" : ", ", roots->items[i]);
    }
    int rc =
        err_set(err, ERR_PERMISSION, "open %s: outside of what this node reads (data_root): %s",
                text_shown(location, shown, sizeof shown), buf_str(&list));
    buf_release(&list);
    return rc;
}

/* Does @location lie at @root or below it? Both are in their plain form. */
static bool is_below(const char *location, const char *root)
{
    size_t n = strlen(root);
    n -= n > 0 && root[n - 1] == '/'; /* of "/" alone */
    return strncmp(location, root, n) == 0 && (location[n] == '/' || location[n] == '\0');
}

/* ---- paths ---- */

/* @out [PATH_MAX] is where the kernel says that @fd lies. */
static bool place_of(int fd, char *out)
{
    char link[32];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, out, PATH_MAX);
    if (n <= 0 || n >= PATH_MAX || out[0] != '/') {
        return false;
    }
    out[n] = '\0';
    return true;
}

static bool is_inside(const struct data_roots *roots, int fd)
{
    char *place = mem_new(2, PATH_MAX), *root = place + PATH_MAX;
    bool known = place_of(fd, place), inside = false;
    for (size_t i = 0; known && !inside && i < roots->count; i++) {
        int at = is_url(roots->items[i]) ? -1 : open(roots->items[i], O_PATH | O_CLOEXEC);
        if (at >= 0) {
            inside = place_of(at, root) && is_below(place, root);
            (void)close(at);
        }
    }
    free(place);
    return inside;
}

/* "a/b" to "a", "/b" to "/", "b" to ".". False: there is nothing above. */
static bool go_up(char *path)
{
    if (path[0] == '\0' || strcmp(path, ".") == 0 || strcmp(path, "/") == 0) {
        return false;
    }
    char *slash = strrchr(path, '/');
    if (slash == NULL) {
        memcpy(path, ".", sizeof ".");
    } else {
        slash[slash == path] = '\0';
    }
    return true;
}

/* True if a message may say why @path cannot be opened: the path would lie in a root, because the
 * nearest directory above it that exists does. A link that leads nowhere may lead anywhere. */
static bool may_be_told(const struct data_roots *roots, const char *path)
{
    char *part = mem_strdup(path);
    bool link = false;
    int fd = -1;
    do {
        struct stat st;
        fd = open(part, O_PATH | O_CLOEXEC);
        link = fd < 0 && lstat(part, &st) == 0 && S_ISLNK(st.st_mode);
    } while (fd < 0 && !link && go_up(part));
    bool told = fd >= 0 && is_inside(roots, fd);
    if (fd >= 0) {
        (void)close(fd);
    }
    free(part);
    return told;
}

int data_roots_find(const struct data_roots *roots, const char *path, int *fd, struct err *err)
{
    int found = open(path, O_PATH | O_CLOEXEC);
    if (found < 0) {
        int why = errno;
        return may_be_told(roots, path) ? err_errno(err, why, "open %s", path)
                                        : data_roots_refuse(roots, path, err);
    }
    if (!is_inside(roots, found)) {
        (void)close(found);
        return data_roots_refuse(roots, path, err);
    }
    *fd = found;
    return 0;
}

/* ---- both ---- */

static int check_url(const struct data_roots *roots, const char *url, struct err *err)
{
    char *plain = is_url(url) ? plain_url(url) : NULL;
    bool inside = false;
    for (size_t i = 0; plain != NULL && i < roots->count; i++) {
        inside = inside || (is_url(roots->items[i]) && is_below(plain, roots->items[i]));
    }
    free(plain);
    return inside ? 0 : data_roots_refuse(roots, url, err);
}

int data_roots_check(const struct data_roots *roots, const char *location, struct err *err)
{
    if (!data_roots_bind(roots)) {
        return 0;
    }
    if (storage_is_url(location)) {
        return check_url(roots, location, err);
    }
    int fd = -1;
    int rc = data_roots_find(roots, location, &fd, err);
    if (rc == 0) {
        (void)close(fd);
    }
    return rc;
}
