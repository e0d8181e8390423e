/* SPDX-License-Identifier: Apache-2.0 */
/* A job goes on from a checkpoint only with the data, and the variables that workers bring, that it
 * was trained on before: with others it would not be the same training. Their fingerprints are in
 * its row. */
#include "master/core/core.h"

void data_note(struct job *j)
{
    j->record.data = (struct job_data){
        .train = j->train.fingerprint, .test = j->test.fingerprint, .given = j->given.fingerprint};
}

static bool differ(uint64_t before, uint64_t now)
{
    return before != 0 && now != 0 && before != now; /* rows of earlier versions do not say */
}

int data_check_same(const struct job *j, struct err *err)
{
    const struct job_data *before = &j->record.data;
    const char *what = differ(before->train, j->train.fingerprint) ? "the training records"
                       : differ(before->test, j->test.fingerprint) ? "the test records"
                       : differ(before->given, j->given.fingerprint)
                           ? "the variables of its program, or their initial values,"
                           : NULL;
    return what == NULL ? 0
                        : err_set(err, ERR_INVALID,
                                  "%s are not those that it was trained with until then", what);
}
