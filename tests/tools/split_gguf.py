"""GGUF files in parts.
SPDX-License-Identifier: MIT
"""
import gguf


def in_two_parts(model, first, second):
    """Splits a GGUF file in two: a reader finds the second part by the name of the first."""
    reader = gguf.GGUFReader(model)
    for i, path in enumerate((first, second)):
        w = gguf.GGUFWriter(path, "llama", use_temp_file=False)
        w.add_uint16("split.no", i), w.add_uint16("split.count", 2)
        w.add_int32("split.tensors.count", len(reader.tensors))
        for key, field in reader.fields.items() if i == 0 else ():
            if not key.startswith("GGUF.") and key != "general.architecture":
                w.add_key_value(key, field.contents(), field.types[0],
                                field.types[-1] if len(field.types) > 1 else None)
        for t in reader.tensors[i * 4:4 if i == 0 else None]:
            w.add_tensor(t.name, t.data, raw_dtype=t.tensor_type)
        w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
