/* SPDX-License-Identifier: Apache-2.0 */
/* Models of your own for Gradus as plug-ins: the C interface of compute plug-ins, version 1.
 *
 * A plug-in is what a worker program (gradus/worker.h) is without its main(): a C file that
 * includes only this header and defines one object named `gradus_compute`,
 *
 *     const struct gradus_compute gradus_compute = {.abi = GRADUS_COMPUTE_ABI, .open = …};
 *
 * built as a shared object (cc -std=c11 -O2 -fPIC -shared -o mine.so mine.c), in a directory that
 * workers are started with: gradus-worker --compute-dir DIR. A job with `model: {program: mine}` is
 * computed by DIR/mine.so. docs/worker-programs.md tells more; examples/compute-plugin is one.
 *
 * A process of its own beside the worker loads it: a plug-in that crashes or hangs takes nothing
 * along. One thread calls its functions, one at a time. All that gradus/worker.h says of models,
 * gradients and bits holds; its functions are not to be called. What is said here stays as it is as
 * long as GRADUS_COMPUTE_ABI is 1. */
#ifndef GRADUS_COMPUTE_H
#define GRADUS_COMPUTE_H

#include <gradus/worker.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GRADUS_COMPUTE_ABI 1

/* Functions return 0, or anything else when it cannot be done; then they may have written why, a
 * text, into @why[GRADUS_MESSAGE_BYTES_MAX], which is "" before. */
struct gradus_compute {
    uint32_t abi; /* GRADUS_COMPUTE_ABI */
    /* Makes the model of a job. @model: what the other functions get; NULL before. @description is
     * zeroed but for its size; what it points to stays until close(). On failure there is no model,
     * and close() is not called. */
    int (*open)(const struct gradus_job *job, void **model, struct gradus_description *description,
                char *why);
    /* A GRADUS_WORK_GRADIENT or _EVALUATION. @result is zeroed but for its size and its examples,
     * which are the work's records. */
    int (*compute)(void *model, const struct gradus_work *work, struct gradus_result *result,
                   char *why);
    /* A GRADUS_WORK_KEYS: of each table of the description; @keys are zeroed, and what they point
     * to stays until the next call. NULL: the model has no tables. */
    int (*keys)(void *model, const struct gradus_work *work, struct gradus_keys *keys, char *why);
    void (*close)(void *model); /* the job is over. NULL: nothing is to be done */
};

/* What a plug-in defines. */
#if defined(__GNUC__)
__attribute__((visibility("default")))
#endif
extern const struct gradus_compute gradus_compute;

#ifdef __cplusplus
}
#endif

#endif
