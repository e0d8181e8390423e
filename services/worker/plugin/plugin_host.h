/* SPDX-License-Identifier: Apache-2.0 */
/* The program that a worker with --compute-dir starts: itself, which loads the plug-in of a job
 * (include/gradus/compute.h) and speaks with the worker as any program does. So a plug-in may crash
 * and hang, and the worker knows of no second kind of models (decision 57). */
#ifndef GRADUS_WORKER_PLUGIN_PLUGIN_HOST_H
#define GRADUS_WORKER_PLUGIN_PLUGIN_HOST_H

#include "worker/program/worker_program.h" /* WORKER_PROGRAM_PLUGINS */

/* Compute jobs with the plug-ins of @dir until the worker ends. Returns an exit code. */
int plugin_host_run(const char *dir);

#endif
