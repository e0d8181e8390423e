/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of the job spec share; not for other rooms. */
#ifndef GRADUS_JOB_SPEC_JOB_INTERNAL_H
#define GRADUS_JOB_SPEC_JOB_INTERNAL_H

#include "config/binding.h"
#include "config/yaml.h"
#include "data/encode.h"
#include "job/spec/job_spec.h"

#define JOB_LAYERS_MAX 256    /* deeper models need another description than a list by hand */
#define JOB_INPUT_RANK_MAX 3  /* height, width, channels */
#define JOB_NAME_BYTES_MAX 63 /* a DNS label, a directory name */

/* The sections of a job file that are mappings of rows, in the order of the canonical text. */
enum job_section_id {
    JOB_SECTION_ROOT,
    JOB_SECTION_DATA,
    JOB_SECTION_MODEL,
    JOB_SECTION_UPDATE,
    JOB_SECTION_TRAINING,
    JOB_SECTION_CLUSTER,
    JOB_SECTION_FROM,
    JOB_SECTION_COUNT
};

/* A key that is read by code of its own, not through a row. */
struct job_extra {
    const char *name;
    const char *allowed;
    const char *def; /* default in the reference; NULL: required */
    const char *help;
};
extern const char job_layer_name_help[];
extern const char job_layer_from_help[];

struct job_section {
    const char *name; /* "" for the root */
    const char *help;
    bool required;
    const struct field *fields; /* NULL: no rows (update: those of its rule) */
    const size_t *count;
    size_t offset;                  /* place of the section's struct in struct job_spec */
    const struct job_extra *extras; /* NULL, or up to one without a name */
};
extern const struct job_section job_sections[JOB_SECTION_COUNT];
size_t job_section_count(enum job_section_id id); /* of rows */
/* The full name of the one key of the file that is called @key, where it stands in a section
 * (owned); NULL: there is none, or there are several. */
char *job_elsewhere(const char *key);
/* The struct in @spec that the rows of a section are of. */
void *job_section_object(struct job_spec *spec, enum job_section_id id);

/* The update section beside its rule's hyperparameters: rows over struct update_spec for all rules,
 * for rules without a hyperparameter of the same name, and over struct update_pattern. */
extern const struct field job_update_fields[];
extern const size_t job_update_field_count;
extern const struct field job_penalty_fields[];
extern const size_t job_penalty_field_count;
extern const struct field job_pattern_fields[];
extern const size_t job_pattern_field_count;
bool job_pattern_inherits(const struct field *field); /* its default is what the job says */
bool job_rule_has(const struct rule *rule, const char *name);

extern const struct field job_cluster_fields[];
extern const size_t job_cluster_field_count;

/* The rows of `from`, and of an entry of from.map. */
extern const struct field job_from_fields[];
extern const size_t job_from_field_count;
extern const struct field job_from_map_fields[];
extern const size_t job_from_map_field_count;

/* The state of one parse. */
struct job_reader {
    size_t column_capacity; /* of spec->data.columns */
    const char *file;
    struct diags *diags;
    struct yaml_node *root; /* a mapping */
    struct job_spec *spec;
    bool *seen[JOB_SECTION_COUNT];
    /* rows of the section had no problem, so they can be compared with others */
    bool sound[JOB_SECTION_COUNT];
    bool loss_known;
};

/* Report at the value of "training.replicas", or at the nearest section around it. */
void job_report(const struct job_reader *r, const char *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Whether the file or a --set gave the key @path of the section. */
bool job_seen(const struct job_reader *r, enum job_section_id section, const char *path);
/* The binding of a section's rows. @extra borrows. */
struct binding job_binding(const struct job_reader *r, enum job_section_id section,
                           const char *const *extra);
/* Reads one of @names; false after a report. */
bool job_choice(const struct job_reader *r, const char *const *names, const char *path,
                const struct yaml_node *value, int *choice);

/* Apply "key=value" to the tree; @source ("--set key=value") outlives it. */
void job_set_apply(struct yaml_node *root, const char *set, const char *source,
                   struct diags *diags);

/* The kind of one entry of model.layers and its parameters (NULL: none given); NULL when the entry
 * has not the form of a layer. */
const char *job_layer_entry(const struct yaml_node *entry, struct yaml_node **params);

void job_columns_read(struct job_reader *r); /* data.columns */
void job_tables_read(struct job_reader *r);  /* model.tables */
void job_tables_check(const struct job_reader *r);
void job_model_read(struct job_reader *r);  /* layers, loss, metrics */
void job_update_read(struct job_reader *r); /* reads all of the update section */
void job_check(struct job_reader *r);       /* checks which values go together */
/* Appends the name, or those of the range "C1..C26", to the fields that @layer reads; @err has what
 * is wrong. */
void job_lists_expand(struct layer_spec *layer, const char *text, struct err *err);
void job_lists_find(const struct job_reader *r);   /* finds which sparse fields layers read */
bool job_lists_none(const struct data_spec *data); /* no entry of data.columns is sparse */
void job_groups_check(const struct job_reader *r); /* model.group_by with the rest */
/* model.program: what needs not be said then, before the rows of @section are required; and what
 * cannot be said. */
bool job_program_given(const struct job_reader *r);
void job_program_excuse(struct job_reader *r, enum job_section_id section);
void job_program_check(const struct job_reader *r);
/* model.onnx: the same. */
bool job_onnx_given(const struct job_reader *r);
void job_onnx_check(const struct job_reader *r);
void job_stop_check(const struct job_reader *r); /* training.stop with the rest */
/* training.checkpoints_keep: makes a section of a number alone; refuses the key that told of the
 * best version before, unless it is false, as canonical texts have it. */
#define JOB_KEEP_BEST_OLD "checkpoints_keep_best"
void job_keep_expand(struct yaml_node *root);
void job_keep_check(const struct job_reader *r);
void job_from_read(struct job_reader *r); /* from.map */
void job_from_check(const struct job_reader *r);
void job_from_release(struct from_spec *from); /* frees what job_from_read() made */
void job_lists_release(struct data_spec *data);
char *job_write(const struct job_spec *spec);
struct yaml_node *job_update_node(const struct update_spec *u); /* in the form of job_write() */

/* data.columns as YAML; there are some. */
struct yaml_node *job_columns_node(const struct data_spec *data);
/* model.tables, likewise. */
struct yaml_node *job_tables_node(const struct model_spec *model);
struct yaml_node *job_from_node(const struct from_spec *from); /* all of the section */

/* NULL-terminated names of the tables; owned array of borrowed words. */
const char **job_layer_names(void);
const char **job_rule_names(void);

#endif
