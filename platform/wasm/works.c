/* Whether the JavaScript engine computes a model's products correctly.
 * SPDX-License-Identifier: MIT
 *
 * This asks the kernels and the model's tensors, which qsf.h hides: no other platform has to doubt
 * its processor, so it is not part of the public interface. */
#include "qsf_flat.h"
#include "kernels.h"
#include "model/model.h"
#include "tensor/ggml_tiles.h"
#include "wasm.h"

/* The forms of tiles that the model's matrices have or come to have, as bits. */
static uint64_t model_forms(const qsf_source *s)
{
    uint64_t forms = 1ull << QSF_F_3;           /* the head's screen */
    for (uint32_t i = 0; i < s->n_tensors; i++) {
        const int ggml = qsf_ggml_tile_type(&s->tensors[i]),
            form = qsf_form_of_type(ggml < 0 ? s->tensors[i].type : (uint32_t)ggml);
        if (form >= 0) forms |= 1ull << form;
    }
    if (s->clusters) forms |= 1ull << QSF_F_8;
    return forms;
}

/* The module's file determines what it was compiled for; this checks whether the products are
 * right.  Called when the model is opened, and again from time to time, since the engine may have
 * recompiled the kernels. */
uint32_t wasm_cpu = QSF_CPU_WASM;
WASM_EXPORT("works") bool wasm_works(uint32_t model)
{
    static bool asked;
    const uint32_t cpu = qsf_cpu_wasm(model_forms(qsf_flat_model(model)->source));
#if defined(__wasm_relaxed_simd__)
    if (!(cpu & QSF_CPU_WASM_RELAXED)) return false;
#endif
    if (!asked) wasm_cpu = cpu;
    asked = true;
    return cpu == wasm_cpu;
}
