/* SPDX-License-Identifier: Apache-2.0 */
/* Turns outputs into answers, as the loss reads them. */
#include <string.h>

#include "graph/model_impl.h"
#include "tensor/activation.h"

extern const struct layer_kind layer_softmax, layer_sigmoid;

void model_answer(const struct model *m, const float *y, size_t count, float *out)
{
    const bool linked = m->loss_layers < m->layer_count; /* probabilities already */
    if (m->loss->link == &layer_softmax && !linked) {
        activation_softmax(count, m->outputs, y, out);
    } else if (m->loss->link == &layer_sigmoid && !linked) {
        activation_sigmoid(count * m->outputs, y, out);
    } else {
        memcpy(out, y, count * m->outputs * sizeof *out);
    }
}
