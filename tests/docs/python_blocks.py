"""Which tests run the blocks about the Python package: for docs_commands.py, as its Tried.
SPDX-License-Identifier: MIT
"""
_HERE = "tests/bindings/python/docs_test.py"
_FRAMEWORKS = "tests/bindings/python/frameworks_test.py"
_FIRST = ("import qsf", "with model.conversation(", "import asyncio", "def weather(", "import re",
          "vectors = model.embed(", "client = qsf.OpenAI(", "from qsf.llama_cpp",
          "done = qsf.convert(", "from pydantic import", "import openai")
BLOCKS = {
    ("README.md", "import qsf"): (_HERE, "README.md"),
    ("docs/python.md", "pip install ./bindings/python"): (
        "tests/bindings/python/wheel_test.py", "make_wheel.py"),
    ("docs/python.md", "python -m qsf chat"): (_HERE, "python -m qsf"),
    ("docs/python.md", "model = qsf.load("): ("tests/bindings/python/files_test.py", "owner/tiny-GGUF"),
    ("docs/python.md", "pip install llm"): (_FRAMEWORKS, '"qsf", "add"'),
    ("docs/python.md", "OpenAIChatGenerator("): (_FRAMEWORKS, "ChatOpenAI("),
    **{("docs/python.md", first): (_HERE, "docs/python.md") for first in _FIRST},
}
