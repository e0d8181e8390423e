/* SPDX-License-Identifier: Apache-2.0 */
/* The network of a job file trained in this process, without any parameter server: the limit.
 *
 * Usage: bench_local JOB.yaml STEPS [KEY=VALUE]...; prints one line of JSON. */
#include <stdio.h>
#include <stdlib.h>

#include "base/float_mode.h"
#include "base/text.h"
#include "bench/local_training.h"
#include "data/dataset.h"
#include "job/spec/job_spec.h"
#include "os/file.h"
#include "tensor/blas_kernels.h"

static int fail(const char *what)
{
    (void)fprintf(stderr, "bench_local: %s\n", what);
    return 1;
}

static int measure(const struct job_spec *spec, uint64_t steps, struct err *err)
{
    struct dataset *train = NULL, *test = NULL;
    int rc = dataset_open(&spec->data, job_spec_label_kind(spec), &train, &test, err);
    if (rc != 0) {
        return rc;
    }
    const struct dataset_info *info = dataset_info(train);
    struct local_training t = {
        .model = &spec->model,
        .update = &spec->update,
        .input = info->features,
        .classes = info->label_is_class ? info->classes : 0,
        .batch_size = (size_t)spec->training.batch_size,
        .threads = (int)spec->cluster.blas_threads,
    };
    struct local_result r;
    rc = local_training_run(&t, steps, &r, err);
    if (rc == 0) {
        printf("{\"examples_per_second\": %.1f}\n", r.examples_per_second);
    }
    dataset_free(train);
    dataset_free(test);
    return rc;
}

int main(int argc, char **argv)
{
    float_mode_flush();
    blas_kernels_choose(argv);
    int64_t steps;
    if (argc < 3 || !text_to_int(argv[2], &steps) || steps < 1) {
        return fail("usage: bench_local JOB.yaml STEPS [KEY=VALUE]...");
    }
    struct buf text = {0};
    struct err err = {0};
    struct diags diags = {0};
    struct job_spec spec = {0};
    if (file_read(argv[1], 1U << 20, &text, &err) != 0) {
        return fail(err.msg);
    }
    int rc = job_spec_parse(buf_str(&text), text.len, argv[1], (const char *const *)(argv + 3),
                            (size_t)(argc - 3), &spec, &diags);
    if (rc != 0) {
        struct buf messages = {0};
        diags_format(&diags, &messages);
        (void)fail(buf_str(&messages));
        buf_release(&messages);
    } else {
        rc = measure(&spec, (uint64_t)steps, &err);
        if (rc != 0) {
            (void)fail(err.msg);
        }
    }
    diags_release(&diags);
    job_spec_release(&spec);
    buf_release(&text);
    return rc == 0 ? 0 : 1;
}
