/* Which layers a GPU computes, and why not the others; no GPU is needed.
 * SPDX-License-Identifier: MIT
 *
 *   device_layers MODEL...
 *
 * Prints a line for each run of layers that have the same answer, with tabs in between: model, the
 * first layer, the layer after the last one, "-" or the reason. */
#include "device/device_layer.h"
#include "engine/context.h"

#include <stdio.h>

static int model_layers(const char *path)
{
    qsf_model_options mo;
    qsf_context_options o;
    qsf_model *m;
    qsf_error err;
    uint32_t first = 0;
    const char *why = NULL;
    qsf_model_defaults(&mo);
    qsf_context_defaults(&o);
    if (qsf_model_open(path, &mo, &m, &err)) {
        printf("%s: %s\n", path, err.text);
        return 1;
    }
    const uint32_t n = m->source->hp.n_layers;
    for (uint32_t i = 0; i <= n; i++) {
        const char *now = i < n ? qsf_device_layer_refused(m->source, i, &o) : NULL;
        if (i == n || (i && (!now != !why || (now && strcmp(now, why))))) {
            printf("%s\t%u\t%u\t%s\n", path, (unsigned)first, (unsigned)i, why ? why : "-");
            first = i;
        }
        why = now;
    }
    qsf_model_close(m);
    return 0;
}

int main(int argc, char **argv)
{
    int code = 0;
    for (int i = 1; i < argc; i++) code |= model_layers(argv[i]);
    return code;
}
