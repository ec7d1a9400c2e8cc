#!/usr/bin/env python3
"""The Python of docs/python.md and README.md runs as it stands there, and the commands do.
SPDX-License-Identifier: MIT

    docs_test.py LIBQSF_PYTHON
"""
import contextlib, importlib.util, io, os, pathlib, re, shutil, subprocess, sys

from python_case import FOLDER, LIBRARY, PACKAGE, ROOT, tiny

os.chdir(FOLDER)
shutil.copy(tiny(), "model.gguf")
try:
    import pydantic     # noqa: F401
except ImportError:
    print("skip: this Python has no pydantic (tests/requirements.txt)")
    sys.exit(77)
sys.path.append(str(ROOT / "tests" / "clients"))
import packages     # noqa: E402
if found := packages.installed("clients"):
    sys.path += map(str, found.glob("lib/python*/site-packages"))
NEEDED = {"qsf.langchain": "langchain_core", "qsf.transport": "openai"}     # else a block is left out
for page in ("docs/python.md", "README.md"):
    text = (ROOT / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.S | re.M)
    assert blocks, f"{page} has no Python"
    names = {}
    for block in blocks:
        lacks = [other for module, other in NEEDED.items()
                 if module in block and not importlib.util.find_spec(other)]
        if lacks:
            print(f"without {', '.join(lacks)}")
            continue
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block, page, "exec"), names)
    if page == "docs/python.md":
        assert names["vectors"].shape == (2, names["model"].info.embedding)
        assert names["rows"].shape[0] == len(names["tokens"])
        assert len(names["talk"].messages) == 5
text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
commands = re.findall(r"^    (python -m qsf .*)$", text, re.M)
for command in commands:
    done = subprocess.run([sys.executable, *command.split()[1:]], input="Hello\n", text=True,
                          encoding="utf-8", capture_output=True,
                          env={**os.environ, "PYTHONPATH": str(PACKAGE),
                               "QSF_PROGRAM": str(pathlib.Path(LIBRARY).with_name("qsf-python"))})
    assert done.returncode == 0 and done.stdout.strip(), f"{command}: {done.stdout}{done.stderr}"
assert len(commands) == 3, commands
print("ok")
