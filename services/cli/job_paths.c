/* SPDX-License-Identifier: Apache-2.0 */
/* Finds out where the relative paths of a job file lead to. */
#include "cli/job_paths.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "data/file_list.h"
#include "os/file.h"
#include "storage/storage.h"

bool job_paths_is_relative(const char *path)
{
    return path != NULL && path[0] != '\0' && path[0] != '/' && !storage_is_url(path);
}

/* Calls @each with the relative path of each key of @spec until it returns true, and returns that.
 */
static bool any_path(const struct job_spec *spec, bool (*each)(void *ctx, const char *path),
                     void *ctx)
{
    const struct data_spec *data = &spec->data;
    const char *const paths[] = {data->train.file,       data->train.labels,    data->test.file,
                                 data->test.labels,      spec->from.checkpoint, spec->model.onnx,
                                 spec->from.safetensors, spec->from.onnx};
    bool stop = false;
    for (size_t i = 0; i < sizeof paths / sizeof paths[0] && !stop; i++) {
        stop = job_paths_is_relative(paths[i]) && each(ctx, paths[i]);
    }
    for (size_t i = 0; i < data->column_count && !stop; i++) {
        const char *path = data->columns[i].vocabulary_file;
        stop = job_paths_is_relative(path) && each(ctx, path);
    }
    return stop;
}

static bool yes(void *ctx, const char *path)
{
    (void)ctx;
    (void)path;
    return true;
}

bool job_paths_used(const struct job_spec *spec)
{
    return any_path(spec, yes, NULL);
}

/* ---- which way ---- */

struct count {
    const char *dir;
    size_t found;
};

/* The first file of a pattern or a list counts for all. */
static bool count_found(void *ctx, const char *path)
{
    struct count *c = ctx;
    struct file_list list = {0};
    enum storage_thing thing = STORAGE_NOTHING;
    if (file_list_make(NULL, c->dir, path, "", &list, NULL) == 0 && list.count > 0) {
        (void)storage_look(list.paths[0], &thing, NULL);
    }
    c->found += thing != STORAGE_NOTHING;
    file_list_release(&list);
    return false;
}

static size_t found_in(const struct job_spec *spec, const char *dir)
{
    struct count c = {.dir = dir};
    (void)any_path(spec, count_found, &c);
    return c.found;
}

/* @key: with "=". */
static bool is_typed(const struct cli_args *args, const char *key)
{
    bool typed = false;
    for (size_t i = 0; i < args->set_count; i++) {
        typed = typed || strncmp(args->sets[i], key, strlen(key)) == 0;
    }
    return typed;
}

/* Returns owned; NULL: it is the directory of this process, or (of standard input, a pipe, a store)
 * none that paths could start from. */
static char *dir_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    struct stat st;
    if (slash == NULL || stat(path, &st) != 0 || !S_ISREG(st.st_mode)) {
        return NULL;
    }
    return slash == path ? mem_strdup("/") : mem_printf("%.*s", (int)(slash - path), path);
}

void job_paths_resolve(struct job_file *file, const struct cli_args *args)
{
    char *given = file->spec.data.dir, *own = dir_of(file->path);
    if (own == NULL || is_typed(args, "data.dir=") || !job_paths_is_relative(given) ||
        !job_paths_used(&file->spec)) {
        free(own);
        return;
    }
    char *dir = strcmp(given, ".") == 0 ? mem_strdup(own) : file_join(own, given);
    if (found_in(&file->spec, given) > found_in(&file->spec, dir)) {
        cli_note("warning: relative paths of %s start from its own directory, where its files are "
                 "not; they are taken from the working directory, as earlier versions did: --set "
                 "data.dir=%s says that it is meant so",
                 file->path, given);
        free(dir);
    } else {
        free(given);
        file->spec.data.dir = dir;
        file->dir_moved = true;
    }
    free(own);
}

/* "/a/./b/../c" → "/a/c": the master takes no path with "..". Returns owned. */
static char *without_dots(const char *path)
{
    char *out = mem_new(strlen(path) + 2, 1);
    size_t n = 0;
    while (*path != '\0') {
        path += strspn(path, "/");
        const size_t part = strcspn(path, "/");
        if (part == 2 && memcmp(path, "..", 2) == 0) {
            while (n > 0 && out[--n] != '/') {
            }
        } else if (part > 0 && !(part == 1 && path[0] == '.')) {
            out[n++] = '/';
            memcpy(out + n, path, part);
            n += part;
        }
        path += part;
    }
    if (n == 0) {
        out[n++] = '/';
    }
    out[n] = '\0';
    return out;
}

char *job_paths_tensorboard(const struct job_file *file, const struct cli_args *args)
{
    const char *given = file->spec.training.tensorboard;
    if (!job_paths_is_relative(given)) {
        return NULL;
    }
    char *own = is_typed(args, "training.tensorboard=") ? NULL : dir_of(file->path);
    char *path = own == NULL ? mem_strdup(given) : file_join(own, given);
    char *absolute = storage_absolute(path);
    char *plain = without_dots(absolute);
    free(absolute);
    free(path);
    free(own);
    return plain;
}
