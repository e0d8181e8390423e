/* SPDX-License-Identifier: Apache-2.0 */
/* Between field tables and YAML trees: read a mapping into a struct, write a struct as a mapping.
 */
#ifndef GRADUS_CONFIG_BINDING_H
#define GRADUS_CONFIG_BINDING_H

#include <stdbool.h>
#include <stddef.h>

#include "config/diag.h"
#include "config/field.h"
#include "config/yaml.h"

/* One struct and the mapping it is read from. All pointers are borrowed. */
struct binding {
    const struct field *fields;
    size_t count;
    void *object;
    bool *seen;               /* [count]: set for each row that was given; NULL: not wanted */
    const char *where;        /* "training", in messages; empty: the whole file */
    const char *const *extra; /* keys that other code reads; NULL-terminated; may be NULL */
    const char *file;
    struct diags *diags;
    /* The full name of the one key that is called @key in other sections (owned), or NULL; may be
     * NULL. */
    char *(*elsewhere)(const char *key);
};

/* Set the fields that @map gives. Unknown keys, values of a wrong type and values out of range are
 * reported, each where it stands; such a field keeps its value. */
void binding_read(const struct binding *b, const struct yaml_node *map);
/* Report each required row that was not seen, at @map. */
void binding_require(const struct binding *b, const struct yaml_node *map);
/* Set one field from @value. @name is the key as the user knows it. False after a report. */
bool binding_set(const struct binding *b, const struct field *field, const char *name,
                 const struct yaml_node *value);
/* Add all fields to @map, in the order of the rows. */
void binding_write(const struct field *fields, size_t count, const void *object,
                   struct yaml_node *map);
/* Report @key as unknown in @where: with the nearest of the @known names, or with all of them. */
void binding_unknown(struct diags *diags, const char *file, const struct yaml_entry *entry,
                     const char *where, const char *const *known, size_t count);

#endif
