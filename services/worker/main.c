/* SPDX-License-Identifier: Apache-2.0 */
/* gradus-worker: computes gradients for the jobs of a cluster. */
#include <string.h>

#include "os/log.h"
#include "tensor/blas_kernels.h"
#include "worker/job/worker_shell.h"
#include "worker/plugin/plugin_host.h"

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

/* What matrix products are computed with: the speed of a worker, and the last bits of its sums. */
static void log_kernels(void)
{
    const char *missed = blas_kernels_missed();
    if (missed == NULL) {
        log_info("matrix_library", "kernels=%s", blas_kernels_name());
    } else {
        log_warn("matrix_library",
                 "kernels=%s better=%s reason=\"this processor is faster with "
                 "OPENBLAS_CORETYPE=%s in the environment\"",
                 blas_kernels_name(), missed, missed);
    }
}

static int start(struct service_context *sc, struct err *err)
{
    log_kernels();
    return worker_shell_start(sc, err);
}

static const char *peer(const void *settings)
{
    return ((const struct worker_settings *)settings)->master;
}

static const char *poll_us(const void *settings)
{
    return ((const struct worker_settings *)settings)->poll_us;
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], WORKER_PROGRAM_PLUGINS) == 0) {
        return plugin_host_run(argv[2]);
    }
    blas_kernels_choose(argv);
    const struct service service = {
        .name = "worker",
        .summary = "Computes gradients for the jobs of a Gradus cluster",
        .fields = worker_fields,
        .field_count = worker_field_count,
        .config_bytes = sizeof(struct worker_settings),
        .few_connections = true, /* the master and the job's servers */
        .descriptors = gradus_descriptors,
        .descriptors_bytes = (size_t)(gradus_descriptors_end - gradus_descriptors),
        .peer = peer,
        .poll = poll_us,
        .start = start,
        .ready = worker_shell_ready,
        .drain = worker_shell_drain,
        .stop = worker_shell_stop,
    };
    return service_main(argc, argv, &service);
}
