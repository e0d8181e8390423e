/* SPDX-License-Identifier: Apache-2.0 */
/* A store for tests that are the same for every kind, and an etcd of a test program's own. */
#ifndef GRADUS_TESTS_UNIT_MASTER_SHELL_STORE_RIG_H
#define GRADUS_TESTS_UNIT_MASTER_SHELL_STORE_RIG_H

#include "support/test.h"

#include "master/store/store.h"
#include "master/store/store_etcd.h"
#include "service/spawn.h"
#include "support/held_port.h"

enum store_kind { STORE_SQLITE, STORE_ETCD };

/* Setup and teardown of a test: another directory, and another prefix. */
int store_rig_make(void **state);
int store_rig_remove(void **state);
const char *store_rig_dir(void);
/* Opens the same store again and again, in turns: the test closes it before. */
struct store *store_rig_open(void);
/* Runs @tests with stores of SQLite, and with those of etcd where it is installed. */
#define store_rig_run(tests)                                                                       \
    (store_rig_use(STORE_SQLITE), cmocka_run_group_tests_name("sqlite", tests, NULL, NULL)) +      \
        (store_rig_use(STORE_ETCD) ? cmocka_run_group_tests_name("etcd", tests, NULL, NULL) : 0)
bool store_rig_use(enum store_kind kind); /* false: it is not installed */

/* One process of etcd, whose address and data stay when it is killed. */
struct rig_etcd {
    struct spawn process;
    struct held_port client, peer;
    char *dir;
};
bool rig_etcd_is_installed(void);
void rig_etcd_make(struct rig_etcd *e); /* and start */
void rig_etcd_start(struct rig_etcd *e);
void rig_etcd_kill(struct rig_etcd *e);
void rig_etcd_remove(struct rig_etcd *e);
/* "etcd://127.0.0.1:40123/@prefix"; returns owned. */
char *rig_etcd_url(const struct rig_etcd *e, const char *prefix);

#endif
