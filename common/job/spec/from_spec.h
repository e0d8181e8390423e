/* SPDX-License-Identifier: Apache-2.0 */
/* The section `from` of a job file: the source of the variables' first values. Plain data, owned by
 * the job spec. */
#ifndef GRADUS_JOB_SPEC_FROM_SPEC_H
#define GRADUS_JOB_SPEC_FROM_SPEC_H

#include <stdbool.h>
#include <stddef.h>

#define FROM_MAP_MAX 256
#define FROM_PATTERN_BYTES_MAX 255
#define FROM_STARS_MAX 4 /* of one pattern */

/* Names of the source that match `from` are those of `to` here, with the text of each star in the
 * place of the star of the same number. */
struct from_map {
    char *from;
    char *to; /* "": what matches is left out */
};

/* Where what is measured of records comes from: means, deviations, categories, classes. */
enum from_encoding {
    FROM_ENCODING_AUTO, /* the source's, if it is a checkpoint that has one */
    FROM_ENCODING_SOURCE,
    FROM_ENCODING_MEASURE /* of the train records, as in any job */
};

struct from_spec {
    char *checkpoint, *safetensors, *onnx; /* paths, "": not this one; at most one is given */
    bool best;                             /* of a checkpoint: the best version that is kept */
    bool slots;
    int encoding; /* enum from_encoding */
    bool strict;
    struct from_map *map; /* [map_count] the first that matches counts */
    size_t map_count;
};

#endif
