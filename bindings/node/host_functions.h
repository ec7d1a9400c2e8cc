/* The functions of Node.js that the addon calls.  On Windows they are looked up in the process that
 * loads the addon, whatever its program is called: node.exe, electron.exe, bun.exe.  Elsewhere the
 * dynamic linker does that.
 * SPDX-License-Identifier: MIT */
#ifndef QSF_NODE_HOST_FUNCTIONS_H
#define QSF_NODE_HOST_FUNCTIONS_H

#if defined(_WIN32)

#define NODE_HOST_FUNCTIONS(X) \
    X(call_function) X(close_handle_scope) X(create_array) X(create_double) X(create_function) \
    X(create_object) X(create_reference) X(create_string_utf8) X(create_uint32) X(get_cb_info) \
    X(get_instance_data) X(get_named_property) X(get_reference_value) X(get_typedarray_info) \
    X(get_value_bool) X(get_value_double) X(is_arraybuffer) X(is_typedarray) X(open_handle_scope) \
    X(set_element) X(set_instance_data) X(set_named_property) X(throw_error) X(throw_type_error) X(typeof)

/* Pointers to them; NULL before node_host_functions(). */
typedef struct node_host {
#define X(name) __typeof__(&napi_##name) name;
    NODE_HOST_FUNCTIONS(X)
#undef X
} node_host;
extern node_host node_host_table;

/* false: the process lacks one of them. */
bool node_host_functions(void);

#define napi_call_function node_host_table.call_function
#define napi_close_handle_scope node_host_table.close_handle_scope
#define napi_create_array node_host_table.create_array
#define napi_create_double node_host_table.create_double
#define napi_create_function node_host_table.create_function
#define napi_create_object node_host_table.create_object
#define napi_create_reference node_host_table.create_reference
#define napi_create_string_utf8 node_host_table.create_string_utf8
#define napi_create_uint32 node_host_table.create_uint32
#define napi_get_cb_info node_host_table.get_cb_info
#define napi_get_instance_data node_host_table.get_instance_data
#define napi_get_named_property node_host_table.get_named_property
#define napi_get_reference_value node_host_table.get_reference_value
#define napi_get_typedarray_info node_host_table.get_typedarray_info
#define napi_get_value_bool node_host_table.get_value_bool
#define napi_get_value_double node_host_table.get_value_double
#define napi_is_arraybuffer node_host_table.is_arraybuffer
#define napi_is_typedarray node_host_table.is_typedarray
#define napi_open_handle_scope node_host_table.open_handle_scope
#define napi_set_element node_host_table.set_element
#define napi_set_instance_data node_host_table.set_instance_data
#define napi_set_named_property node_host_table.set_named_property
#define napi_throw_error node_host_table.throw_error
#define napi_throw_type_error node_host_table.throw_type_error
#define napi_typeof node_host_table.typeof

#else
static inline bool node_host_functions(void) { return true; }
#endif
#endif
