/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns are matched by glob(3), which finds no hidden files by a leading star, or by the same
 * rules in a list of an object store. A directory is taken as it is named, whatever characters it
 * has. */
#include "data/file_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "config/field_texts.h"
#include "data/file_glob.h"
#include "data/raw_file.h"
#include "os/file.h"
#include "storage/storage.h"

void file_list_release(struct file_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->paths[i]);
    }
    free(list->paths);
    free(list->found);
    *list = (struct file_list){0};
}

static int by_bytes(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

/* A list while it is made. */
struct listing {
    const struct data_roots *roots;
    const char *dir; /* where relative names start; may be NULL */
    const char *key; /* for messages */
    struct file_list made;
    size_t capacity, found_capacity;
};

static void append(struct listing *l, char *path, bool found)
{
    struct file_list *list = &l->made;
    list->paths = mem_grow(list->paths, &l->capacity, list->count + 1, sizeof *list->paths);
    list->found = mem_grow(list->found, &l->found_capacity, list->count + 1, sizeof *list->found);
    list->found[list->count] = found;
    list->paths[list->count++] = path;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Adds the files among @paths (sorted) that hold data; names with a leading '.' or '_' do not.
 * Returns how many were added. */
static size_t append_found(struct listing *l, char **paths, size_t count, const char *pattern)
{
    const bool all = name_of(pattern)[0] == '_';
    size_t added = 0;
    qsort(paths, count, sizeof *paths, by_bytes);
    for (size_t i = 0; i < count; i++) {
        if (all || name_of(paths[i])[0] != '_') {
            append(l, mem_strdup(paths[i]), true);
            added++;
        }
    }
    return added;
}

/* @dir with a backslash before each character that has a meaning in a pattern. */
static char *escape(const char *dir)
{
    struct buf out = {0};
    for (; *dir != '\0'; dir++) {
        if (strchr("*?[\\", *dir) != NULL) {
            buf_add_char(&out, '\\');
        }
        buf_add_char(&out, *dir);
    }
    return buf_take(&out);
}

static int none_matches(const char *shown, const char *key, struct err *err)
{
    return err_set(err, ERR_NOT_FOUND, "%s: no file matches %s", key, shown);
}

static int store_error(int rc, const struct err *cause, const char *key, struct err *err)
{
    return err_set(err, raw_file_error(rc), "%s: %s", key, cause->msg);
}

/* Adds objects that match @name, below @dir or, where @name is a URL, below its own directory. */
static int append_objects(struct listing *l, const char *name, struct err *err)
{
    const char *key = l->key;
    char *shown = storage_join(l->dir, name), *top = mem_strdup(shown), *pattern = top;
    if (storage_is_url(name)) {
        /* the directory of the pattern ends before the first special character */
        pattern = top + strcspn(top, "*?[");
        while (pattern > top && pattern[-1] != '/') {
            pattern--;
        }
    } else {
        pattern = top + strlen(shown) - strlen(name);
    }
    pattern[-1] = '\0';
    struct storage_names found = {0};
    struct err cause = {0};
    int rc = storage_find(top, pattern, &found, &cause);
    if (rc != 0) {
        rc = store_error(rc, &cause, key, err);
    } else if (append_found(l, found.items, found.count, name) == 0) {
        rc = none_matches(shown, key, err);
    }
    storage_names_release(&found);
    free(top);
    free(shown);
    return rc;
}

/* Says in @err that @shown lies outside of the roots, under the key of the job file. */
static int outside_of_roots(const struct listing *l, const char *shown, struct err *err)
{
    int rc = data_roots_refuse(l->roots, shown, err);
    return err != NULL ? err_wrap(err, "%s", l->key) : rc;
}

static int append_matches(struct listing *l, const char *name, struct err *err)
{
    const char *key = l->key;
    char *escaped = l->dir == NULL ? NULL : escape(l->dir), *pattern = file_join(escaped, name);
    char *shown = file_join(l->dir, name);
    glob_t found;
    bool outside = false;
    int rc = 0, code = file_glob(l->roots, pattern, &found, &outside);
    if (outside) {
        rc = outside_of_roots(l, shown, err);
    } else if (code == GLOB_NOMATCH || (code == 0 && found.gl_pathc == 0)) {
        rc = none_matches(shown, key, err);
    } else if (code == GLOB_NOSPACE) {
        rc = err_set(err, ERR_EXHAUSTED, "%s: no memory for the files that match %s", key, shown);
    } else if (code != 0) {
        rc = err_set(err, ERR_PERMISSION, "%s: a directory of %s cannot be read", key, shown);
    } else if (append_found(l, found.gl_pathv, found.gl_pathc, name) == 0) {
        rc = none_matches(shown, key, err);
    }
    globfree(&found);
    free(escaped);
    free(pattern);
    free(shown);
    return rc;
}

/* Refuses a file that stands in the list twice: its records would count twice. */
static int check_twins(const struct file_list *list, const char *key, struct err *err)
{
    if (list->count < 2) {
        return 0;
    }
    char **sorted = mem_new(list->count, sizeof *sorted);
    memcpy(sorted, list->paths, list->count * sizeof *sorted);
    qsort(sorted, list->count, sizeof *sorted, by_bytes);
    int rc = 0;
    for (size_t i = 1; i < list->count && rc == 0; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0) {
            rc = err_set(err, ERR_INVALID, "%s: %s is named twice", key, sorted[i]);
        }
    }
    free(sorted);
    return rc;
}

/* The path of a file:// URL; other locations as they are. */
static const char *plain(const char *location)
{
    return strncmp(location, "file:///", 8) == 0 ? location + 7 : location;
}

/* Looks whether there is a file with this very name, special characters included. */
static int look(const struct listing *l, const char *path, bool *there, struct err *err)
{
    bool url = storage_is_url(path), outside = data_roots_check(l->roots, path, NULL) != 0;
    if (!url) {
        *there = !outside && file_exists(path);
        return 0;
    }
    if (outside) {
        return outside_of_roots(l, path, err);
    }
    enum storage_thing thing = STORAGE_NOTHING;
    struct err cause = {0};
    int rc = storage_look(path, &thing, &cause);
    *there = thing == STORAGE_FILE;
    return rc == 0 ? 0 : store_error(rc, &cause, l->key, err);
}

static int append_named(struct listing *l, const char *name, struct err *err)
{
    char *path = storage_join(l->dir, name);
    bool there = true;
    int rc = strpbrk(name, "*?[") == NULL ? 0 : look(l, path, &there, err);
    if (rc == 0 && there) {
        append(l, path, false);
        return 0;
    }
    if (rc == 0) {
        rc = storage_is_url(path) ? append_objects(l, name, err) : append_matches(l, name, err);
    }
    free(path);
    return rc;
}

int file_list_make(const struct data_roots *roots, const char *dir, const char *names,
                   const char *key, struct file_list *out, struct err *err)
{
    struct field_texts texts = {0};
    if (names != NULL && !field_texts_read(names, &texts)) {
        return err_set(err, ERR_INVALID, "%s: %s is not a list of files; expected [a, b]", key,
                       names);
    }
    struct listing l = {.roots = roots, .key = key};
    /* "./" only lengthens messages. */
    l.dir = dir != NULL && strcmp(dir, ".") != 0 ? plain(dir) : NULL;
    int rc = 0;
    for (size_t i = 0; i < texts.count && rc == 0; i++) {
        rc = append_named(&l, plain(texts.items[i]), err);
    }
    field_texts_release(&texts);
    if (rc == 0) {
        rc = check_twins(&l.made, key, err);
    }
    if (rc != 0) {
        file_list_release(&l.made);
        return rc;
    }
    *out = l.made;
    return 0;
}
