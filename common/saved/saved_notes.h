/* SPDX-License-Identifier: Apache-2.0 */
/* What an exported file says of itself, as pairs of key and text. */
#ifndef GRADUS_SAVED_SAVED_NOTES_H
#define GRADUS_SAVED_SAVED_NOTES_H

#include "checkpoint/checkpoint.h"

struct saved_notes {
    char *(*items)[2]; /* owned, and so are their texts */
    size_t count, capacity;
};

void saved_note(struct saved_notes *n, const char *key, char *text); /* takes @text */
void saved_note_list(struct saved_notes *n, const char *key, const char *const *texts,
                     size_t count);
/* Job, step, epoch. */
void saved_note_version(struct saved_notes *n, const struct manifest *m);
/* All that makes records of a checkpoint's variables answers: also its job file, what was measured,
 * inputs, outputs, classes, and the metrics so far. Without
 * an encoding there are no inputs. Errors, after which the notes say less: those of the job file,
 * of a rule that is not here say; those of encoder_recall(). */
int saved_note_all(struct saved_notes *n, const struct checkpoint *c, const char *path,
                   struct err *err);
void saved_notes_release(struct saved_notes *n);

#endif
