/* SPDX-License-Identifier: Apache-2.0 */
/* What an exported file says of itself, as pairs of key and text. */
#ifndef GRADUS_SAVED_SAVED_NOTES_H
#define GRADUS_SAVED_SAVED_NOTES_H

#include "checkpoint/checkpoint.h"
#include "data/encoder.h"
#include "saved/saved_job.h"

/* Of the metadata of exported safetensors files: since 2 they have gradus.version and
 * gradus.values. */
#define SAVED_NOTES_VERSION 2

struct saved_notes {
    char *(*items)[2]; /* owned, and so are their texts */
    size_t count, capacity;
};

void saved_note(struct saved_notes *n, const char *key, char *text); /* takes @text */
void saved_note_list(struct saved_notes *n, const char *key, const char *const *texts,
                     size_t count);
/* Job, step, epoch, version. */
void saved_note_version(struct saved_notes *n, const struct saved_about *about);
/* Inputs, outputs, classes. */
void saved_note_data(struct saved_notes *n, const struct encoder *e);
/* Notes all that turns records into answers with a checkpoint's variables, or their moving
 * @average: the job file, what was measured, inputs, outputs, classes, and the metrics so far.
 * Without an encoding there are no inputs. Errors, after which the notes say less: those of the job
 * file, a rule that is not here, say; those of encoder_recall(). */
int saved_note_all(struct saved_notes *n, const struct checkpoint *c, const char *path,
                   bool average, struct err *err);
void saved_notes_release(struct saved_notes *n);

#endif
