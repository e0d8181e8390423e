/* SPDX-License-Identifier: Apache-2.0 */
#include "support/test.h"

#include <string.h>

#include "client/plain.h"
#include "gradus/v1/jobs.pb-c.h"

static void test_strings_at_every_depth(void **state)
{
    (void)state;
    char reason[] = "\x1b[31mbad\r\nworker";
    char text[] = "name: a\n\tb: \x1b]0;x\x07\n";
    char worker[] = "w\x9b\xC2\x9B"
                    "1";
    char shown[] = "K\xC3\xB6ln";
    char beyond[] = "\x1b[0m";
    char *workers[] = {worker, shown, beyond}; /* of which two belong to the message */
    Gradus__V1__Job job = GRADUS__V1__JOB__INIT;
    job.reason = reason;
    job.text = text;
    job.workers = workers;
    job.n_workers = 2;
    Gradus__V1__Job *jobs[] = {&job};
    Gradus__V1__ListJobsResponse list = GRADUS__V1__LIST_JOBS_RESPONSE__INIT;
    list.jobs = jobs;
    list.n_jobs = 1;
    plain_message(&list.base);
    assert_string_equal(reason, "?[31mbad \nworker");
    assert_string_equal(text, "name: a\n\tb: ?]0;x?\n");
    assert_string_equal(worker, "w\x9b??1");
    assert_string_equal(shown, "K\xC3\xB6ln");
    assert_string_equal(beyond, "\x1b[0m");
    struct err err = {.msg = "a\x1b\n\tb\x01"};
    plain_err(&err);
    assert_string_equal(err.msg, "a?\n\tb?");
    plain_reply(NULL);
    assert_string_equal(job.name, ""); /* absent fields are left alone */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_strings_at_every_depth),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
