/* FILE[:SCALE], as options of adapters have it.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_SCALED_PATH_H
#define QSF_SCALED_PATH_H

/* The file's name, for free(), without what stands behind the last colon where that is a number:
 * a colon may belong to the name, or to a drive's letter.  *scale: the number, else 1.  NULL: out
 * of memory. */
char *scaled_path(const char *text, float *scale);

#endif
