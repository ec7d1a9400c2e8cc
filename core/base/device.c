/* The GPUs that a host offers, as the public interface lists them.
 * SPDX-License-Identifier: MIT */
#include "base/device.h"
#include "base/platform.h"
#include "base/sized.h"

qsf_status qsf_devices_open(const qsf_platform *platform, const char *library, qsf_devices **out,
                            qsf_error *err)
{
    const qsf_platform *p = platform ? platform : qsf_platform_native();
    *out = NULL;
    if (!QSF_SIZED_HAS(p, qsf_platform, devices) || !p->devices)
        return qsf_fail(err, QSF_E_UNSUPPORTED, "this build cannot use GPUs");
    return p->devices(p->user, library, out, err);
}

void qsf_devices_close(qsf_devices *d)
{
    if (d) d->close(d);
}

const char *qsf_devices_source(const qsf_devices *d) { return d->source; }

qsf_status qsf_devices_get(const qsf_devices *d, uint32_t i, qsf_device_info *out)
{
    if (i >= d->n) return QSF_E_NOT_FOUND;
    return QSF_GIVE(out, &d->info[i], NULL);
}
