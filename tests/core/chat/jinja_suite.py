#!/usr/bin/env python3
"""Runs jinja2's own tests, those of the language, with the core's interpreter in its place.
SPDX-License-Identifier: MIT

    jinja_suite.py JINJA_TEST [--tests DIR] [--verbose]

The tests come from jinja2's source archive, which tools/deps.sh fetches. A test's templates are rendered by
jinja_test. It runs with jinja2's default of keeping white space around tags, which the interpreter does not:
tags are translated to their "+" forms. What is left out, and why, is printed; LEFT_OUT says it by name, the
rest is about Python: other delimiters, loaders, streams, code that is compiled, values that JSON does not
have."""
import argparse, collections, importlib.util, itertools, json, os, pathlib, re, subprocess, sys, types
import jinja2, jinja2.environment

MODULES = ["core_tags", "filters", "lexnparse", "regression", "runtime", "tests", "ext", "inheritance",
           "imports"]
# Tests that would run and that mean something else here.
LEFT_OUT = {
    "test_tojson": "transformers has a tojson of its own",
    "test_urlize": "urlize is refused by name", "test_random": "random is refused by name",
    "test_lipsum": "lipsum is refused by name",
    "test_macro_scoping": "transformers' sandbox lets no template change a list",
    "test_error_messages": "the words of an error",
}


class LeftOut(Exception):
    """Why a test is not about this interpreter."""


class Refused(Exception):
    """The interpreter's error."""


# ---- jinja2's place ----

class Interpreter:
    def __init__(self, program):
        self.process = subprocess.Popen([program, "--render"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __call__(self, source, variables):
        source = source.encode()
        values = b"" if variables is None else json.dumps(variables).encode()
        size = -1 if variables is None else len(values)
        self.process.stdin.write(b"%d %d\n%s%s" % (len(source), size, source, values))
        self.process.stdin.flush()
        head = b""
        while head.count(b" ") < 2:
            head += self.process.stdout.read(1)
        status, n, _ = head.split(b" ")
        text = self.process.stdout.read(int(n)).decode()
        if status == b"QSF_E_UNSUPPORTED":
            raise LeftOut("unknown here: " + text.partition(": ")[2])
        if status != b"QSF_OK":
            raise Refused(text)
        return text


def plain(value):
    """The value, if JSON has it."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) in (list, tuple):
        return [plain(v) for v in value] if type(value) is list else {"(tuple)": [plain(v) for v in value]}
    if isinstance(value, (range, map, type(iter([])), type(reversed([])))):
        return plain(list(value))
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict) and type(value).__str__ is dict.__str__ and all(type(k) is str for k in value):
        return {k: plain(v) for k, v in value.items()}
    if type(value).__str__ is object.__str__ and not callable(value) \
            and getattr(value, "__dict__", None) and all(k.startswith("__") for k in vars(type(value))):
        return plain(vars(value))           # an object that only has attributes
    raise LeftOut("values that JSON does not have: " + type(value).__name__)


def signed(source, trim, lstrip):
    """Tags with the signs that keep white space, where jinja2 keeps it without."""
    out = []
    try:
        for _, kind, text in BASE.lexer.tokeniter(source, None):
            if kind in ("block_begin", "comment_begin", "raw_begin", "raw_end") \
                    and text[2:3] not in ("-", "+"):
                text = text if lstrip else text[:2] + "+" + text[2:]
            if kind in ("block_end", "comment_end", "raw_end") and text.endswith(("%}", "#}")) \
                    and text[-3:-2] not in ("-", "+") and not trim:
                text = text[:-2] + "+" + text[-2:]
            out.append(text)
    except jinja2.TemplateSyntaxError:
        return source
    return "".join(out) + "\n"


class Template:
    def __init__(self, source):
        self.source = source

    def render(self, *args, **kwargs):
        used = {k: v for k, v in dict(*args, **kwargs).items() if re.search(rf"\b{k}\b", self.source)}
        return ours(self.source, plain(used))

    def __getattr__(self, name):
        raise LeftOut("a template's " + name)


class Environment(jinja2.environment.Environment):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.odd = args or [k for k in kwargs if k not in ("trim_blocks", "lstrip_blocks") and not
                            (k == "extensions" and set(kwargs[k]) <= {"jinja2.ext.loopcontrols"})]

    def from_string(self, source, globals=None, template_class=None):
        if self.odd or globals or template_class or type(source) is not str:
            raise LeftOut("an environment with " + (", ".join(map(str, self.odd)) or "globals"))
        if self.filters != BASE.filters or self.tests != BASE.tests or self.globals != BASE.globals:
            raise LeftOut("functions of Python")
        source = signed(source, self.trim_blocks, self.lstrip_blocks)
        ours(source, None)
        return Template(source)

    def get_template(self, *args, **kwargs):
        raise LeftOut("loaders")

    select_template = get_or_select_template = get_template

    def parse(self, *args, **kwargs):
        raise LeftOut("parts of the parser")

    compile = lex = extract_translations = compile_expression = parse


# ---- as much of pytest as the tests need ----

class Raises:
    def __enter__(self):
        return self

    def __exit__(self, kind, value, _):
        if kind is None:
            raise AssertionError("nothing was refused")
        return kind is Refused

    def match(self, words):
        """Errors have words of their own here."""
        return True

    def __getattr__(self, name):
        raise LeftOut("the words of an error")


def raises(expected, function=None, *args, match=None, **kwargs):
    if function is None:
        return Raises()
    with Raises() as caught:
        function(*args, **kwargs)
    return caught


def fixture(function=None, **_):
    if function is None:
        return fixture
    function.is_fixture = True
    return function


def parametrize(names, values, **_):
    names = [n.strip() for n in names.split(",")] if isinstance(names, str) else list(names)

    def mark(function):
        rows = [dict(zip(names, v if len(names) > 1 else [v])) for v in values]
        function.rows = [a | b for a in getattr(function, "rows", [{}]) for b in rows]
        return function
    return mark


class Mark:
    parametrize = staticmethod(parametrize)

    def __getattr__(self, name):
        return lambda *a, **k: a[0] if a and callable(a[0]) else lambda f: f


def fake_pytest():
    module = types.ModuleType("pytest")
    module.raises, module.fixture, module.mark = raises, fixture, Mark()
    module.param = lambda *values, **_: values
    module.skip = module.importorskip = lambda *_, **__: (_ for _ in ()).throw(LeftOut("skipped by itself"))
    return module


# ---- the tests ----

def load(path):
    spec = importlib.util.spec_from_file_location("jinja2_suite_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def found(module):
    """Test functions: name, function, the object they belong to."""
    for name, value in vars(module).items():
        if name.startswith("test") and callable(value):
            yield name, value, None
        if name.startswith("Test") and isinstance(value, type):
            for method in dir(value):
                if method.startswith("test") and callable(getattr(value, method)):
                    yield method, getattr(value, method), value()


def value_of(name, fixtures, row):
    if name in row:
        return row[name]
    if name not in fixtures:
        raise LeftOut("a fixture: " + name)
    function = fixtures[name]
    return function(*(value_of(n, fixtures, row)
                      for n in function.__code__.co_varnames[:function.__code__.co_argcount]))


def run(function, owner, fixtures, row):
    code = function.__code__
    names = code.co_varnames[:code.co_argcount]
    values = [value_of(n, fixtures, row) for n in names if n != "self"]
    return function(*([owner] if owner is not None else []), *values)


def main():
    global ours
    p = argparse.ArgumentParser()
    p.add_argument("jinja_test")
    cache = os.environ.get("QSF_CACHE", str(pathlib.Path.home() / ".cache" / "qsf"))
    p.add_argument("--tests", default=f"{cache}/deps/jinja2")
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    folder = pathlib.Path(o.tests)
    if not (folder / "conftest.py").exists():
        print(f"{folder}: there are no tests of jinja2; tools/deps.sh fetches them")
        sys.exit(1 if os.environ.get("QSF_TEST_NO_SKIP") else 77)
    sys.modules["pytest"] = fake_pytest()
    jinja2.Environment = jinja2.environment.Environment = Environment
    jinja2.Template = lambda source, **options: Environment(**options).from_string(source)
    ours = Interpreter(o.jinja_test)
    fixtures = {n: f for n, f in vars(load(folder / "conftest.py")).items()
                if getattr(f, "is_fixture", False)}
    passed, failed, reasons = 0, 0, collections.defaultdict(list)
    for module_name in MODULES:
        module = load(folder / f"test_{module_name}.py")
        local = fixtures | {n: f for n, f in vars(module).items() if getattr(f, "is_fixture", False)}
        for name, function, owner in found(module):
            for row in getattr(function, "rows", [{}]):
                own = local | {n: f.__func__ if hasattr(f, "__func__") else f for n, f in
                               ((n, getattr(type(owner), n)) for n in dir(owner))
                               if getattr(f, "is_fixture", False)}
                label = f"{module_name}: {name}"
                try:
                    reason = next((r for n, r in LEFT_OUT.items() if name.startswith(n)), None)
                    if reason:
                        raise LeftOut(reason)
                    run(getattr(function, "__func__", function), owner, own, row)
                    passed += 1
                except LeftOut as e:
                    reasons[str(e)].append(label)
                except Exception as e:      # whatever a test raises is its failure
                    failed += 1
                    print(f"FAIL {label} {row or ''}\n     {type(e).__name__}: {str(e)[:600]}")
    for reason, names in sorted(reasons.items(), key=lambda item: -len(item[1])):
        print(f"left out, {reason}: {len(names)}" + (f" ({', '.join(names)})" if o.verbose else ""))
    print(f"{passed} passed, {failed} failed, {sum(map(len, reasons.values()))} left out")
    sys.exit(1 if failed or passed < 300 else 0)


BASE = jinja2.environment.Environment()
ours = None
main()
