/* SPDX-License-Identifier: Apache-2.0 */
/* The user and password that this master shows to etcd, and the token that it got for them. Any
 * thread. Neither is ever logged, nor part of an error. */
#ifndef GRADUS_MASTER_STORE_ETCD_LOGIN_H
#define GRADUS_MASTER_STORE_ETCD_LOGIN_H

#include "base/err.h"

#define ETCD_CREDENTIALS_BYTES_MAX 4096

struct etcd_login;
struct etcd_user { /* owned: etcd_user_release() */
    char *name, *password;
};

/* The credentials in @file: one line USER:PASSWORD. Copies the name; the file is read with each
 * login, so new credentials need no restart. Returns owned. */
struct etcd_login *etcd_login_new(const char *file);
void etcd_login_free(struct etcd_login *l); /* NULL is fine */
/* Errors: those of reading; ERR_INVALID there is no such line. */
int etcd_login_read(const char *file, struct etcd_user *out, struct err *err);
void etcd_user_release(struct etcd_user *u); /* and wipes it */

const char *etcd_login_file(const struct etcd_login *l);
/* The token that etcd gave last; NULL: none. Returns owned. */
char *etcd_login_token(struct etcd_login *l);
void etcd_login_take(struct etcd_login *l, const char *token); /* copies; "": etcd wants none */

#endif
