/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and checks the job file of a command line, with its --set options applied, and builds the
 * model that the file describes. */
#include "cli/job_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "cli/from_source.h"
#include "cli/job_paths.h"
#include "cli/terminal.h"
#include "job/plan/plan_update.h"
#include "os/file.h"
#include "storage/storage.h"

static int read_text(const char *path, struct buf *text, struct err *err)
{
    return storage_is_url(path) ? storage_read(path, JOB_FILE_BYTES_MAX, text, err)
                                : file_read(strcmp(path, "-") == 0 ? "/dev/stdin" : path,
                                            JOB_FILE_BYTES_MAX, text, err);
}

void job_file_release(struct job_file *file)
{
    buf_release(&file->text);
    job_spec_release(&file->spec);
    free(file->from);
    free(file->tensorboard);
}

int job_file_parse(struct job_file *file, const struct cli_args *args,
                   const struct cli_common *common, struct diags *diags)
{
    const char *path = args->positional[0];
    struct err err = {0};
    int code = cli_load_rules(common);
    if (code != CLI_OK) {
        return code;
    }
    file->path = path;
    if (read_text(path, &file->text, &err) != 0) {
        diags_add(diags, path, 0, 0, "%s", err.msg);
        code = err.code == ERR_NOT_FOUND     ? CLI_NOT_FOUND
               : err.code == ERR_UNAVAILABLE ? CLI_UNAVAILABLE
               : storage_is_url(path)        ? CLI_FAILED
                                             : CLI_USAGE;
    } else if (job_spec_parse(buf_str(&file->text), file->text.len, path, args->sets,
                              args->set_count, &file->spec, diags) != 0) {
        code = CLI_USAGE;
    } else {
        job_paths_resolve(file, args);
        file->tensorboard = job_paths_tensorboard(file, args);
    }
    if (code != CLI_OK) {
        job_file_release(file);
        *file = (struct job_file){0};
    }
    return code;
}

int job_file_read(struct job_file *file, const struct cli_args *args,
                  const struct cli_common *common)
{
    struct diags diags = {0};
    struct buf messages = {0};
    int code = job_file_parse(file, args, common, &diags);
    if (code == CLI_NOT_FOUND && diags.count > 0) {
        cli_say(diags.items[0].message);
    } else if (diags.count > 0) {
        struct buf wrapped = {0};
        diags_format(&diags, &messages);
        terminal_wrap(buf_str(&messages), terminal_columns(STDERR_FILENO), &wrapped);
        (void)fputs(buf_str(&wrapped), stderr);
        buf_release(&wrapped);
        (void)fprintf(stderr, "gradus: %s: %zu error%s\n", args->positional[0], diags.count,
                      diags.count == 1 ? "" : "s");
    }
    if (diags.count > 0) {
        cli_remember(args->positional[0], &diags);
    }
    buf_release(&messages);
    diags_release(&diags);
    return code;
}

static void say_bad_records(const char *part, const struct dataset *d)
{
    const char *first = NULL;
    uint64_t count = d == NULL ? 0 : dataset_bad_records(d, &first);
    if (count > 0) {
        char *text = mem_printf("%" PRIu64 " bad %s record%s left out; the first: %s", count, part,
                                count == 1 ? " is" : "s are", first);
        cli_say(text);
        free(text);
    }
}

/* One of both parts will do. */
static void say_foreign_text(const struct dataset *train, const struct dataset *test)
{
    const char *first = dataset_foreign_text(train);
    first = first == NULL && test != NULL ? dataset_foreign_text(test) : first;
    if (first != NULL) {
        char *text = mem_printf("warning: %s is not UTF-8; texts are compared byte by byte, so "
                                "records in another encoding have other categories: bring the "
                                "file to UTF-8 (iconv -f latin1 -t utf8)",
                                first);
        cli_say(text);
        free(text);
    }
}

static bool names_url(const struct data_spec *data)
{
    const char *const all[] = {data->dir, data->train.file, data->train.labels, data->test.file,
                               data->test.labels};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (all[i] != NULL && strstr(all[i], "://") != NULL) {
            return true;
        }
    }
    return false;
}

bool job_file_data_elsewhere(const struct job_spec *spec, int rc)
{
    bool store = rc == ERR_PERMISSION || rc == ERR_UNAVAILABLE;
    return rc == ERR_NOT_FOUND || (store && names_url(&spec->data));
}

/* ERR_UNSUPPORTED: only workers know the model. */
static int job_file_refuse_program(const struct job_spec *spec, struct err *err)
{
    return err_set(
        err, ERR_UNSUPPORTED,
        "the model is program '%s' of the workers (model.program): only they can compute "
        "it, and tell its variables",
        spec->model.program);
}

static int open_data(const struct job_spec *spec, struct dataset **train, struct dataset **test,
                     struct err *err)
{
    struct data_spec data = spec->data; /* borrows what the other has */
    char *measured = NULL;
    int rc = from_source_measured(spec, &measured, err);
    data.cache_dir = getenv(JOB_FILE_CACHE_DIR);
    data.measured = measured;
    rc = rc != 0 ? rc : dataset_open(&data, job_spec_label_kind(spec), train, test, err);
    if (rc == 0 && dataset_news(*train) != NULL) {
        cli_note("from.encoding: %s", dataset_news(*train));
    }
    free(measured);
    return rc;
}

int job_file_data(const struct job_spec *spec, struct dataset **train, struct dataset **test,
                  struct err *err)
{
    int rc = open_data(spec, train, test, err);
    if (rc == 0) {
        say_bad_records("train", *train);
        say_bad_records("test", *test);
        say_foreign_text(*train, *test);
        if (dataset_lacks_weights(*test, &spec->data)) {
            cli_say(DATA_NO_WEIGHTS);
        }
        if (dataset_of_one_class(*train)) {
            cli_say(DATA_ONE_CLASS);
        }
    }
    return rc;
}

int job_file_model(struct job_spec *spec, struct model **model, struct dataset **train,
                   struct dataset **test, struct err *err)
{
    if (job_spec_is_program(spec)) {
        return job_file_refuse_program(spec, err);
    }
    int imported = job_spec_import(spec, NULL, err);
    if (imported != 0) {
        return imported;
    }
    struct err data_err = {0};
    int rc = job_file_data(spec, train, test, &data_err);
    struct shape input = {0};
    uint32_t classes = 0;
    if (rc == 0) {
        const struct dataset_info *info = dataset_info(*train);
        input = info->features;
        classes = info->label_is_class ? info->classes : 0;
    } else if (spec->model.input.count > 0 &&
               (spec->data.classes > 0 || job_spec_label_kind(spec) != DATA_LABEL_CLASS) &&
               !spec->data.lists_all && spec->data.list_count == 0 &&
               job_file_data_elsewhere(spec, rc)) {
        *train = NULL;
        *test = NULL;
        input.rank = spec->model.input.count;
        for (size_t i = 0; i < input.rank; i++) {
            input.dims[i] = (uint64_t)spec->model.input.values[i];
        }
        classes = (uint32_t)spec->data.classes;
    } else {
        return err_set(err, rc, "%s", data_err.msg);
    }
    rc = model_new(&spec->model, &input, *train == NULL ? NULL : &dataset_info(*train)->fields,
                   classes, model, err);
    rc = rc != 0 ? rc : model_check_batch(*model, (size_t)spec->training.batch_size, err);
    rc = rc != 0 ? rc : from_source_check(spec, *model, err);
    if (rc != 0 || *train == NULL) {
        return rc;
    }
    rc = job_spec_check_lists(*model, *train, *test, err);
    rc = rc != 0 ? rc : job_spec_check_input(spec, *train, *test, err);
    return rc != 0 ? rc : job_spec_check_groups(*model, *test, "test", err);
}

int job_file_plan(const struct job_spec *spec, const struct model *model, struct plan *plan,
                  struct err *err)
{
    struct variable_spec *variables = model_variables(model);
    int rc = plan_make_job(variables, model_variable_count(model), spec, plan, err);
    free(variables);
    return rc != 0 ? rc : plan_update_check(plan, &spec->update, err);
}

static int need_of_model(const struct job_spec *spec, const struct model *model,
                         const struct dataset *train, const struct dataset *test,
                         struct memory_need *out, struct err *err)
{
    struct plan plan = {0};
    struct output_update update = {0};
    int rc = job_file_plan(spec, model, &plan, err);
    rc = rc != 0 ? rc : output_update_init(&update, &plan, spec, err);
    if (rc == 0) {
        memory_need_of(&update, model, train, test, out);
        output_update_release(&update);
    }
    plan_release(&plan);
    return rc;
}

int job_file_memory(struct job_spec *spec, struct memory_need *need, struct err *err)
{
    struct model *model = NULL;
    struct dataset *train = NULL, *test = NULL;
    int rc = job_file_model(spec, &model, &train, &test, err);
    rc = rc != 0 ? rc : need_of_model(spec, model, train, test, need, err);
    model_free(model);
    dataset_free(train);
    dataset_free(test);
    return rc;
}
