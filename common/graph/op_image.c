/* SPDX-License-Identifier: Apache-2.0 */
/* What the layers over images share: how a window lies over the input. */
#include <inttypes.h>

#include "graph/op.h"

/* [n] or [height, width]; an empty list takes the fallback. */
static int pair(const struct field_ints *v, const char *key, size_t *height, size_t *width,
                struct err *err)
{
    if (v->count == 0) {
        return 0;
    }
    if (v->count > 2) {
        return err_set(err, ERR_INVALID,
                       "%s has %zu numbers; one number, or [height, width] would fit", key,
                       v->count);
    }
    *height = (size_t)v->values[0];
    *width = (size_t)v->values[v->count - 1];
    return 0;
}

int layer_plan_window(struct layer *l, const struct image_params *p, const char *size_key,
                      struct err *err)
{
    char shape[96];
    struct window *w = &l->window;
    if (l->in.rank != 2 && l->in.rank != 3) {
        return err_set(err, ERR_INVALID,
                       "it needs images, but its input is %s; [height, width, channels] or "
                       "[height, width] would fit (model.input gives records their shape)",
                       shape_format(&l->in, shape, sizeof shape));
    }
    *w = (struct window){.in_height = (size_t)l->in.dims[0],
                         .in_width = (size_t)l->in.dims[1],
                         .channels = l->in.rank == 3 ? (size_t)l->in.dims[2] : 1,
                         .same = p->padding == 1};
    int rc = pair(&p->size, size_key, &w->height, &w->width, err);
    w->stride_height = w->height;
    w->stride_width = w->width;
    if (rc == 0) {
        rc = pair(&p->stride, "stride", &w->stride_height, &w->stride_width, err);
    }
    if (rc != 0) {
        return rc;
    }
    if (w->height < 1 || w->width < 1 || w->stride_height < 1 || w->stride_width < 1) {
        return err_set(err, ERR_INVALID, "%s and stride must be given; numbers from 1 would fit",
                       size_key);
    }
    window_place(w);
    if (window_positions(w) == 0) {
        return err_set(err, ERR_INVALID,
                       "%s [%zu, %zu] does not fit its input %s; a %s of at most [%zu, %zu] or "
                       "padding: same would",
                       size_key, w->height, w->width, shape_format(&l->in, shape, sizeof shape),
                       size_key, w->in_height, w->in_width);
    }
    return 0;
}

void layer_image_output(struct layer *l, uint64_t channels)
{
    l->out =
        (struct shape){.rank = 3, .dims = {l->window.out_height, l->window.out_width, channels}};
}
