/* SPDX-License-Identifier: Apache-2.0 */
/* What a layer kind is made of. Private to common/graph.
 *
 * plan() runs once per model, forward() and backward() once per step; they are pure functions of
 * what struct layer_run points to. To add a kind: op_<name>.c with its `const struct layer_kind
 * layer_<name>`, and a line in the list of layer.c. */
#ifndef GRADUS_GRAPH_OP_H
#define GRADUS_GRAPH_OP_H

#include <stdbool.h>

#include "graph/layer.h"
#include "graph/model.h"
#include "tensor/init.h"
#include "tensor/window.h"

#define LAYER_VARIABLES_MAX 4
/* Elements of a record or variable: what BLAS can index. */
#define LAYER_ELEMENTS_MAX INT32_MAX

#define LAYER_FROM_INPUT SIZE_MAX

struct lookup_params;
struct layer_onnx; /* graph/layer_onnx.h */

struct layer_input {
    size_t from;        /* index of the layer whose output it is; LAYER_FROM_INPUT: the records */
    struct shape shape; /* of one record */
    size_t count;       /* its elements */
    /* For a kind that reads sparse fields, in place of all that: */
    size_t field;        /* the field, whose lists a batch has */
    uint64_t field_seed; /* of its name: equal keys of two fields are different keys */
};

/* A layer at work in one model. plan() reads the first group and fills the second. */
struct layer {
    const struct layer_kind *kind;
    char *name;                 /* owned by the model */
    void *params;               /* owned by the model; plain bytes, no strings */
    struct layer_input *inputs; /* owned by the model */
    size_t input_count;
    struct shape in;            /* of the first input */
    size_t in_count;            /* its elements */
    const struct onnx_net *net; /* for a model that is an imported graph; set by the model */
    uint32_t loss_outputs; /* what the loss needs for the labels of the data; set by the model */
    struct {
        const struct model_table *items; /* of the job file */
        size_t count;
    } tables; /* tables of the model; while the model is made */

    struct shape out;
    int activation;                        /* index into activation_names; 0: none */
    const struct variable_spec *variables; /* `own`, or of a kind that has more */
    struct variable_spec own[LAYER_VARIABLES_MAX];
    size_t variable_count;
    size_t state_bytes;       /* per record, kept from forward to backward */
    size_t batch_state_bytes; /* of the whole batch, kept like state_bytes and in place of them */
    size_t scratch_bytes;     /* of the whole batch, for the length of one call */
    size_t records_min;       /* a mini-batch must have so many records to be of use; 0: 1 */
    struct window window;     /* of conv2d and the pools */
    bool has_table;           /* it looks keys up in table `table` of the model, as `lookup` says */
    size_t table;
    const struct lookup_params *lookup;

    size_t out_count;      /* set by the model */
    size_t first_variable; /* set by the model */
};

struct layer_run {
    const struct layer *layer;
    size_t count; /* records */
    bool training;
    const struct runner_step *step; /* when training */
    const float *const *values;     /* of the layer's variables */
    /* overwritten by backward(); of a statistic: records times the batch's statistic */
    float *const *gradients;
    const float *x;                   /* the first input; all of them are in xs */
    const float *const *xs;           /* [input_count] */
    const struct sparse_batch *lists; /* of sparse fields */
    struct runner_rows table;         /* rows of the table in which the layer looks keys up */
    const uint32_t *rows; /* [keys that it looks up], list by list as table.index has them */
    float *y;
    const float *dy;
    float *dx;         /* gradient of the first input; NULL: not needed */
    float *const *dxs; /* [input_count], each overwritten; NULL as dx */
    void *state;
    void *engine;                     /* what open() made */
    void *scratch;                    /* 64-byte aligned */
    const struct runner_ready *ready; /* NULL: nobody waits */
};

/* backward() has made elements [first, first + count) of the layer's gradient @variable, and reads
 * the layer's values no more. */
void layer_ready(const struct layer_run *r, size_t variable, uint64_t first, uint64_t count);

struct layer_kind {
    const char *name;
    const char *help;
    const struct field *fields;
    size_t field_count;
    size_t params_bytes;
    size_t inputs_min; /* 0: 1 */
    size_t inputs_max; /* 0: 1 */
    bool reads_fields; /* its inputs are sparse fields: xs and dxs mean nothing */
    bool in_place;     /* y may be x and dx may be dy; backward() does not read x */
    bool reads_output; /* backward() reads y */
    bool view;         /* y is x in another shape; there is no forward() nor backward() */
    bool tells;        /* backward() calls layer_ready() for everything, last variable first */
    /* Of a kind that reads sparse fields: the keys below which all must be, and the most in a list.
     */
    void (*limits)(const struct layer *l, uint64_t *keys, size_t *length);
    /* Plans a layer. Errors: ERR_INVALID "what is wrong; what would fit"; the caller adds which
     * layer. */
    int (*plan)(struct layer *l, struct err *err);
    void (*forward)(const struct layer_run *r);
    void (*backward)(const struct layer_run *r);
    /* Add what forward() computes in an evaluation to an ONNX file. NULL: the operators of ONNX
     * cannot say it. Errors: ERR_UNSUPPORTED these parameters cannot be said; the caller adds which
     * layer. */
    int (*onnx)(struct layer_onnx *o, struct err *err);
    /* For a kind that keeps more for its runs than the arena of a runner has: made and freed with
     * the runner, and its size. All three or none. Errors: ERR_EXHAUSTED, ERR_INVALID. */
    int (*open)(const struct layer *l, size_t batch_max, void **engine, struct err *err);
    void (*close)(void *engine); /* NULL is fine */
    size_t (*engine_bytes)(const struct layer *l, size_t batch_max);
};

extern const char
    *const activation_names[]; /* "none" and the activations of layer.c, NULL-terminated */

/* How a variable starts; a group of fields that starts with the variable's name. */
struct init_params {
    int kind; /* enum init_kind */
    double mean, spread;
};
/* clang-format off */
#define INIT_FIELDS(type, member, prefix, kind_default)                                            \
    {prefix "_init", FIELD_ENUM, offsetof(type, member.kind), kind_default, 0, 0,                  \
     init_kind_names, "How the " prefix " starts"},                                                \
    {prefix "_init_mean", FIELD_FLOAT, offsetof(type, member.mean), "0", -1e6, 1e6, NULL,          \
     "Centre of uniform, normal and truncated_normal; the value of constant"},                     \
    {prefix "_init_spread", FIELD_FLOAT, offsetof(type, member.spread), "0.05", 0, 1e6, NULL,      \
     "Half the width of uniform; the standard deviation of normal and truncated_normal"}
/* clang-format on */

/* Add variable "<layer>.<part>". Errors: ERR_INVALID too many elements. */
int layer_add_variable(struct layer *l, const char *part, const struct shape *shape,
                       const struct init_params *init, uint64_t fan_in, uint64_t fan_out,
                       struct err *err);
/* plan() of kinds that keep the shape and need nothing. */
int layer_plan_same_shape(struct layer *l, struct err *err);

/* What kinds of several inputs share: the shapes of all inputs are the same. Errors: ERR_INVALID
 * which are not. */
int layer_check_same_inputs(const struct layer *l, struct err *err);
/* The inputs as two rows or more of one width: [width], or several rows in [rows, width]. Errors:
 * ERR_INVALID. */
int layer_plan_rows(const struct layer *l, size_t *rows, size_t *width, struct err *err);
size_t layer_row_count(const struct layer *l); /* rows of a layer that was planned so */
/* Where the rows of record @record are: @out[layer_row_count()]. */
void layer_rows(const struct layer_run *r, size_t record, const float **out);
/* The same places in dxs; NULL: the row's gradient is not needed. */
void layer_row_gradients(const struct layer_run *r, size_t record, float **out);

/* What conv2d and the pools share. */
extern const char *const padding_names[]; /* valid, same */
struct image_params {
    struct field_ints size, stride; /* [n] or [height, width] */
    int padding;
};
/* Fill l->window from an input [H, W, C] or [H, W], the latter as one channel. @size_key names the
 * window's key in messages. @stride empty: as the size. */
int layer_plan_window(struct layer *l, const struct image_params *p, const char *size_key,
                      struct err *err);
/* Output [out_height, out_width, channels]. */
void layer_image_output(struct layer *l, uint64_t channels);

#endif
