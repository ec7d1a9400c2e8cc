/* What a module exports besides the flat interface (qsf_flat.h), whose functions the linker exports
 * by their own names: memory, and what JavaScript gives and takes by the module's imports instead
 * of by callbacks.
 * SPDX-License-Identifier: MIT */
#include "qsf_flat.h"
#include "wasm.h"

WASM_EXPORT("alloc") void *wasm_alloc(size_t size) { return wasm_mem_alloc(NULL, size); }
WASM_EXPORT("free") void wasm_free(void *p, size_t size) { wasm_mem_free(NULL, p, size); }
/* Made by the linker.  If no object called it, the linker would take the module for a program, and
 * wrap each export in a function that calls the constructors first and what exit() calls last. */
void __wasm_call_ctors(void);
WASM_EXPORT("start") void wasm_start(void)
{
    __wasm_call_ctors();
    wasm_crc_table();
    wasm_codebooks();
    wasm_unicode();
}

/* The bytes of sessions and adapters are JavaScript's: here they would make the memory larger for
 * good. */
static qsf_status js_put(void *user, const void *bytes, size_t len)
{
    (void)user;
    wasm_js_save(bytes, len);
    return QSF_OK;
}
static qsf_status js_get(void *user, uint64_t at, void *dst, size_t len)
{
    (void)user;
    wasm_js_load((double)at, dst, len);
    return QSF_OK;
}
WASM_EXPORT("session_save") int32_t wasm_session_save(uint32_t conversation)
{
    return qsf_flat_session_save(conversation, js_put, NULL);
}
WASM_EXPORT("session_load") int32_t wasm_session_load(uint32_t conversation, double len)
{
    return qsf_flat_session_load(conversation, (uint64_t)len, js_get, NULL);
}
WASM_EXPORT("adapter_load") int32_t wasm_adapter_load(uint32_t adapter, const char *name, double len)
{
    const int32_t st = qsf_flat_file(adapter, (uint64_t)len, js_get, NULL);
    return st ? st : qsf_flat_adapter_open(adapter, name);
}
