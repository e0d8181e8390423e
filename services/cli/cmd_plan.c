/* SPDX-License-Identifier: Apache-2.0 */
/* gradus plan: show how a job would be spread over parameter servers, the memory that it takes and
 * the time of a step, before anything is started. It needs the job file, but no cluster. */
#include <stdio.h>

#include "cli/cli.h"
#include "cli/from_source.h"
#include "cli/job_file.h"
#include "cli/job_locate.h"
#include "cli/memory_need.h"
#include "cli/output.h"
#include "cli/plan_speed.h"
#include "cli/terminal.h"

struct options {
    struct cli_common common;
    struct plan_speed_options speed;
};

static const struct field fields[] = {PLAN_SPEED_ROWS(struct options, speed)};

static int print_plan(const struct options *o, const struct job_spec *spec,
                      const struct model *model, const struct dataset *train,
                      const struct dataset *test, struct err *err)
{
    struct plan plan = {0};
    struct output_update update = {0};
    int rc = job_file_plan(spec, model, &plan, err);
    struct plan_speed speed;
    rc = rc != 0 ? rc : plan_speed_of(&o->speed, spec, &plan, model, train, &speed, err);
    rc = rc != 0 ? rc : output_update_init(&update, &plan, spec, err);
    if (rc != 0) {
        plan_release(&plan);
        return rc;
    }
    struct buf out = {0};
    struct memory_need need;
    const struct host_memory host = host_memory("");
    memory_need_of(&update, model, train, test, &need);
    if (o->common.json) {
        output_plan_json(&plan, &update, &need, &host, &speed,
                         train != NULL ? dataset_fields(train) : NULL, &out);
        (void)fputs(buf_str(&out), stdout);
    } else {
        if (train != NULL) {
            sparse_fields_describe(dataset_fields(train), &out);
        }
        model_describe(model, &out);
        buf_add_char(&out, '\n');
        plan_format(&plan, &out);
        output_update_text(&update, &out);
        buf_add_char(&out, '\n');
        memory_need_text(&need, &host, &out);
        buf_add_char(&out, '\n');
        plan_speed_text(&speed, &out);
        terminal_print(&out);
    }
    buf_release(&out);
    output_update_release(&update);
    plan_release(&plan);
    return 0;
}

static int run(const struct cli_args *args)
{
    const struct options *o = args->options;
    struct job_file file = {0};
    int code = job_file_read(&file, args, &o->common);
    if (code == CLI_OK) {
        struct model *model = NULL;
        struct dataset *train = NULL, *test = NULL;
        struct err err = {0};
        (void)from_source_resolve(&file, &o->common, NULL); /* the job's cluster may be elsewhere */
        int rc = job_file_model(&file.spec, &model, &train, &test, &err);
        if (rc == 0) {
            rc = print_plan(o, &file.spec, model, train, test, &err);
        } else if (job_file_data_elsewhere(&file.spec, rc)) {
            err_wrap(&err, "the shape of a record is not known; give model.input and data.classes, "
                           "or data.dir");
        }
        if (rc != 0) {
            job_locate_err(&file, &err);
        }
        code = rc == 0 ? CLI_OK : cli_fail(&err);
        model_free(model);
        dataset_free(train);
        dataset_free(test);
    }
    job_file_release(&file);
    return code;
}

const struct cli_command cmd_plan = {
    .name = "plan",
    .summary =
        "Show which part of which variable goes to which server, and what memory and time it takes",
    .usage = "JOB.yaml",
    .examples = "  gradus plan examples/digits.yaml --set data.dir=digits --set cluster.ps=3\n"
                "  gradus plan job.yaml --set model.input=784\n"
                "  gradus plan job.yaml --set model.input=784 --step-compute 5ms --link 1Gbit\n",
    .shares = CLI_RULES_DIR | CLI_JSON,
    .fields = fields,
    .field_count = sizeof fields / sizeof fields[0],
    .options_bytes = sizeof(struct options),
    .positional_min = 1,
    .positional_max = 1,
    .sets = true,
    .computes = true,
    .run = run,
};
