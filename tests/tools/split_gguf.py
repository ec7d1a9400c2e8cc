"""GGUF files in parts, and with gaps.
SPDX-License-Identifier: MIT
"""
import gguf


def _write_keys(w, reader):
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key != "general.architecture":
            w.add_key_value(key, field.contents(), field.types[0],
                            field.types[-1] if len(field.types) > 1 else None)


def with_gaps(model, path, align):
    """The same model with each tensor at a multiple of align bytes: a file that is much longer."""
    reader = gguf.GGUFReader(model)
    w = gguf.GGUFWriter(path, "llama", use_temp_file=False)
    _write_keys(w, reader)
    w.add_custom_alignment(align)
    for t in reader.tensors:
        w.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
    w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()


def in_two_parts(model, first, second):
    """Splits a GGUF file in two: a reader finds the second part by the name of the first."""
    reader = gguf.GGUFReader(model)
    for i, path in enumerate((first, second)):
        w = gguf.GGUFWriter(path, "llama", use_temp_file=False)
        w.add_uint16("split.no", i), w.add_uint16("split.count", 2)
        w.add_int32("split.tensors.count", len(reader.tensors))
        if i == 0:
            _write_keys(w, reader)
        for t in reader.tensors[i * 4:4 if i == 0 else None]:
            w.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
        w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
