/* SPDX-License-Identifier: Apache-2.0 */
#include "tls/tls_exit.h"

#include "tls/tls_openssl.h"

/* A failure here shows where OpenSSL is used. */
void tls_keep_at_exit(void)
{
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}
