/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the files of a source one after the other and appends their records, which have to be of
 * one kind. */
#include "data/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* The files of one source, and their format. */
struct part_reader {
    const struct data_spec *spec;
    const struct data_source *source;
    const char *key; /* "train" or "test" */
    bool label_is_class;
    struct file_list files, labels; /* labels: none, or as many */
    struct format_choice choice;
};

int parts_files(const struct data_spec *spec, const char *part, struct file_list *files,
                struct file_list *labels, struct err *err)
{
    const struct data_source *source = strcmp(part, "train") == 0 ? &spec->train : &spec->test;
    char key[32];
    (void)snprintf(key, sizeof key, "data.%s.file", part);
    int rc = file_list_make(spec->roots, spec->dir, source->file, key, files, err);
    if (rc == 0) {
        (void)snprintf(key, sizeof key, "data.%s.labels", part);
        rc = file_list_make(spec->roots, spec->dir, source->labels, key, labels, err);
    }
    if (rc == 0 && labels->count > 0 && labels->count != files->count) {
        rc = err_set(err, ERR_INVALID,
                     "data.%s.file means %zu files, data.%s.labels %zu; every file of features "
                     "needs one of labels",
                     part, files->count, part, labels->count);
    }
    return rc;
}

int parts_empty(const char *part, const struct file_list *files, struct err *err)
{
    return err_set(err, ERR_INVALID,
                   "data.%s.file: there is no record in %s%s: empty, or a header alone", part,
                   files->paths[0], files->count == 1 ? "" : " and the other files");
}

int parts_format(const struct data_spec *spec, const char *part, const struct file_list *files,
                 size_t *first, struct format_choice *out, struct err *err)
{
    for (size_t i = 0; i < files->count; i++) {
        struct err cause = {0};
        *out = (struct format_choice){0};
        *first = i;
        int rc = format_find(spec, files->paths[i], out, &cause);
        if (rc == 0 || !out->empty || !files->found[i]) {
            return rc == 0 ? 0 : err_set(err, rc, "%s", cause.msg);
        }
    }
    return parts_empty(part, files, err);
}

char *parts_choice(const struct format_choice *choice)
{
    return choice->why == NULL ? mem_strdup(choice->format->name)
                               : mem_printf("%s, because %s", choice->format->name, choice->why);
}

char *parts_where(const struct file_list *files)
{
    return files->count > 1 ? mem_printf("%s and %zu more", files->paths[0], files->count - 1)
                            : mem_strdup(files->paths[0]);
}

int parts_doubt(const char *format, const char *why, struct err *err)
{
    struct err cause = err != NULL ? *err : (struct err){0};
    return err_set(err, cause.code, "%s; data.format: auto takes the file for %s, because %s",
                   cause.msg, format, why);
}

/* Reads file @i behind @had, the records of the files before. */
static int read_file(const struct part_reader *r, size_t i, const struct records *had,
                     struct records *out, struct err *err)
{
    const uint64_t limit = (uint64_t)r->source->limit;
    struct format_request request = {
        .spec = r->spec,
        .path = r->files.paths[i],
        .labels_path = r->labels.count > 0 ? r->labels.paths[i] : "",
        .key = r->key,
        .limit = limit == 0 ? 0 : limit - had->count,
        .bad_had = had->bad_count,
        .label_is_class = r->label_is_class,
        .may_be_empty = r->files.found[i],
    };
    /* Checked before a format says what it lacks: of files outside of the roots nothing is said. */
    int rc = data_roots_check(r->spec->roots, request.path, err);
    return rc != 0 ? rc : r->choice.format->read(&request, out, err);
}

static int read_files(struct part_reader *r, struct records *out, struct err *err)
{
    const uint64_t limit = (uint64_t)r->source->limit;
    size_t first = 0;
    int rc = parts_format(r->spec, r->key, &r->files, &first, &r->choice, err);
    for (size_t i = first; i < r->files.count && rc == 0; i++) {
        if (limit > 0 && out->count >= limit) {
            break;
        }
        struct records more = {0};
        rc = read_file(r, i, out, &more, err);
        if (i == first && (rc == ERR_INVALID || rc == ERR_CORRUPT) && !r->choice.sure) {
            rc = parts_doubt(r->choice.format->name, r->choice.why, err);
        }
        if (rc == 0 && more.count > 0 && out->count > 0) {
            rc = records_append(out, &more, err);
        } else if (rc == 0 && more.count > 0) {
            *out = more;
            more = (struct records){0};
        }
        records_release(&more);
    }
    return rc == 0 && out->count == 0 ? parts_empty(r->key, &r->files, err) : rc;
}

/* @like: the records that these ones must fit, NULL: none. @choice: NULL, or the format
 * that reads them, owned. */
static int read_source(const struct data_spec *spec, const char *key, bool label_is_class,
                       const struct records *like, struct records *out, char **choice,
                       struct err *err)
{
    struct part_reader r = {
        .spec = spec,
        .source = strcmp(key, "train") == 0 ? &spec->train : &spec->test,
        .key = key,
        .label_is_class = label_is_class,
    };
    int rc = parts_files(spec, key, &r.files, &r.labels, err);
    if (rc == 0) {
        rc = read_files(&r, out, err);
    }
    if (rc == 0 && r.files.count > 1) {
        free(out->where);
        out->where = parts_where(&r.files);
    }
    if (rc == 0) {
        rc = records_spread(out, like != NULL ? like->numbers : out->numbers, err);
    }
    file_list_release(&r.files);
    if (rc == 0 && choice != NULL) {
        *choice = parts_choice(&r.choice);
    }
    file_list_release(&r.labels);
    free(r.choice.why);
    return rc;
}

static bool is_set(const char *s)
{
    return s != NULL && s[0] != '\0';
}

int parts_check(const struct data_spec *spec, struct err *err)
{
    if (!is_set(spec->train.file)) {
        return err_set(err, ERR_INVALID, "data.train.file is not set");
    }
    if (is_set(spec->test.file) && spec->test_fraction > 0) {
        return err_set(err, ERR_INVALID,
                       "data.test.file and data.test_fraction exclude each other");
    }
    return 0;
}

int parts_read(const struct data_spec *spec, bool label_is_class, const struct records *like,
               struct parts *out, struct err *err)
{
    struct records *train = &out->train, *test = &out->test;
    int rc = parts_check(spec, err);
    rc = rc != 0 ? rc : read_source(spec, "train", label_is_class, like, train, &out->format, err);
    if (rc != 0) {
        return rc;
    }
    out->has_test = true;
    if (spec->test_fraction > 0) {
        rc = records_split(train, spec->test_fraction, (uint64_t)spec->split_seed, test, err);
        if (rc == 0) {
            records_limit(test, (uint64_t)spec->test.limit);
        }
    } else if (is_set(spec->test.file)) {
        rc = read_source(spec, "test", label_is_class, train, test, NULL, err);
        if (rc == 0) {
            rc = records_match(train, test, err);
        }
    } else {
        out->has_test = false;
    }
    return rc;
}

int parts_read_test(const struct data_spec *spec, bool label_is_class, const struct records *like,
                    struct records *out, struct err *err)
{
    return read_source(spec, "test", label_is_class, like, out, NULL, err);
}

void parts_release(struct parts *p)
{
    records_release(&p->train);
    records_release(&p->test);
    free(p->format);
}
