/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns are matched by glob(3), which finds no hidden files by a leading star. A directory is
 * taken as it is named, whatever characters it has. */
#include "data/file_list.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "config/field_texts.h"

void file_list_release(struct file_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        free(list->paths[i]);
    }
    free(list->paths);
    *list = (struct file_list){0};
}

static int by_bytes(const void *a, const void *b)
{
    const char *const *x = a, *const *y = b;
    return strcmp(*x, *y);
}

static void append(struct file_list *list, size_t *capacity, char *path)
{
    list->paths = mem_grow(list->paths, capacity, list->count + 1, sizeof *list->paths);
    list->paths[list->count++] = path;
}

/* @dir with a backslash before what a pattern would take for more than itself. */
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

static int append_matches(struct file_list *list, size_t *capacity, const char *dir,
                          const char *name, const char *key, struct err *err)
{
    char *escaped = dir == NULL ? NULL : escape(dir), *pattern = file_join(escaped, name);
    char *shown = file_join(dir, name);
    glob_t found = {0};
    int rc = 0, code = glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, &found);
    if (code == GLOB_NOMATCH || (code == 0 && found.gl_pathc == 0)) {
        rc = err_set(err, ERR_NOT_FOUND, "%s: no file matches %s", key, shown);
    } else if (code == GLOB_NOSPACE) {
        rc = err_set(err, ERR_EXHAUSTED, "%s: no memory for the files that match %s", key, shown);
    } else if (code != 0) {
        rc = err_set(err, ERR_PERMISSION, "%s: a directory of %s cannot be read", key, shown);
    } else {
        qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
        for (size_t i = 0; i < found.gl_pathc; i++) {
            append(list, capacity, mem_strdup(found.gl_pathv[i]));
        }
    }
    globfree(&found);
    free(escaped);
    free(pattern);
    free(shown);
    return rc;
}

/* Data that stand in the list twice would count twice; nobody means that. */
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

int file_list_make(const char *dir, const char *names, const char *key, struct file_list *out,
                   struct err *err)
{
    struct field_texts texts = {0};
    struct file_list made = {0};
    size_t capacity = 0;
    if (names != NULL && !field_texts_read(names, &texts)) {
        return err_set(err, ERR_INVALID, "%s: %s is not a list of files; expected [a, b]", key,
                       names);
    }
    dir = dir != NULL && strcmp(dir, ".") == 0 ? NULL : dir; /* "./" only lengthens messages */
    int rc = 0;
    for (size_t i = 0; i < texts.count && rc == 0; i++) {
        char *path = file_join(dir, texts.items[i]);
        if (strpbrk(texts.items[i], "*?[") == NULL || file_exists(path)) {
            append(&made, &capacity, path);
        } else {
            rc = append_matches(&made, &capacity, dir, texts.items[i], key, err);
            free(path);
        }
    }
    field_texts_release(&texts);
    if (rc == 0) {
        rc = check_twins(&made, key, err);
    }
    if (rc != 0) {
        file_list_release(&made);
        return rc;
    }
    *out = made;
    return 0;
}
