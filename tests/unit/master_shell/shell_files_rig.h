/* SPDX-License-Identifier: Apache-2.0 */
/* The master's shell with a store and a directory of checkpoints, and what the core hears of them.
 */
#ifndef GRADUS_TESTS_SHELL_FILES_RIG_H
#define GRADUS_TESTS_SHELL_FILES_RIG_H

#include "support/test.h"
#include "support/tmp_dir.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"
#include "checkpoint/manifest.h"
#include "master/shell/job_wire.h"
#include "master/shell/shell.h"
#include "os/chrono.h"
#include "os/file.h"

#define OWNER "0123456789abcdef0123456789abcdef"
#define SHARDS 2

struct heard_state {
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    size_t count;
    enum master_event_kind kind;
    uint64_t number;
    int code;
    char message[ERR_MESSAGE_BYTES], text[256], skipped[256];
    struct master_found found;
    struct ledger ledger;
    double sum;
    uint64_t incarnation;
    struct job_record restored; /* the last one */
    bool has_spec;
};

#define TEST(f) cmocka_unit_test_setup_teardown(f, files_set_up, files_tear_down)

extern struct shell files_shell;
extern char *files_root;
extern struct job_record files_record;
extern struct plan files_plan;
extern struct ledger files_ledger;
extern struct job_spec files_spec;
extern struct heard_state heard;
extern char health[1200];
void files_wait_events(size_t count);
int files_set_up(void **state);
int files_tear_down(void **state);
void files_prepare(uint64_t number, const char *directory, bool discard);

#endif
