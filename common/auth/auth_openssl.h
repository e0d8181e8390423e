/* SPDX-License-Identifier: Apache-2.0 */
/* The only header of this room that includes OpenSSL's. */
#ifndef GRADUS_AUTH_AUTH_OPENSSL_H
#define GRADUS_AUTH_AUTH_OPENSSL_H

#define ERR_STATE openssl_err_state /* a type of theirs and a code of ours have one name */
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/param_build.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#undef ERR_STATE

#endif
