/* SPDX-License-Identifier: Apache-2.0 */
/* A job goes on from a checkpoint only with the data, and the variables that workers bring, that it
 * was trained on before: with others it would not be the same training. Their fingerprints are in
 * its row. */
#include "graph/model_import.h"
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

/* What a job's workers bring is one file, or what a program says. */
static int other_given(const struct job *j, struct err *err)
{
    return model_is_imported(&j->spec.model)
               ? err_set(err, ERR_INVALID,
                         "model.onnx %.200s, or a file of its weights, is not that with which it "
                         "was trained until then",
                         j->spec.model.onnx)
               : err_set(err, ERR_INVALID,
                         "the variables of its program, or their initial values, are not those "
                         "that it was trained with until then");
}

int data_check_same(const struct job *j, struct err *err)
{
    const struct job_data *before = &j->record.data;
    const char *what = differ(before->train, j->train.fingerprint) ? "the training records"
                       : differ(before->test, j->test.fingerprint) ? "the test records"
                                                                   : NULL;
    if (what != NULL) {
        return err_set(err, ERR_INVALID, "%s are not those that it was trained with until then",
                       what);
    }
    return differ(before->given, j->given.fingerprint) ? other_given(j, err) : 0;
}

uint64_t data_model_file(const struct job *j)
{
    return model_is_imported(&j->spec.model) ? j->record.data.given : 0;
}
