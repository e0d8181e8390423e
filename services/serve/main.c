/* SPDX-License-Identifier: Apache-2.0 */
/* gradus-serve: answers requests with a trained model. */
#include "serve/rpc/serve_service.h"
#include "tensor/blas_kernels.h"

extern const unsigned char gradus_descriptors[];
extern const unsigned char gradus_descriptors_end[];

int main(int argc, char **argv)
{
    blas_kernels_choose(argv);
    const struct service service = {
        .name = "serve",
        .summary =
            "Answers requests with the model of a checkpoint, by the open inference protocol",
        .fields = serve_fields,
        .field_count = serve_field_count,
        .config_bytes = sizeof(struct serve_settings),
        .descriptors = gradus_descriptors,
        .descriptors_bytes = (size_t)(gradus_descriptors_end - gradus_descriptors),
        .check = serve_service_check,
        .start = serve_service_start,
        .ready = serve_service_ready,
        .drain = serve_service_drain,
        .stop = serve_service_stop,
    };
    return service_main(argc, argv, &service);
}
