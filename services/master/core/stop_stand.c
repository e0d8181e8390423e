/* SPDX-License-Identifier: Apache-2.0 */
/* Early stopping (training.stop): for which evaluations all workers stand still.
 *
 * An evaluation that may be the last one is made where all workers stand, and none goes on until
 * its result is known, so the training ends at the very version that was evaluated. In async and
 * bounded modes this holds for each evaluation whose version may have to be kept as a checkpoint,
 * which is of one cut. */
#include "base/mutant.h"
#include "master/core/core.h"

bool stop_may_end(const struct job *j)
{
    return best_may_stop(&j->record.best, &j->spec.training);
}

bool stop_wants_stand(const struct job *j)
{
    return stop_may_end(j) || (best_is_kept(&j->spec.training) && !MUTANT(best_is_passing));
}
