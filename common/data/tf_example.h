/* SPDX-License-Identifier: Apache-2.0 */
/* tf.train.Example as it lies in memory: a map of names to lists of int64, floats or bytes.
 *
 *   Example { Features features = 1; }   Features { map<string, Feature> feature = 1; }
 *   Feature { oneof { BytesList bytes_list = 1; FloatList float_list = 2; Int64List int64_list = 3;
 *   } } and each list { repeated value = 1; }, numbers packed or not.
 *
 * Nothing is copied, and no byte outside of the record is looked at, whatever it says. */
#ifndef GRADUS_DATA_TF_EXAMPLE_H
#define GRADUS_DATA_TF_EXAMPLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum tf_kind { TF_EMPTY, TF_BYTES, TF_FLOAT, TF_INT64 };
extern const char *const tf_kind_names[];

struct tf_span {
    const uint8_t *p, *end;
};

struct tf_feature {
    struct tf_span name;
    enum tf_kind kind;   /* TF_EMPTY: it holds no list */
    struct tf_span list; /* the message of the list */
};

struct tf_value {
    int64_t integer;
    float number;
    struct tf_span bytes;
};

struct tf_example {
    struct tf_span rest, features;
};
struct tf_values {
    enum tf_kind kind;
    struct tf_span rest, packed;
};

/* The results of a step. */
enum tf_step { TF_FOUND, TF_END, TF_BROKEN };

void tf_example_begin(struct tf_example *e, const uint8_t *bytes, size_t size);
/* The next feature. */
enum tf_step tf_example_next(struct tf_example *e, struct tf_feature *out);
void tf_values_begin(struct tf_values *v, const struct tf_feature *feature);
/* The next value of a feature, in the member of its kind. */
enum tf_step tf_values_next(struct tf_values *v, struct tf_value *out);

#endif
