/* SPDX-License-Identifier: Apache-2.0 */
/* The rows of the job file that belong to no other room. */
#include "job/spec/job_internal.h"

#include "base/mem.h"
#include "tensor/half.h"

static const char *const modes[] = {"sync", "async", "bounded", NULL};
static const char *const policies[] = {"none", "max_staleness", "scale_lr", "delay_compensation",
                                       NULL};
/* "none", then by enum metric_kind. */
static const char *const stop_metrics[METRIC_ORDERED_END + 2] = {"none",
                                                                 "loss",
                                                                 "accuracy",
                                                                 "auc",
                                                                 "rmse",
                                                                 "mae",
                                                                 "normalised_entropy",
                                                                 "grouped_auc",
                                                                 "precision",
                                                                 "recall",
                                                                 "f1",
                                                                 "top_k_accuracy",
                                                                 "log_loss",
                                                                 "ece",
                                                                 "r2",
                                                                 NULL};

#define REPLICAS_MAX 1024 /* the reduction tree has a block for each */
#define BATCH_MAX 1048576
#define EVERY_MAX 1000000
#define SEED_MAX 9007199254740992.0 /* 2^53: exact in the double that bounds are kept in */

#define ROOT_AT(member) offsetof(struct job_spec, member)
static const struct field root_fields[] = {
    {.path = "name",
     .type = FIELD_STRING,
     .offset = ROOT_AT(name),
     .help = "Name of the job: letters, digits, '.', '_' and '-', starting with a letter or digit, "
             "at most 63"},
    {.path = "priority",
     .type = FIELD_INT,
     .offset = ROOT_AT(priority),
     .def = "0",
     .min = -JOB_PRIORITY_MAX,
     .max = JOB_PRIORITY_MAX,
     .help = "Among jobs that wait for nodes those of a higher priority come first, then those "
             "that were submitted first"},
};

#define MODEL_AT(member) offsetof(struct model_spec, member)
_Static_assert(sizeof(enum loss_kind) == sizeof(int), "loss is a FIELD_ENUM");
static const struct field model_fields[] = {
    {.path = "input",
     .type = FIELD_INTS,
     .offset = MODEL_AT(input),
     .def = "[]",
     .min = 1,
     .max = 1048576,
     .help = "Shape of one record, such as [28, 28, 1]; [] takes the shape of the data"},
    {.path = "program",
     .type = FIELD_STRING,
     .offset = MODEL_AT(program),
     .def = "",
     .help = "In place of layers and loss: the name under which the workers' own programs know the "
             "model (gradus-worker --program; docs/worker-programs.md)"},
    {.path = "onnx",
     .type = FIELD_STRING,
     .offset = MODEL_AT(onnx),
     .def = "",
     .help = "In place of layers: the ONNX file whose graph is trained, below data.dir, or "
             "s3://BUCKET/KEY (docs/onnx.md)"},
    {.path = "output",
     .type = FIELD_STRING,
     .offset = MODEL_AT(output),
     .def = "",
     .help = "With onnx: the value of the graph that the loss takes; empty: its only output"},
    {.path = "trainable",
     .type = FIELD_TEXTS,
     .offset = MODEL_AT(trainable),
     .def = "",
     .help = "With onnx: patterns (* ? [ab]) of the initializers that are trained, the others stay "
             "as they are; empty: all floats that have a dimension"},
    {.path = "loss",
     .type = FIELD_ENUM,
     .offset = MODEL_AT(loss),
     .choices = loss_kind_names,
     .help = "What training makes small; the cross entropies take the last layer's raw values "
             "(logits) and need no softmax or sigmoid layer before them. auto is by the labels: "
             "sigmoid_cross_entropy with one output for two classes, softmax_cross_entropy for "
             "more, mean_squared_error with data.label_kind: real"},
    {.path = "class_weights",
     .type = FIELD_TEXTS,
     .offset = MODEL_AT(class_weights),
     .def = "",
     .help = "What the gradient of a record is multiplied by, by its class: a number for each "
             "class, in their order, or balanced, by which the train records of each class count "
             "as much as those of any other; empty: 1. Metrics, the loss among them, count each "
             "record once"},
    {.path = "top_k",
     .type = FIELD_INT,
     .offset = MODEL_AT(top_k),
     .def = "5",
     .min = 1,
     .max = 100000,
     .help = "For top_k_accuracy: a record counts when its class is among so many that the model "
             "says first"},
    {.path = "group_by",
     .type = FIELD_STRING,
     .offset = MODEL_AT(group_by),
     .def = "",
     .help = "For grouped_auc: the sparse field whose key says which group a record is of, such as "
             "its user. Layers need not read it"},
};

#define TRAINING_AT(member) offsetof(struct training_spec, member)
static const struct field training_fields[] = {
    {.path = "tensorboard",
     .type = FIELD_STRING,
     .offset = TRAINING_AT(tensorboard),
     .def = "",
     .help = "Directory on the master's host, below its tensorboard_root, in which it writes every "
             "evaluation while the job runs, as event files of TensorBoard: JOB/train and "
             "JOB/test, and in JOB the hyperparameters; relative: from the job file's directory; "
             "empty: none. What cannot be written ends no job; `gradus status` says why"},
    {.path = "tensorboard_histograms",
     .type = FIELD_BOOL,
     .offset = TRAINING_AT(tensorboard_histograms),
     .def = "false",
     .help = "With tensorboard: also a histogram of each variable in JOB/parameters, of the newest "
             "checkpoint whenever the files are written, which the master reads for it, and in "
             "JOB/gradients one of the gradient of the update that made it, the mean over its "
             "records before clips; for that each server keeps two copies of a gradient. "
             "Tables have none"},
    {.path = "mode",
     .type = FIELD_ENUM,
     .offset = TRAINING_AT(mode),
     .def = "sync",
     .choices = modes,
     .help = "How workers keep together: sync (one update per global step, reproducible to the "
             "bit), async (each batch updates on its own), bounded (async, but nobody gets more "
             "than staleness batches ahead)"},
    {.path = "batch_size",
     .type = FIELD_INT,
     .offset = TRAINING_AT(batch_size),
     .def = "64",
     .min = 1,
     .max = BATCH_MAX,
     .help = "Records of one mini-batch; a sync step uses batch_size × replicas"},
    {.path = "drop_last",
     .type = FIELD_BOOL,
     .offset = TRAINING_AT(drop_last),
     .def = "false",
     .help =
         "In all modes, leave out an epoch's last mini-batch when it is smaller than batch_size "
         "(for batch_norm); its last sync step may still have fewer of them than replicas"},
    {.path = "replicas",
     .type = FIELD_INT,
     .offset = TRAINING_AT(replicas),
     .def = "0",
     .max = REPLICAS_MAX,
     .help = "Sync: mini-batches per global step, shared out over the workers; 0 is the most that "
             "cluster.workers allows"},
    {.path = "replicas_to_aggregate",
     .type = FIELD_INT,
     .offset = TRAINING_AT(replicas_to_aggregate),
     .def = "0",
     .max = REPLICAS_MAX,
     .help = "Sync: a step is complete with so many replicas, and what comes later is dropped and "
             "counted; 0 waits for all, which alone gives the same bits on every run"},
    {.path = "speculate",
     .type = FIELD_BOOL,
     .offset = TRAINING_AT(speculate),
     .def = "false",
     .help = "Sync: give the mini-batches of a late worker to idle ones too; the first result "
             "counts, and the bits stay the same"},
    {.path = "speculate_after",
     .type = FIELD_FLOAT,
     .offset = TRAINING_AT(speculate_after),
     .def = "3",
     .min = 1,
     .max = 1000000,
     .help = "Speculate: how many times the usual time makes a replica late"},
    {.path = "epochs",
     .type = FIELD_INT,
     .offset = TRAINING_AT(epochs),
     .def = "0",
     .max = 1000000,
     .help = "Passes over the train records; 0 leaves it to steps; 1 when neither is given"},
    {.path = "steps",
     .type = FIELD_INT,
     .offset = TRAINING_AT(steps),
     .def = "0",
     .max = 1e12,
     .help = "Updates after which the job ends; 0 leaves it to epochs; of both, what is first"},
    {.path = "seed",
     .type = FIELD_INT,
     .offset = TRAINING_AT(seed),
     .def = "1",
     .max = SEED_MAX,
     .help = "Decides initial values, order of the records and dropout; same seed, same run"},
    {.path = "staleness",
     .type = FIELD_INT,
     .offset = TRAINING_AT(staleness),
     .def = "4",
     .max = 1000000,
     .help = "Bounded: how many batches a worker may be ahead of the slowest"},
    {.path = "staleness_policy",
     .type = FIELD_ENUM,
     .offset = TRAINING_AT(staleness_policy),
     .def = "none",
     .choices = policies,
     .help = "Async, bounded: what becomes of a gradient whose parameters have changed meanwhile: "
             "none (applied like any other), max_staleness (dropped when they changed more than "
             "max_staleness times, and its batches computed again), scale_lr (learning rate "
             "divided by the number of changes), delay_compensation (corrected to first order by "
             "how far they moved, DC-ASGD)"},
    {.path = "max_staleness",
     .type = FIELD_INT,
     .offset = TRAINING_AT(max_staleness),
     .def = "16",
     .max = 1e9,
     .help = "Policy max_staleness: a gradient is dropped when the parameters have changed more "
             "often since they were read"},
    {.path = "delay_lambda",
     .type = FIELD_FLOAT,
     .offset = TRAINING_AT(delay_lambda),
     .def = "0.04",
     .max = 1000000,
     .help = "Policy delay_compensation: how strongly a gradient is corrected; 0 is not at all"},
    {.path = "push_every",
     .type = FIELD_INT,
     .offset = TRAINING_AT(push_every),
     .def = "1",
     .min = 1,
     .max = EVERY_MAX,
     .help = "Async, bounded: batches whose gradients a worker adds up and pushes as one update"},
    {.path = "pull_every",
     .type = FIELD_INT,
     .offset = TRAINING_AT(pull_every),
     .def = "1",
     .min = 1,
     .max = EVERY_MAX,
     .help = "Async, bounded: pushes after which a worker reads the parameters again"},
    {.path = "overlap",
     .type = FIELD_BOOL,
     .offset = TRAINING_AT(overlap),
     .def = "false",
     .help = "Async, bounded: compute a batch while the one before is exchanged; hides the network "
             "for one batch more of staleness"},
    {.path = "wire.gradients",
     .type = FIELD_ENUM,
     .offset = TRAINING_AT(wire_gradients),
     .def = "fp32",
     .choices = value_type_names,
     .help = "How gradients travel, those of rows of tables, too: fp32, or rounded to the nearest "
             "fp16 or bf16, half the bytes. Each mini-batch is rounded once and sums are fp32, so "
             "sync gives the same bits for "
             "any number of workers. What is too large for fp16 becomes infinite: see "
             "update.non_finite"},
    {.path = "wire.parameters",
     .type = FIELD_ENUM,
     .offset = TRAINING_AT(wire_parameters),
     .def = "fp32",
     .choices = value_type_names,
     .help = "How parameters and rows of tables travel to training: fp32, or rounded like "
             "gradients; servers, "
             "evaluations and checkpoints keep fp32"},
    {.path = "split_batches",
     .type = FIELD_INT,
     .offset = TRAINING_AT(split_batches),
     .def = "0",
     .max = BATCH_MAX,
     .help = "Batches of one split, the unit in which data is leased to workers; 0 is chosen from "
             "the data size"},
    {.path = "evaluate_every",
     .type = FIELD_INTERVAL,
     .offset = TRAINING_AT(evaluate_every),
     .def = "1 epoch",
     .min = 1,
     .max = 1e12,
     .help = "How often the test records are evaluated; the end always does"},
    {.path = "checkpoint_every",
     .type = FIELD_INTERVAL,
     .offset = TRAINING_AT(checkpoint_every),
     .def = "never",
     .min = 1,
     .max = 1e12,
     .help = "How often a checkpoint is written; the end always does"},
    {.path = "checkpoint_within",
     .type = FIELD_MS,
     .offset = TRAINING_AT(checkpoint_within_ms),
     .def = "5m",
     .max = 86400000,
     .help = "A job that trains also writes a checkpoint when the last one is so old, and at the "
             "end of an epoch when it is a fifth of that; 0: by checkpoint_every alone"},
    {.path = "checkpoint_full_every",
     .type = FIELD_INT,
     .offset = TRAINING_AT(checkpoint_full_every),
     .def = "1",
     .min = 1,
     .max = 1000000,
     .help = "Of so many checkpoints one has all rows of tables, the others those that changed "
             "since; 1: all are full. Without tables there is no difference"},
    {.path = "checkpoints_keep.last",
     .type = FIELD_INT,
     .offset = TRAINING_AT(keep_last),
     .def = "3",
     .max = 1000000,
     .help = "Newest checkpoints to keep; older ones are removed, but for those that newer ones "
             "need; 0 keeps all. checkpoints_keep: 3 is the same as checkpoints_keep: {last: 3}"},
    {.path = "checkpoints_keep.best",
     .type = FIELD_ENUM,
     .offset = TRAINING_AT(keep_best),
     .def = "none",
     .choices = stop_metrics,
     .help = "Write a checkpoint of each version whose evaluation of the test records is the best "
             "so far by this metric, which is loss or one of model.metrics, and keep that of the "
             "best beside the newest; with stop.metric it is the same metric"},
    {.path = "stop.metric",
     .type = FIELD_ENUM,
     .offset = TRAINING_AT(stop_metric),
     .def = "none",
     .choices = stop_metrics,
     .help =
         "Training ends early when evaluations of the test records show no better value of this "
         "metric, which is loss or one of model.metrics: a lower loss, log_loss, rmse, mae, "
         "normalised_entropy or ece, a higher one of the others"},
    {.path = "stop.patience",
     .type = FIELD_INT,
     .offset = TRAINING_AT(stop_patience),
     .def = "3",
     .max = 1000000,
     .help = "So many evaluations in a row, none of them better than the best before, end it; 0: "
             "none do, and the best is only noted"},
    {.path = "stop.min_delta",
     .type = FIELD_FLOAT,
     .offset = TRAINING_AT(stop_min_delta),
     .def = "0",
     .max = 1e12,
     .help = "What is better is so by more than this"},
    {.path = "stop.restore_best",
     .type = FIELD_BOOL,
     .offset = TRAINING_AT(stop_restore_best),
     .def = "false",
     .help = "The result of the job is its best version and not its last, when it ends early or "
             "at its last step: what export, evaluate and predict take. Keeps its checkpoint"},
};

#define COUNT(rows) static const size_t rows##_count = sizeof(rows) / sizeof(rows)[0]
COUNT(root_fields);
COUNT(model_fields);
COUNT(training_fields);

static const struct job_extra data_extras[] = {
    {.name = "columns",
     .allowed = "list of sections with the keys of a column",
     .def = "none",
     .help = "Which columns of a CSV file, or fields of other formats, mean what, in place of "
             "label, categorical and ignore; those that no entry names are left out"},
    {.name = NULL},
};
static const struct job_extra model_extras[] = {
    {.name = "tables",
     .allowed = "list of sections with the keys of a table",
     .def = "none",
     .help = "Sparse tables, whose rows lie on the servers under 64-bit keys; each is read by a "
             "layer, or by the program"},
    {.name = "layers",
     .allowed = "list of 1 to 256 layers",
     .help = "The layers from the input to the output: a name (relu) or a name with parameters "
             "(dense: {units: 10}). Each reads the one above, unless `from` says otherwise"},
    {.name = "metrics",
     .allowed = "list of loss, accuracy, auc, rmse, mae, normalised_entropy, grouped_auc, "
                "precision, recall, f1, top_k_accuracy, log_loss, ece, r2, calibration, "
                "confusion_matrix",
     .def = "by loss",
     .help = "What evaluation reports besides the loss; by default accuracy for "
             "softmax_cross_entropy and auto, accuracy and auc for sigmoid_cross_entropy, rmse for "
             "mean_squared_error (docs/models.md). grouped_auc and confusion_matrix are of test "
             "records alone. Programs tell loss, accuracy, rmse and mae"},
    {.name = NULL},
};
static const struct job_extra from_extras[] = {
    {.name = "map",
     .allowed = "list of sections with the keys from and to",
     .def = "none",
     .help = "Names of the source that are others here; the first pattern that matches counts"},
    {.name = NULL},
};
static const struct job_extra update_extras[] = {
    {.name = "rule",
     .allowed = "name of an update rule",
     .help = "The update rule; its hyperparameters stand beside it"},
    {.name = "schedule",
     .allowed = "section with the keys of a schedule",
     .def = "none",
     .help = "How the learning rate changes from update to update"},
    {.name = "schedules",
     .allowed = "section of hyperparameters with the keys of a schedule each",
     .def = "none",
     .help = "The same for any hyperparameter that is a number: schedules: {beta1: {kind: "
             "cosine}}"},
    {.name = "variables",
     .allowed = "list of sections with the keys of a pattern",
     .def = "none",
     .help = "What single variables get; the first pattern that matches a variable's name counts"},
    {.name = NULL},
};

const struct job_section job_sections[JOB_SECTION_COUNT] = {
    [JOB_SECTION_ROOT] = {"", "The job", true, root_fields, &root_fields_count, 0, NULL},
    [JOB_SECTION_DATA] = {"data", "Where the records are and how they become numbers", true,
                          data_fields, &data_field_count, ROOT_AT(data), data_extras},
    [JOB_SECTION_MODEL] = {"model", "The network, what it minimises and what is measured", true,
                           model_fields, &model_fields_count, ROOT_AT(model), model_extras},
    [JOB_SECTION_UPDATE] = {"update", "The rule that turns gradients into new values", true, NULL,
                            NULL, ROOT_AT(update), update_extras},
    [JOB_SECTION_TRAINING] = {"training", "How long, in what steps and how tightly coupled", false,
                              training_fields, &training_fields_count, ROOT_AT(training), NULL},
    [JOB_SECTION_CLUSTER] = {"cluster", "How many processes share the work", false,
                             job_cluster_fields, &job_cluster_field_count, ROOT_AT(cluster), NULL},
    [JOB_SECTION_FROM] = {"from", "Whose values the variables begin with, instead of initial ones",
                          false, job_from_fields, &job_from_field_count, ROOT_AT(from),
                          from_extras},
};

const char **job_layer_names(void)
{
    size_t count = 0;
    while (layer_kind_at(count) != NULL) {
        count++;
    }
    const char **names = mem_new(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++) {
        names[i] = layer_kind_name(layer_kind_at(i));
    }
    return names;
}

const char **job_rule_names(void)
{
    size_t count = 0;
    while (rule_at(count) != NULL) {
        count++;
    }
    const char **names = mem_new(count + 1, sizeof *names);
    for (size_t i = 0; i < count; i++) {
        names[i] = rule_at(i)->name;
    }
    return names;
}
