/* SPDX-License-Identifier: Apache-2.0 */
/* A job file, parsed and checked. The text itself travels between nodes: every node parses the same
 * canonical text with the same tables, so nobody can disagree about what a job means. */
#ifndef GRADUS_JOB_SPEC_JOB_SPEC_H
#define GRADUS_JOB_SPEC_JOB_SPEC_H

#include <stdbool.h>

#include "config/diag.h"
#include "config/field.h"
#include "data/dataset.h"
#include "graph/model.h"
#include "job/spec/from_spec.h"
#include "rule/update/update_spec.h"

enum training_mode { TRAINING_SYNC, TRAINING_ASYNC, TRAINING_BOUNDED };

/* What becomes of a gradient of parameters that have changed meanwhile (async, bounded). */
enum staleness_policy {
    POLICY_NONE,
    POLICY_MAX_STALENESS,      /* above it: dropped on all shards, and the batch computed again */
    POLICY_SCALE_LR,           /* learning rate / max(1, staleness) */
    POLICY_DELAY_COMPENSATION, /* Zheng et al., "Asynchronous stochastic gradient descent with delay
                                  compensation", ICML 2017: g + λ·g²·(w now − w then) */
};

struct training_spec {
    int mode;           /* enum training_mode */
    int64_t batch_size; /* records per replica and step */
    bool drop_last;     /* an epoch ends before a batch that would be smaller */
    int64_t replicas;   /* sync: mini-batches per global step; 0: as many as workers (the most) */
    int64_t replicas_to_aggregate; /* sync: a step is complete with so many; 0: all */
    bool speculate;                /* sync: give replicas of late workers to idle ones too */
    double speculate_after;        /* late: so many times the usual time */
    int64_t epochs;                /* 0: bounded by steps alone */
    int64_t steps;                 /* 0: bounded by epochs alone */
    int64_t seed;
    int64_t staleness;     /* bounded: how many batches a worker may be ahead */
    int staleness_policy;  /* enum staleness_policy */
    int64_t max_staleness; /* POLICY_MAX_STALENESS */
    double delay_lambda;   /* POLICY_DELAY_COMPENSATION */
    int64_t push_every;    /* async, bounded: batches whose gradients are summed into one push */
    int64_t pull_every;    /* async, bounded: pushes from one pull to the next */
    bool overlap;          /* async, bounded: compute while the batch before is exchanged */
    int wire_gradients;    /* enum value_type */
    int wire_parameters;   /* likewise */
    int64_t split_batches; /* batches per split (lease unit); 0: chosen from the data size */
    struct field_interval evaluate_every;   /* default "1 epoch" */
    struct field_interval checkpoint_every; /* default never; the end always has one */
    int64_t checkpoint_within_ms; /* an older checkpoint is followed by another; 0: no limit */
    /* of so many checkpoints one has all rows of tables; the others those that changed */
    int64_t checkpoint_full_every;
    int64_t keep_last;     /* newest checkpoints; older ones are removed; 0: all */
    int keep_best;         /* whose best version is kept beside them; as stop_metric */
    int stop_metric;       /* enum metric_kind, plus 1; 0: none */
    int64_t stop_patience; /* evaluations; 0: the best one is only noted */
    double stop_min_delta;
    bool stop_restore_best;      /* the best version is the job's result; keeps it */
    char *tensorboard;           /* directory of event files, on the master's host; "": none */
    bool tensorboard_histograms; /* of parameters, too */
};

enum partitioner {
    PARTITIONER_FIXED,
    PARTITIONER_MIN_SLICE,
    PARTITIONER_MAX_SLICE,
    PARTITIONER_BALANCED
};

enum standby { STANDBY_NONE, STANDBY_FOLLOWER };

struct cluster_spec {
    struct field_range workers; /* the job runs with at least min and takes up to max */
    int64_t ps;
    int standby;          /* enum standby */
    int partitioner;      /* enum partitioner, default balanced */
    int64_t partitions;   /* fixed: parts per variable (≤ rows); default 1; the most parts for the
                             others, 0: no bound */
    int64_t slice_bytes;  /* min_slice_bytes, max_slice_bytes: the bytes; balanced: what is no
                             longer is not cut */
    int64_t blas_threads; /* per worker process */
    bool whole_variables; /* no key: the update's sums need each variable on one server, so balanced
                             cuts none */
};

#define JOB_PRIORITY_MAX 1000

struct job_spec {
    char *name;
    int64_t priority; /* jobs of a higher priority come first in the queue */
    struct data_spec data;
    struct model_spec model;
    struct update_spec update;
    struct training_spec training;
    struct cluster_spec cluster;
    struct from_spec from; /* source of first values; empty: they are made */
    char *text;            /* canonical YAML with every --set applied; parses to the same spec */
};

/* Parses @text (named @file in messages). @sets holds "key=value" overrides: any key of the file,
 * with model.layers.<number or name>.<parameter> for layers; the last one counts. Every error that
 * can be found without the data is added to @diags: first the errors in the file, in the order of
 * lines, then those in an override, under the name "--set key=value" without a line. Returns 0 and
 * fills @spec (zeroed by the caller), or ERR_INVALID with at least one diag and @spec unchanged. */
int job_spec_parse(const char *text, size_t n, const char *file, const char *const *sets,
                   size_t set_count, struct job_spec *spec, struct diags *diags);
void job_spec_release(struct job_spec *spec);
/* Are the lists of sparse fields such as the model's layers take? @test may be NULL. Errors:
 * ERR_INVALID a key without a row, or a list that is too long: which record, field and key. */
int job_spec_check_lists(const struct model *model, const struct dataset *train,
                         const struct dataset *test, struct err *err);
/* Are the records such as the model takes? An imported graph may want whole numbers. @test may be
 * NULL. Errors: ERR_INVALID a number that is none: which record and feature; those of reading. */
int job_spec_check_input(const struct job_spec *spec, const struct dataset *train,
                         const struct dataset *test, struct err *err);
/* Checks that grouped_auc can be measured on @data, if the model wants it. NULL: there is nothing
 * to measure. Errors: ERR_INVALID a record that is not of one group, or too many records. */
int job_spec_check_groups(const struct model *model, const struct dataset *data, const char *part,
                          struct err *err);
enum data_label_kind job_spec_label_kind(const struct job_spec *spec);
bool job_spec_is_program(const struct job_spec *spec); /* no layers of ours: model.program */
/* workers know the variables: model.program or model.onnx */
bool job_spec_is_given(const struct job_spec *spec);
bool job_spec_has_from(const struct job_spec *spec); /* it names a source of first values */
/* True if its records are encoded as those of its source, as far as that says how. */
bool job_spec_takes_encoding(const struct job_spec *spec);
/* Of model.onnx: reads the file, from where the data are, and files beside it that it names, all
 * below @roots (NULL: any), into spec->model.net; once, and nothing for other models. Errors: those
 * of the files, "model.onnx net.onnx: …". */
int job_spec_import(struct job_spec *spec, const struct data_roots *roots, struct err *err);
/* otherwise its program brings the records */
bool job_spec_has_data(const struct job_spec *spec);
uint64_t job_spec_replicas(const struct job_spec *spec); /* resolved, ≥ 1 */
/* Of @records train records, how many an epoch has: all, or with training.drop_last those of whole
 * batches, which may be none. */
uint64_t job_spec_epoch_records(const struct job_spec *spec, uint64_t records);
/* Says whether `set` may change @key ("training.mode") of a job that exists: NULL yes; else why
 * not, as in "fixed when the job was submitted". */
const char *job_spec_fixed(const char *key);

/* The reference of all keys from the same rows: plain text, Markdown, JSON Schema (draft 2020-12).
 */
void job_spec_reference_text(struct buf *out);
void job_spec_reference_markdown(struct buf *out);
void job_spec_reference_manual(struct buf *out); /* gradus-job(5) */
void job_spec_schema_json(struct buf *out);

#endif
