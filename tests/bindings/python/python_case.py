"""What the tests of the Python package share: the package from its sources, and small models.
SPDX-License-Identifier: MIT

A test takes the package's shared library as its first argument.  Models come from
tests/tools/make_script.py, whose answers are known, and from tests/parity/make_tiny.py.
"""
import importlib.util, logging, os, pathlib, subprocess, sys, tempfile, unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
for needed in ("cffi", "numpy", "gguf"):
    if not importlib.util.find_spec(needed):
        print(f"skip: this Python has no {needed} (tests/requirements.txt)")
        sys.exit(77)
LIBRARY = str(pathlib.Path(sys.argv.pop(1)).resolve())
os.environ["QSF_LIBRARY"] = LIBRARY
PACKAGE = ROOT / "bindings" / "python"
sys.path[:0] = [str(PACKAGE), str(ROOT / "tests" / "tools"), str(ROOT / "tests" / "parity")]
import make_script
import qsf

logging.getLogger("qsf").addHandler(logging.NullHandler())
COLD = {"temperature": 0}
CHAT = {"temperature": 0, "template": "chatml"}

WORK = tempfile.TemporaryDirectory()
FOLDER = pathlib.Path(WORK.name)
TEMPLATE = """{% for t in tools or [] %}{{ t | tojson }}
{% endfor %}{% for m in messages %}[{{ m.role }}]{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>
{% endif %}{% if m.content %}{{ m.content }}{% endif %}{% for c in m.tool_calls %}
<tool_call>
{"name": "{{ c.function.name }}", "arguments": {{ c.function.arguments | tojson }}}
</tool_call>{% endfor %}[end]
{% endfor %}{% if add_generation_prompt %}[assistant]{{ "\\n" }}{% endif %}"""


def scripted(name, *texts, again=False):
    """A model that answers with these texts."""
    path = FOLDER / f"{name}.gguf"
    if not path.exists():
        make_script.write(path, list(texts), again=again)
    return path


def hello():
    return scripted("hello", "Hello", " world.")


def endless():
    return scripted("endless", "again ", again=True)


def calls():
    """It begins a call, whose name and arguments the tools' schemas decide."""
    return scripted("calls", "<tool_call>")


def tiny(name="llama"):
    """A random model."""
    found = list(FOLDER.glob(f"{name}/*.gguf"))
    if not found:
        (FOLDER / name).mkdir()
        subprocess.run([sys.executable, ROOT / "tests" / "parity" / "make_tiny.py", FOLDER / name, name],
                       check=True, stdout=subprocess.DEVNULL)
        found = list(FOLDER.glob(f"{name}/*.gguf"))
    return found[0]


def load(path, **options):
    return qsf.load(path, threads=1, **options)


async def whole(answer):
    return await answer


class Case(unittest.TestCase):
    def load(self, path, **options):
        model = load(path, **options)
        self.addCleanup(model.close)
        return model

    def refused(self, code, *says):
        test = self

        class Refused:
            def __enter__(self):
                return self

            def __exit__(self, kind, value, trace):
                test.assertIsInstance(value, qsf.QsfError)
                test.assertEqual(value.code, code, value)
                for part in says:
                    test.assertIn(part, str(value))
                return True
        return Refused()
