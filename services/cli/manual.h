/* SPDX-License-Identifier: Apache-2.0 */
/* The texts about all commands together: `gradus --help`, gradus(1), and what the manual page of a
 * command says beside its options. */
#ifndef GRADUS_CLI_MANUAL_H
#define GRADUS_CLI_MANUAL_H

#include "base/buf.h"
#include "config/man.h"

/* Of the page gradus-COMMAND(1). */
extern const struct man_about cli_manual_about;
/* `gradus --help`. */
void cli_manual_usage(struct buf *out);
/* gradus(1). */
void cli_manual_page(struct buf *out);

#endif
