#!/usr/bin/env python3
"""Compares the interpreter of Jinja with Python's jinja2: what both write is the same, byte for byte.
SPDX-License-Identifier: MIT

    jinja_exact.py JINJA_TEST [--shared DIR] [--verbose]

Where jinja2 refuses, the interpreter has to refuse; it may say UNSUPPORTED only where UNSUPPORTED below
names the template.  And a template of 30 KB with 50 messages is read and rendered in less than a fifth of the
time that jinja2 takes to render it."""
import argparse, json, os, pathlib, re, subprocess, sys, time
import jinja_random
from jinja_env import environment, template

TESTS = pathlib.Path(__file__).resolve().parents[2]

EXPRESSIONS = r"""
1 + 2 * 3 - 4 // 3 % 5 ; 7 // -2 ; -7 // 2 ; -7 % 3 ; 7 % -3 ; 7 / 2 ; 2 ** 10 ; -2 ** 2 ; 2 ** 3 ** 2
1_000 + 1 ; 1.5 + 1 ; 0.1 + 0.2 == 0.3 ; 10 / 4 ; 1e3 ; 3.0
'a' ~ 1 ~ none ~ true ~ 1.5 ; 'a' + 'b' * 3 ; 3 * 'ab' ; [1] * 2 + [none] ; (1,) + (2, 3) ; 'a' 'b' "c"
'x' * 0 ; 'x' * -1 ; [] * 5
'\n\t\\\'\"\x41\u00e9\101\q' ; "it's" ; ["it's", 'say "x"', 'both \' and "', '\n\t\\\x01é一'] ; ('a',) ; ()
{} ; {'a': 1, 2: [none, true, 1.5]} ; [[], {}, ()]
true and false or not true ; 0 or 'x' ; '' or none ; 'a' and 'b' ; not 1 == 2 ; not not [] ; 1 if 0 else 2
(1 if 0) ; 1 if 1 else 2 if 0 else 3 ; 'a' if 0 else 'b' if 0 else 'c'
1 < 2 < 3 ; 3 > 2 > 2 ; 1 < 2 > 1 != 3 ; 1 == 1.0 ; true == 1 ; 'a' == 1 ; none == false
[1, 'a'] == [1, 'a'] ; {'a': 1, 'b': 2} == {'b': 2, 'a': 1} ; (1,) == [1] ; 'a' < 'b' ; [1, 2] < [1, 3]
1 in [1, 2] ; 'a' in 'cat' ; 'x' not in 'cat' ; 'a' in {'a': 1} ; 2 in (1, 2) ; '' in 'a' ; not 'a' in 'b'
'a' in x ; 1 in [] ; 'é' in 'café' ; not (1 in [1]) ; 1 in [1] == true
[1, 2, 3][0] ; [1, 2, 3][-1] ; [1, 2, 3][5] ; 'héllo'[1] ; 'héllo'[-1] ; {'a': 5}['a'] ; {'a': 5}.a
{'a': {'b': [7]}}.a.b.0 ; {'a': 5}['b'] ; {'items': 1}['items'] ; 'abc'.x ; 5 .x ; none.x ; (1, 2)[1]
[1, 2, 3, 4][1:] ; [1, 2, 3, 4][:-1] ; [1, 2, 3, 4][::-1] ; [1, 2, 3, 4][1:3] ; [1, 2, 3, 4][-3::2]
[1, 2][5:] ; [1, 2][:-5] ; [1, 2, 3][::2] ; [1, 2, 3][5::-2] ; [1, 2, 3][10:0:-1]
'héllo'[1:3] ; 'héllo'[::-1] ; 'héllo'[-2:] ; 'héllo'[:99] ; 'héllo'[3:1] ; ''[1:] ; (1, 2, 3)[1:]
'abc'[none:2] ; 'abcdef'[::2] ; 'abcdef'[4:1:-1] ; [1, 2, 3][true:]
x ; x.y ; x['y'] ; x is defined ; x is undefined ; x | default('d') ; x | default ; '' | default('d', true)
'' | d('e') ; none | default('d') ; none | default('d', boolean=true) ; x + 1 ; -x ; x() ; x == y
x | length ; x | trim ; x | list ; x ~ 'a' ; x < 1 ; not x ; [x] ; x | upper
1 is number ; 1 is integer ; 1.5 is float ; true is integer ; true is number ; true is boolean
'a' is string ; [] is sequence ; {} is mapping ; {} is iterable ; 'a' is iterable ; 1 is iterable
none is none ; x is none ; 1 is none ; 4 is even ; 3 is odd ; 9 is divisibleby 3 ; 9 is divisibleby(2)
1 is not none ; 1 is eq 1 ; 1 is ne(2) ; 2 is gt 1 ; 2 is lessthan 1 ; 'a' is in ['a'] ; 'a' is in 'abc'
true is true ; 1 is true ; false is false ; none is sameas none ; true is sameas true ; 1 is sameas true
x is iterable ; x is sequence ; x is callable ; range is callable ; 'a' is mapping
1 is defined and 2 is string ; 'a' is string if 1 else 2
[1, 2] | length ; 'héé' | length ; {'a': 1} | count ; 5 | length ; [3, 1, 2] | sort ; ['b', 'A', 'c'] | sort
['b', 'A', 'c'] | sort(case_sensitive=true) ; [3, 1] | sort(reverse=true)
[{'a': 2}, {'a': 1}] | sort(attribute='a') ; [1, 'a'] | sort ; [1, 2.5] | sort(attribute=0)
[{'a': 1}, 2] | sort(attribute='a')
[1, 2] | first ; [1, 2] | last ; [] | first ; 'héy' | last ; [1, 2] | reverse | list ; 'héy' | reverse
[1, 2, 2, 1] | unique | list ; ['a', 'A'] | unique | list ; [1, 2] | sum
[{'v': 1}, {'v': 3}] | sum(attribute='v') ; [1, 2] | sum(start=5) ; [1, 5, 3] | max ; [4, 2] | min ; [] | max
['a', 'b'] | join ; ['a', 1, none] | join(', ') ; [{'n': 'x'}, {'n': 'y'}] | join('-', attribute='n')
'abc' | join('.') ; {'a': 1, 'b': 2} | join ; x | join ; [1, 2] | map('string') | list
[{'a': 1}, {}] | map(attribute='a') | list ; [{'a': 1}, {}] | map(attribute='a', default='-') | list
['a', 'b'] | map('upper') | join ; ['a '] | map('trim') | list ; ['ab'] | map('replace', 'a', 'c') | list
[1, 0, 2, none] | select | list ; [1, 0, 2] | reject | list ; [1, 2, 3] | select('odd') | list
[1, 2, 3] | select('gt', 1) | list ; [1, 2, 3] | reject('equalto', 2) | list
[{'r': 'u'}, {'r': 's'}] | selectattr('r', 'equalto', 'u') | list
[{'r': 1}, {'r': 0}, {}] | selectattr('r') | list ; [{'r': 'u'}, {}] | rejectattr('r', 'defined') | list
[{'r': 'u'}] | selectattr('r', '==', 'u') | list | length ; [1] | select('nothing') | list
{'b': 1, 'a': 2} | dictsort ; {'b': 1, 'a': 2} | dictsort(by='value') ; {'b': 1, 'A': 2} | dictsort(true)
{'b': 1} | items | list ; x | items | list ; 5 | items | list ; {'a': 1}.items() | list
{'a': 1}.keys() | list ; {'a': 1}.values() | list ; {'a': 1}.get('a') ; {'a': 1}.get('b')
{'a': 1}.get('b', 3) ; [1, 2, 1].count(1) ; [1, 2].index(2) ; [1].index(3) ; (1, 1).count(1)
'5' | int ; 'x' | int ; 'x' | int(7) ; 3.9 | int ; -3.9 | int ; true | int ; '-12' | int ; '' | int
none | int ; 3 | float ; 'a' | string ; [1, 'a'] | string ; -3 | abs ; 3.5 | abs ; none | string
'  a b ' | trim ; 'xxaxx' | trim('x') ; ' a '.strip() ; ' a '.lstrip() ~ '|' ; ' a '.rstrip()
'\u00a0\u3000a\u2003'.strip() ; '\x1ca\x1f' | trim ; 'xyaxy'.strip('xy') ; 'éaé'.strip('é')
'\n\na\n'.strip('\n') ; 5 | trim ; 'abc'.strip('') ; 'aXb' | upper ; 'aXb' | lower ; 'aBC dE' | capitalize
'aBC dE'.capitalize() ; 'aBC d-e1f'.title() ; 'A'.lower() ; 'a'.upper()
'a,b,c'.split(',') ; 'a,b,c'.split(',', 1) ; 'a,b,c'.rsplit(',', 1) ; ' a  b '.split()
'a b c'.split(none, 1) ; 'a b c '.split(maxsplit=1) ; ''.split() ; ''.split(',')
'a<think>b</think>c'.split('</think>')[-1] ; 'abc'.split('x') ; 'aXXb'.split('X')
'a\nb\r\nc\n'.splitlines() ; 'a\n\nb'.splitlines(true) ; ''.splitlines() ; 'a=b=c'.partition('=')
'abc'.partition('x') ; 'a,b,c'.rsplit(',')
'abc'.startswith('a') ; 'abc'.startswith(('x', 'a')) ; 'abc'.endswith('bc') ; 'abc'.endswith('')
'abc'.startswith('abcd') ; 'abc'.startswith(1) ; 'aab'.replace('a', 'x') ; 'aab'.replace('a', 'x', 1)
'aab' | replace('a', '') ; 'aab' | replace('a', 'b', 1) ; 5 | replace('5', '6') ; 'abcb'.find('b')
'abcb'.rfind('b') ; 'éb'.find('b') ; 'abc'.find('x') ; 'abc'.index('x') ; 'banana'.count('an')
'ab'.count('') ; ','.join(['a', 'b']) ; ','.join([1]) ; 'abc'.removeprefix('a') ; 'abc'.removesuffix('c')
'abc'.removeprefix('x') ; '12'.isdigit() ; ''.isdigit() ; ' '.isspace() ; '1a'.isdigit()
('a,b' | safe).partition(',') ; ('ab' | e).rpartition(',') ; 'ab'.rpartition(',')
('<' | safe) | forceescape ; '<' | e | forceescape ; 5 | urlencode ; '3 Bytes' | wordwrap(3, false)
'' | wordwrap(0) ; 'b'.startswith(('a', 1)) ; 'b'.startswith(('b', 1))
'a\nb\n\nc' | indent ; 'a\nb' | indent(2, true) ; 'a\nb' | indent(width=1, first=true)
'a\n\nb\n' | indent(2, false, true) ; 'a\nb\n' | indent('> ') ; '' | indent ; 'a' | indent(4, first=True)
'\na' | indent(2)
{'a': [1, 2.5, 'é"\\\n\x01', none, true]} | tojson ; [] | tojson ; {} | tojson
[1, {'b': [], 'c': {}}] | tojson(indent=2) ; 'x</y>&\'' | tojson ; (1, 2) | tojson
{1: 2, true: 3, none: 4} | tojson ; x | tojson ; [x] | tojson ; {'a': {'b': [1]}} | tojson(indent=4)
'\u007f\u2028' | tojson ; [[1], [2]] | tojson(indent=0)
range(3) | list ; range(1, 4) | list ; range(5, 0, -2) | list ; range(0) | list ; range(3, 1) | list
range(0, 10, 3) | list ; dict(a=1, b='x') ; dict({'a': 1}, a=2) ; namespace(a=1).a
namespace(a=1).b is defined ; namespace({'x': 3}).x ; raise_exception('no') ; strftime_now('%d %b %Y')
strftime_now('%Y-%m-%d %A %a %B %H:%M:%S %y %%') ; range('a')
'<' | safe ; '<' | safe ~ '>' ; ('<' | safe) | length ; ' a ' | safe | trim ; '<' | safe + '<&>\'"'
'<' + ('<' | safe) + '"' ; ['<' | safe, '<'] | join ; '<'.join(['>' | safe]) ; 1, 2 ; 'a' | upper | lower
('a', 'b') | join('-') | upper ; -1 | abs ; - 'a' ; +1 ; -(-1) ; 1 - -1 ; (1, 2, 3) | length ; [1, 2,]
{'a': 1,} ; [[1, 2], [3]] | map('length') | list ; true | string ; 1 == 1 == true ; '%'
'a' is string and 'b' is string ; {'a': 'b'}['a'] | upper ; ('x' if true else 'y') ~ 'z'
[1, 2, 3] | length > 2 ; 'a' in ['a'] and 'b' not in ['a']
[1].append(2) ; {}.update({}) ; 'a'.nothing() ; x.y.z ; 1() ; 'a'.strip(1) ; 1 | join ; 'a' - 'b' ; 'a' + 1
none + 1 ; [1] + (1,) ; 1 / 0 ; 1 % 0 ; 'a' | nothing ; 1 is nothing ; [1, 2][none] ; {}[[]] ; 'a' < 1
none < none ; namespace(1) ; dict(1) ; 'a' | trim(1) ; range() ; 'abc' | replace('a') ; 'a'.split('') ; (1
1) ; [1 ; {1} ; 'a ; 1 2 ; a b ; a. ; a.1.b ; a[ ; a[] ; not ; 1 + ; == 1 ; @ ; 1a
""".replace("\n", " ; ").split(" ; ")

TEMPLATES = r"""
a{% if x %}b{% elif 1 %}c{% else %}d{% endif %}e
{% if x %}b{% elif y %}c{% else %}d{% endif %}|{% if 1 %}{% endif %}
{% for a in [1, 2, 3] %}{{ a }}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }} {% endfor %}
{% for a in [] %}x{% else %}none{% endfor %}{% for a in [1] %}x{% else %}none{% endfor %}{% for a in x %}x{% else %}none{% endfor %}
{% for a in [1, 2, 3, 4] if a is even %}{{ a }}{{ loop.index }}{{ loop.last }}{% else %}none{% endfor %}{% for a in [1] if a > 1 %}x{% else %}none{% endfor %}
{% for a, b in {'x': 1, 'y': 2}.items() %}{{ a }}={{ b }},{% endfor %}{% for (a, b) in [[1, 2]] %}{{ a }}{{ b }}{% endfor %}{% for a in {'x': 1} %}{{ a }}{% endfor %}{% for c in 'hé' %}{{ c }}.{% endfor %}
{% for a in [1, 2, 3, 4] %}{% if a == 2 %}{% continue %}{% endif %}{% if a == 4 %}{% break %}{% endif %}{{ a }}{% else %}none{% endfor %}
{% for a in [1, 2] %}{% for b in [1, 2, 3] %}{% if b == 2 %}{% break %}{% endif %}{{ a }}{{ b }}{{ loop.index }}{% endfor %}{{ loop.index }};{% endfor %}
{% for a in [1, 2, 3] %}{% set c %}[{% if a == 2 %}{% continue %}{% endif %}{{ a }}]{% endset %}{{ c }}{% endfor %}
{% set x = 1 %}{% for a in [1, 2] %}{{ x }}{% set x = 5 %}{{ x }}{% endfor %}{{ x }}{% if 1 %}{% set x = 7 %}{% endif %}{{ x }}
{% set ns = namespace(found=false, n=0) %}{% for a in [1, 2] %}{% set ns.found = true %}{% set ns.n = ns.n + a %}{% set ns.new = a %}{% endfor %}{{ ns.found }}{{ ns.n }}{{ ns.new }}
{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = [b, a] %}{{ a }}{{ b }}{% set c = (1, 2) %}{{ c }}{% set d = 1, %}{{ d }}
{% set a %}x{{ 1 }}y{% endset %}{{ a }}{% set b | upper %}abc{% endset %}{{ b }}{% set c | trim | length %}  ab {% endset %}{{ c + 1 }}
{% set ns = namespace() %}{% set ns.a %}block{% endset %}{{ ns.a }}
{% macro f(a, b='d', c=none) %}[{{ a }}|{{ b }}|{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(b=3, a=1) }}{{ f() }}{{ f(1, c='x') ~ 'y' }}{{ f(1) | length }}
{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}
{% set g = 'out' %}{% macro f() %}{{ g }}{% set g = 'in' %}{{ g }}{% endmacro %}{{ f() }}{{ g }}{% set g = 'later' %}{{ f() }}
{% macro f(x) %}{% for i in x %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}{% endmacro %}{% for j in [1, 2] %}{{ f([1, 2, 3]) }}{{ j }}{% endfor %}
{% macro f() %}<{{ caller() }}>{% endmacro %}{% call f() %}in{{ 1 }}{% endcall %}{% for a in [1, 2] %}{% call f() %}{{ a }}{% endcall %}{% endfor %}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}
{% macro f(a) %}{{ a }}{% endmacro %}{{ f(b=2) }}
{% macro f(a) %}{{ a is defined }}{% endmacro %}{{ f() }}{{ f(none) }}{% set a = 'outer' %}{{ f() }}
{% macro outer() %}{% macro inner() %}i{% endmacro %}{{ inner() }}{{ inner() }}{% endmacro %}{{ outer() }}
{% filter upper %}abc{{ 'd' }}{% endfilter %}{% filter trim | replace('a', 'c') %}  ab {% endfilter %}{% filter replace('a', 'b') %}aa{% endfilter %}
{% with a = 1, b = 2 %}{{ a }}{{ b }}{% set c = 3 %}{{ c }}{% endwith %}{{ a }}{{ c }}{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}
{% generation %}a{% set z = 1 %}{{ z }}{% endgeneration %}{{ z }}
{% raw %}{{ x }}{% if %}{% endraw %}|{% raw -%}  a  {%- endraw %}|
  {% raw %}  a  {% endraw %}  b
{# comment #}a{#- x -#}  b  {#- y #}c {# z -#} d{##}e
a {%- if 1 %} b {% endif -%} c
a {%- if 1 -%} b {%- endif -%} c
  {% if 1 %}\n  a\n  {% endif %}\n  b
  {%+ if 1 %}\n  a\n  {%+ endif +%}\n  b\n
\n\n{% set x = 1 %}\n\n{{ x }}\n\n
a\n  {{ 1 }}\n  {# c #}\n  {{- 2 }}\n {{ 3 -}}  \n x
{%- for a in [1, 2] %}\n    {{- a }}\n{% endfor %}\nend\n
{%- for a in [1, 2] -%}\n    {{ a }}\n    {%- if a == 1 %},{% endif %}\n{%- endfor %}
a{% if 1 %}\n\nb{% endif %}\n{% if 1 %}  \nc{% endif %}  \n
a\t {% if 1 %}\tb{% endif %}\t{% if 1 %} {% endif %}\n \t{% if 1 %}c{% endif %}
{{ '\\n' }}{{ "a\nb" }}{{ 'é' }}é
{{ {'a': {'b': 1}} }}{{ {'a': {}}['a'] }}{{ {}}}
{%if 1%}x{%endif%}{{1}}{{-1}}{{ -1 }}{{ - 1 -}} y
{{ 1 }}}}{ {% if 1 %}%}{% endif %}{ { % #} }}
{% set m = [{'role': 'user', 'content': 'Hi'}, {'role': 'assistant', 'content': None}] %}{% for x in m %}{{ x['role'] }}:{{ x.content or '' }};{% endfor %}{{ m | map(attribute='role') | join(',') }}{{ m[-1].role }}{{ m[1:] | length }}
{% for a in [1, 2, 3] %}{{ loop.cycle('x', 'y') }}{% endfor %}
{% set x = [] %}{% for a in [1, 2] %}{% set x = x + [a] %}{{ x }}{% endfor %}{{ x }}
{% for a in [[1, 2], [3, 4]] %}{% for b in a %}{{ loop.index }}{{ b }}{% endfor %}{{ loop.last }}{% endfor %}
{% if a is defined and a.b %}x{% endif %}{% if not a %}y{% endif %}{% if a is not defined or a.b %}z{% endif %}
{% set x = 'a' if 0 %}{{ x is defined }}{{ x }}{% set y = (1 if 1 else 2) + 1 %}{{ y }}
{% for m in [1, 2] %}{% if loop.last %}last{% endif %}{% if loop.index0 == 0 and m %}first{% endif %}{% if (m == 1) != (loop.index0 % 2 == 0) %}bad{% endif %}{% endfor %}
{% set d = {'type': 'object', 'n': {'a': [1, 2]}} %}{% for k, v in d | dictsort %}{{ k }}={{ v }}{% if v is mapping %}map{% endif %}{% endfor %}{{ d | tojson }}
{% for i in range(3) %}{{ i }}{% if not loop.last %}, {% endif %}{% endfor %}{% for i in range(2, -1, -1) %}{{ i }}{% endfor %}
{% for x in 5 %}{% endfor %}
{% for a, b in [[1, 2, 3]] %}{% endfor %}
{% for a in loop %}{% endfor %}
{{ loop }}
{% set x.y = 1 %}
{% set x = {} %}{% set x.y = 1 %}
{% macro f() %}{% break %}{% endmacro %}
{% if 1 %}
{% endif %}
{% for a in %}{% endfor %}
{% for in [1] %}{% endfor %}
{{ 1 }
{{ 'a
{# a
{% raw %}a
{% nothing %}
{{ }}
{% set = 1 %}
{% if %}{% endif %}
{% else %}
""".strip("\n").split("\n")

# What jinja2 writes and the interpreter says that it does not know.
KNOWN_GAPS = []

MESSAGES = {
    "plain": [("user", "Hi"), ("assistant", "Hello!"), ("user", "  And\n? ")],
    "system": [("system", "Be brief."), ("user", "Hi")],
    "thinking": [("system", "s"), ("user", "a"), ("assistant", "<think>\nhm\n</think>\n\nb"), ("user", "c")],
    "answered": [("user", "a"), ("assistant", "b")],
    "odd": [("user", "a"), ("user", "é一"), ("system", "late"), ("assistant", "")],
}
TOOL = {"type": "function", "function": {"name": "now", "description": "The time.",
                                         "parameters": {"type": "object", "properties": {
    "zone": {"type": "string", "enum": ["a", "b"], "description": "Where"},
    "n": {"type": ["integer", "null"]}, "list": {"type": "array", "items": {"type": "string"}}},
    "required": ["zone"]}}}
CALLS = [{"role": "user", "content": "Time?"}, {"role": "assistant", "content": "",
                                                "tool_calls": [{"type": "function", "id": "abcdefghi",
                                                                "function": {
    "name": "now", "arguments": {"zone": "a", "n": 1}}}]}, {"role": "tool", "name": "now",
                                                            "tool_call_id": "abcdefghi", "content": "12:00"}]


PARTS = [{"type": "text", "text": "Hi"}, {"type": "text", "text": " there é"}]
TURNS = [{"role": "user" if i % 2 == 0 else "assistant", "content": f"Turn {i}: \U0001f600 <b>\n\ttext{i}"}
         for i in range(200)]
FUNCTION = {"name": "now", "arguments": {"zone": "a", "n": 1, "deep": {"x": [1.5, None, True, "é\"\\"]}}}
REASONED = [{"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "b", "reasoning_content": "hm", "thinking": "hm"},
            {"role": "user", "content": "?"},
            {"role": "assistant", "content": "<think>\na\n</think>\n\nc", "reasoning_content": ""}]
STRINGS = [dict(CALLS[0]), {"role": "assistant", "content": None, "tool_calls": [
    {"type": "function", "id": f"call{i:05}", "function": {"name": "now", "arguments": '{"zone": "a"}'}}
    for i in range(2)]},
    *({"role": "tool", "tool_call_id": f"call{i:05}", "content": f"{i}:00"} for i in range(2)),
    {"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks"}]
DOCUMENTS = [{"title": "T", "text": "Long é text", "doc_id": 1}, {"title": "U", "text": "", "doc_id": 2}]
KWARGS = [{}, {"enable_thinking": False}, {"enable_thinking": True}, {"thinking": True},
          {"reasoning_effort": "high"},
          {"custom_tools": [TOOL]}, {"builtin_tools": ["brave_search"]}, {"date_string": "1 Jan 2025"},
          {"documents": DOCUMENTS}, {"continue_final_message": True}, {"tools_in_user_message": False},
          {"model_identity": "You are X."}, {"keep_past_thinking": True}, {"xml_tools": [TOOL]},
          {"clear_thinking": False}, {"preserve_thinking": True}, {"controls": {"length": "short"}}]


def messages():
    """Conversations, each as a name and a list of messages."""
    for name, pairs in MESSAGES.items():
        yield name, [{"role": r, "content": c} for r, c in pairs]
    yield "empty", []
    yield "parts", [{"role": "user", "content": PARTS}]
    yield "parts and system", [{"role": "system", "content": PARTS}, {"role": "user", "content": PARTS},
                               {"role": "assistant", "content": PARTS}, {"role": "user", "content": "x"}]
    yield ("image", [{"role": "user",
                      "content": [{"type": "image"}, *PARTS, {"type": "audio"}, {"type": "video"}]}])
    yield "calls", CALLS
    yield "calls as text", STRINGS
    yield "deep call", [CALLS[0], {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "id": "abcdefghi", "function": FUNCTION}]}, CALLS[2],
        {"role": "user", "content": "ok"}]
    yield "bare call", [CALLS[0], {"role": "assistant", "tool_calls": [FUNCTION]}, CALLS[2]]
    yield "reasoning", REASONED
    yield ("called while thinking",
           [CALLS[0], {**CALLS[1], "reasoning_content": "hm", "thinking": "hm"}, CALLS[2]])
    yield "no content", [{"role": "user"}, {"role": "assistant", "content": None}]
    yield "unknown role", [{"role": "developer", "content": "d"}, {"role": "critic", "content": "x"}]
    yield "200 turns", TURNS


def conversations():
    """Variables for a template, each as a name and a dict."""
    other = {**TOOL, "function": {"name": "é", "parameters": {}}}
    for name, talk in messages():
        for generate in (True, False):
            for tools in ([None, [TOOL], [TOOL, other]] if "call" in name else [None, [TOOL]]):
                yield (f"{name}, {generate}, {len(tools or [])} tools",
                       {"messages": talk, "add_generation_prompt": generate}
                       | ({"tools": tools} if tools else {}))
    for kwargs in KWARGS:
        for name, talk in messages():
            if name in ("system", "calls", "reasoning"):
                yield f"{name}, {kwargs}", {"messages": talk, "add_generation_prompt": name != "reasoning",
                                            "tools": [TOOL] if name == "calls" else None, **kwargs}


def request(source, variables):
    """What jinja_test --render reads."""
    source, variables = source.encode(), variables.encode()
    return b"%d %d\n%s%s" % (len(source), len(variables), source, variables)


def parts(data):
    """Answers of jinja_test: status and text."""
    while data:
        status, size, data = data.split(b" ", 2)
        yield status.decode(), data[:int(size)].decode()
        data = data[int(size):]


def theirs(source, **variables):
    try:
        return template(source).render(**variables)
    except Exception as e:      # whatever Python raises on the way is a refusal
        return e


# What docs/chat.md says is refused.
REFUSED = {"random", "urlize", "lipsum", "include", "import", "from", "extends", "autoescape", "encode",
           "translate", "maketrans"}


def check_names(program):
    """Everything that jinja2 has by a name is known, or refused by that name and in the documentation."""
    env, sources = environment(), {}
    sources |= {name: "{%% set y = x | %s %%}" % name for name in env.filters}
    sources |= {name + "()": "{%% set y = %s() %%}" % name for name in env.globals}
    sources |= {"." + name: "{{ 'a'.%s() }}" % name for name in dir(str) if name[0] != "_"}
    sources |= {"is " + name: "{{ x is %s }}" % name for name in env.tests if name.isalpha()}
    sources |= {"% " + name: "{%% %s 'a' as b %%}" % name for name in
                ("include", "import", "from", "extends", "autoescape", "if", "for", "set", "macro", "call",
                 "filter", "with", "block", "print")}
    asked = b"".join(request(source, '{"x": 1}') for source in sources.values())
    answers = list(parts(subprocess.run([program, "--render"], input=asked, capture_output=True,
                                        check=True).stdout))
    unknown = {name.strip(".()% ") for name, (status, text) in zip(sources, answers)
               if status == "QSF_E_UNSUPPORTED" or re.search(r"unknown \w+: ", text)}
    for name, (status, text) in zip(sources, answers):
        if status == "QSF_E_UNSUPPORTED" and name.strip(".()% ") not in text:
            print(f"FAIL {name}: {text}")
            return False
    told = (TESTS.parent / "docs" / "chat.md").read_text(encoding="utf-8")
    bad = [name for name in sorted(unknown ^ REFUSED)] + [n for n in REFUSED if f"`{n}`" not in told]
    for name in bad:
        print(f"FAIL {name}: is it refused, and does docs/chat.md say so?")
    return not bad


def large():
    """30 KB of what templates do, nearly all of it run for each of 50 messages."""
    source = ("{% macro show(m) %}{{ m.content | trim }}{% endmacro %}{% set ns = namespace(n=0) %}"
              "{% for m in messages %}")
    for i in range(150):
        source += ("{%%- if m.role == 'role%d' or m['kind'] is defined and loop.last %%}\n"
                   "    {{- '<|%d|>' + m.role + '\\n' ~ show(m) }}{%% set ns.n = ns.n + 1 %%}\n"
                   "{%%- elif m.tool_calls %%}{{ m | tojson(indent=2) }}{%% endif %%}\n" % (i, i))
    return source + "{{ m.role }}: {{ show(m) }}\n{% endfor %}", {"messages": [
        {"role": "user", "content": "Some words, and some more of them."}] * 50}


def check_speed(program):
    """Our time is that of a processor, the best of several; so is theirs."""
    source, variables = large()
    ours = int(subprocess.run([program, "--time"], input=request(source, json.dumps(variables)), check=True,
                              capture_output=True).stdout)
    best = 1e9
    for _ in range(3):
        begin = time.process_time()
        theirs(source, **variables)
        best = min(best, time.process_time() - begin)
    print(f"{len(source)} bytes, 50 messages: {ours / 1000:.2f} ms, {best * 1000:.2f} ms in jinja2")
    return not ours or 5 * ours < best * 1e6


def main():
    p = argparse.ArgumentParser()
    p.add_argument("jinja_test")
    p.add_argument("--shared", default=os.environ.get("QSF_SHARED_DIR", str(TESTS.parent.parent / "shared")))
    p.add_argument("--random", type=int, default=1200, help="so many random templates")
    p.add_argument("--verbose", action="store_true")
    o = p.parse_args()
    cases = [(source, source, {}) for source in ["{{ %s }}" % e.strip() for e in EXPRESSIONS if e.strip()] +
             [t.replace("\\n", "\n").replace("\\t", "\t").replace("\\\n", "\\n") for t in TEMPLATES]]
    shared = pathlib.Path(o.shared) / "data" / "templates"
    for path in [*sorted(shared.glob("*.jinja")), *sorted((TESTS / "golden" / "templates").glob("*.jinja"))]:
        source = path.read_text(encoding="utf-8")
        for name, variables in conversations():
            cases.append((f"{path.name}, {name}", source,
                          variables | {"bos_token": "<s>", "eos_token": "</s>"}))
    for seed in range(o.random):
        maker = jinja_random.Maker(seed)
        source = "{{ %s }}" % maker.expression() if seed % 3 else maker.template()
        cases.append((f"random {seed}: {source}", source, jinja_random.VARIABLES))
    asked = b"".join(request(source, json.dumps(variables, ensure_ascii=i % 2 == 0))
                     for i, (_, source, variables) in enumerate(cases))
    answers = list(parts(subprocess.run([o.jinja_test, "--render"], input=asked, capture_output=True,
                                        check=True).stdout))
    if len(answers) != len(cases):
        sys.exit(f"{len(answers)} answers to {len(cases)} templates")
    failed = unsupported = 0
    for (name, source, variables), answer in zip(cases, answers):
        want = theirs(source, **json.loads(json.dumps(variables)))      # some filters change a list
        status, text = answer
        refused = isinstance(want, Exception)
        known = name.startswith("random") or refused or any(gap in name for gap in KNOWN_GAPS)
        if status == "QSF_E_UNSUPPORTED" and known:
            unsupported += 1
            if o.verbose:
                print(f"UNSUPPORTED {name}\n     {text}\n     theirs {want!r}")
        elif refused != (status != "QSF_OK") or (not refused and text != want):
            failed += 1
            print(f"FAIL {name[:2000]}\n     ours   {status} {text!r}\n     theirs {want!r}")
    print(f"{len(cases)} compared, {failed} failed, {unsupported} are not supported")
    if not check_speed(o.jinja_test):
        failed += 1
        print("FAIL that takes too long")
    failed += not check_names(o.jinja_test)
    sys.exit(1 if failed or (len(cases) < 5000 and os.environ.get("QSF_TEST_NO_SKIP")) else 0)


main()
