// The public headers work from C++: they compile, and what they declare links.
// SPDX-License-Identifier: MIT
#include "qsf.h"

#include <cstdio>
#include <cstring>

int main()
{
    qsf_model_options options;
    qsf_error error;
    qsf_model *model = nullptr;
    qsf_model_defaults(&options);
    const bool ok = std::strcmp(qsf_version(), QSF_VERSION) == 0 && options.size == sizeof options
                 && qsf_model_open("no/such/file", &options, &model, &error) == QSF_E_NOT_FOUND
                  && model == nullptr && error.text[0];
    std::printf("%s: %s\n", ok ? "ok" : "FAIL", error.text);
    return ok ? 0 : 1;
}
