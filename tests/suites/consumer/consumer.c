/* The smallest user of an installed libqsf: both headers, one call that works and one that fails.
 * SPDX-License-Identifier: MIT */
#include <qsf.h>
#include <qsf_platform.h>
#include <stdio.h>
#include <string.h>

int main(void)
{
    qsf_model *model = NULL;
    qsf_error error;
    const qsf_status st = qsf_model_open("no/such/file", NULL, &model, &error);
    printf("libqsf %s, table of %zu bytes, %s\n", qsf_version(), qsf_platform_native()->size,
           qsf_status_name(st));
    return strcmp(qsf_version(), QSF_VERSION) || st != QSF_E_NOT_FOUND
        || qsf_platform_native()->size != sizeof(qsf_platform);
}
