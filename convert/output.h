/* Whether a path may become the output: see output.c.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_CONVERT_OUTPUT_H
#define QSF_CONVERT_OUTPUT_H

#include "read/input.h"

/* QSF_E_ARGUMENT: path is `other` or, also through links, a file that is read; a path that cannot
 * be a file fails as it does with a writer. */
qsf_status qsf_conv_check_output(input *in, const char *path, qsf_error *err);
/* Only that a file can be written there. */
qsf_status qsf_conv_check_place(const qsf_platform *p, const char *path, qsf_error *err);
/* That it is none of the input's files. */
qsf_status qsf_conv_check_unread(input *in, const char *path, qsf_error *err);
qsf_status qsf_conv_check_apart(const qsf_platform *p, const char *path, const char *what, const char *other,
                                qsf_error *err);
/* And that the text is there. */
qsf_status qsf_conv_check_calibration(const qsf_platform *p, const char *text, const char *path,
                                      qsf_error *err);

#endif
