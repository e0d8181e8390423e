/* SPDX-License-Identifier: Apache-2.0 */
/* What this program is a release of, and with which other releases it works.
 *
 * Programs of one cluster meet for the time of an upgrade, and a master takes over the jobs that
 * one of another release has led. Two numbers decide whether that goes, never the name of the
 * release. Raise RELEASE_PROTOCOL when a program before the change would misunderstand a message,
 * or make other bits of the same records than one behind it: then nodes of the other number are
 * refused, and jobs are not taken over. A field that old programs may ignore raises nothing. Raise
 * RELEASE_HANDOVER when a row (Handover of jobs.proto) has to be read in another way. */
#ifndef GRADUS_BASE_RELEASE_H
#define GRADUS_BASE_RELEASE_H

#define RELEASE_PROTOCOL 1 /* 0: the programs before there was a number */
#define RELEASE_HANDOVER 1

const char *release_version(void); /* "0.1.0", for people */

#endif
