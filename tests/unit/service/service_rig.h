/* SPDX-License-Identifier: Apache-2.0 */
/* service_main() in a process of its own, and the test that starts it. Each program that uses it is
 * also the service: its main() begins with that. */
#ifndef GRADUS_TESTS_SERVICE_RIG_H
#define GRADUS_TESTS_SERVICE_RIG_H

#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "grpc/health/v1/health.pb-c.h"
#include "os/log.h"
#include "os/signals.h"
#include "service/address.h"
#include "service/http.h"
#include "service/pulse.h"
#include "service/service.h"
#include "service/spawn.h"

#define AS_SERVICE "as-service"
#define AS_STARTER "as-starter"

struct toy_config {
    char *flavour;
    int64_t size;
    bool hang;
    bool sick;
    bool absent;
    bool stuck;
};

#define FLAGS_MAX 12
#define WAIT_MS 60000

struct fixture {
    struct spawn child;
    char *dir, *log_path, *config_path;
    char line[SPAWN_LINE_BYTES_MAX];
    char text[16384];
};

#define START(f, ...) child_start(f, AS_SERVICE, (const char *const[]){__VA_ARGS__, NULL})

int toy_ready(struct service_context *sc, struct err *err);
void toy_drain(struct service_context *sc, int64_t grace_ms);
void toy_stop(struct service_context *sc);
extern const struct service TOY;
int child_set_up(void **state);
int child_tear_down(void **state);
/* Start this program as @role with @flags (NULL-terminated). */
void child_start(struct fixture *f, const char *role, const char *const *flags);
void child_wait_ready(struct fixture *f);
const char *child_log_text(struct fixture *f);
const char *child_stdout_text(struct fixture *f);
void child_assert_exit(struct fixture *f, const char *expected);
void child_assert_part(const char *text, const char *part);
void child_start_foreign_thread(void);
/* A process that starts the service, passes its ready line on, and waits for its own end. */
int child_be_starter(void);

#endif
