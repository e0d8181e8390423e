/* SPDX-License-Identifier: Apache-2.0 */
/* What a SetMembership says, of a master, or of a primary to its backup. */
#include "base/mem.h"
#include "ps/rpc/ps_standby.h"
#include "wire/wire.h"

int ps_read_change(struct ps_request *r, const Gradus__V1__SetMembershipRequest *m, struct err *err)
{
    int rc = 0;
    r->event.workers = (const char *const *)m->workers;
    r->event.worker_count = m->n_workers;
    r->event.forget_pins = m->forget_pins != 0;
    r->event.keep_pin = m->keep_pin;
    r->event.version = m->version;
    r->event.promote = m->promote != 0;
    if (m->backup != NULL) {
        r->event.has_backup = true;
        r->event.backup = m->backup->opening;
    }
    r->change = mem_new(1, sizeof *r->change);
    if (m->consistency != NULL) {
        rc = wire_consistency_from_proto(m->consistency, &r->change->consistency, err);
        r->event.consistency = &r->change->consistency;
    }
    if (m->ledger != NULL && rc == 0) {
        rc = wire_ledger_from_proto(m->ledger, &r->change->ledger, err);
        r->event.ledger = &r->change->ledger;
    }
    if (m->n_eras > 0 && rc == 0) {
        rc = ps_eras_make(r->shard, m->eras, m->n_eras, &r->change->eras, err);
        r->event.eras = r->change->eras.eras;
        r->event.era_count = r->change->eras.count;
    }
    return rc;
}
