/* SPDX-License-Identifier: Apache-2.0 */
/* flatten: the same numbers as one row. */
#include "graph/op.h"

static int flatten_plan(struct layer *l, struct err *err)
{
    (void)err;
    l->out = (struct shape){.rank = 1, .dims = {l->in_count}};
    return 0;
}

extern const struct layer_kind layer_flatten;
const struct layer_kind layer_flatten = {
    .name = "flatten",
    .help = "Makes one row of an image or any other shape",
    .view = true,
    .plan = flatten_plan,
};
