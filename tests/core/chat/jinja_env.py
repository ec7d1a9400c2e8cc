"""Python's jinja2 set up as transformers sets it up for chat templates, with a clock that stands still.
SPDX-License-Identifier: MIT"""
import datetime, functools, json
import jinja2, jinja2.ext, jinja2.sandbox
from jinja2 import nodes

NOW = datetime.datetime(2024, 7, 26, 12)


class Generation(jinja2.ext.Extension):
    """{% generation %} marks answers for training; its body is rendered unchanged, in a scope of
    its own."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("written"), [], [], body).set_lineno(line)

    def written(self, caller):
        return caller()


class Refusal(jinja2.TemplateError):
    """What raise_exception raises."""


def refuse(text):
    raise Refusal(text)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


@functools.cache
def environment(clock=True):
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                                       extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = to_json
    env.globals["raise_exception"] = refuse
    if clock:
        env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


@functools.cache
def template(source, clock=True):
    return environment(clock).from_string(source)
