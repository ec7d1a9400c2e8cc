#!/usr/bin/env python3
"""Writes eagle.json: what llama.cpp computes with the heads of ../tools/eagle_models.py.
SPDX-License-Identifier: MIT

    make_eagle.py EAGLE_REF

EAGLE_REF is eagle_ref.cpp built as README.md says. Of each line some numbers are kept, and the best token.
"""
import json, pathlib, subprocess, sys, tempfile
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tools"))
import eagle_models                                         # noqa: E402
import make_tiny                                            # noqa: E402
import mtp_models                                           # noqa: E402

PROMPT, STEPS = [95, 192, 157, 249, 266, 13, 234, 273, 169], 3


def main(program):
    out = {}
    with tempfile.TemporaryDirectory() as work:
        for name, model, more in eagle_models.heads():
            target = mtp_models.write(pathlib.Path(work), model)
            head = eagle_models.write(pathlib.Path(work), name, target, make_tiny.models()[model], **more)
            text = subprocess.check_output([program, target, head, str(STEPS), *map(str, PROMPT)], text=True)
            lines = [np.array(line.split(","), float) for line in text.split()]
            ids = eagle_models.ids_of(head)
            for i in range(3, len(lines), 2): lines[i] = lines[i][ids]
            out[name] = {"numbers": [[float(f"{v:.5g}") for v in x[::eagle_models.STEP]] for x in lines],
                         "best": [int(np.argmax(x)) for x in lines],
                         "size": [float(f"{np.abs(x).max():.4g}") for x in lines]}
    rows = ",\n".join(json.dumps(k) + ": " + json.dumps(v) for k, v in out.items())
    (HERE / "eagle.json").write_text("{" + rows + "}\n")


main(sys.argv[1])
