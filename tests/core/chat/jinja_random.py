"""Random Jinja expressions and templates from a seed, for jinja_exact.py.
SPDX-License-Identifier: MIT"""
import random, re

LEAVES = """1 0 7 -3 2.5 -0.5 100 1e3 0.1 true false none x y n f t u l d m e
'' 'a' 'Ab c' ' x ' 'a-b_c' '12' '-4' '3.7' 'é一' 'a,b,,c' 'line\\nnext\\n' '<b>&' "it's" '%s-%d' 'abc' 'ABC' 'a1'
[] [1,2,3] ['b','A','c'] [3,1,2] [[1,2],[3,4]] (1,2) () {} {'a':1} {'b':2,'a':[1,none]} [none,0,''] 'Hello World'
range(3) [1.5,2] {'a':{'b':3}} ['a','b','a'] [{'k':1},{'k':2,'v':'x'}] m[0] d.a l[0] l[-1] t[1:] t[0]""".split()
LEAVES = [leaf for leaf in LEAVES if leaf not in ("'Hello", "World'", "'Ab", "c'", "'", "x", "x'")] + [
    "'Hello World'", "'Ab c'", "' x '", "x"]

ARGUMENTS = {
    "attr": ["'a'", "'items'", "'upper'"], "batch": ["2", "3,'-'", "linecount=2"],
    "center": ["", "9", "width=4"],
    "d": ["", "'z'", "'z',true", "1,boolean=true"], "default": ["'z'", "0,true"],
    "dictsort": ["", "true", "by='value'", "reverse=true", "false,'value',true"],
    "filesizeformat": ["", "true"],
    "float": ["", "1.5", "default=2"], "format": ["", "1", "'a',2", "a=1"],
    "groupby": ["'k'", "0", "'v',default='q'", "'k',case_sensitive=true"],
    "indent": ["", "2", "2,true", "width=1,blank=true", "'> '", "first=true"],
    "int": ["", "5", "default=-1", "0,16", "base=8"], "join": ["", "','", "'-',attribute='k'", "d=1"],
    "map": ["'upper'", "attribute='k'", "attribute='v',default='-'", "'string'", "'int'", "'default','q'",
            "'trim'",
            "'length'", "'replace','a','b'", "'list'", "'first'", "'tojson'", "'abs'", ""],
    "max": ["", "attribute='k'", "true"], "min": ["", "case_sensitive=true"],
    "reject": ["", "'odd'", "'string'", "'gt',1", "'in',[1,2]"],
    "select": ["", "'even'", "'defined'", "'ne','a'"],
    "rejectattr": ["'k'", "'k','eq',1", "'v','undefined'"],
    "selectattr": ["'k'", "'v','defined'", "'k','ge',2", "0"],
    "replace": ["'a','b'", "'a','b',1", "'','-'", "old='b',new='c'", "'b',3"],
    "round": ["", "1", "2,'floor'", "method='ceil'", "0,'common'"], "slice": ["2", "3,'-'", "slices=2"],
    "sort": ["", "true", "false,true", "attribute='k'", "attribute='k,v'",
             "reverse=true,case_sensitive=true"],
    "sum": ["", "'k'", "start=2", "attribute='k',start=1.5"],
    "tojson": ["", "true", "indent=2", "indent=0", "separators=(',',':')", "sort_keys=true", "indent='--'"],
    "trim": ["", "'a'", "chars=' x'", "none"],
    "truncate": ["5", "3,true", "length=4,end='.'", "6,true,'',0", "2", "5,leeway=0", ""],
    "unique": ["", "true", "attribute='k'"], "wordwrap": ["", "5", "3,false", "4,wrapstring='|'", "width=6"],
    "xmlattr": ["", "false"],
}
FILTERS = """abs attr batch capitalize center count d default dictsort e escape filesizeformat first float forceescape
format groupby indent int items join last length list lower map max min reject rejectattr replace reverse round
safe select selectattr slice sort string striptags sum title tojson trim truncate unique upper urlencode
wordcount wordwrap xmlattr""".split()

METHODS = {
    "capitalize": [""], "casefold": [""], "center": ["8", "7,'*'"], "count": ["'a'", "1", "'',1", "'a',0,2"],
    "endswith": ["'c'", "('a','c')", "'b',1"], "expandtabs": ["", "4"],
    "find": ["'b'", "'',1", "'b',1,2", "'b',-2"],
    "format": ["1,'a'", "", "a=1"], "index": ["'b'", "1", "'c',1"], "isalnum": [""], "isalpha": [""],
    "isascii": [""], "isdecimal": [""], "isdigit": [""], "isidentifier": [""], "islower": [""],
    "isnumeric": [""],
    "isprintable": [""], "isspace": [""], "istitle": [""], "isupper": [""],
    "join": ["l", "'abc'", "['a','b']", "d"],
    "ljust": ["6", "5,'.'"], "lower": [""], "lstrip": ["", "'a '"], "partition": ["'b'", "' '"],
    "removeprefix": ["'a'"], "removesuffix": ["'c'"], "replace": ["'a','xy'", "'b','',1", "'','.'"],
    "rfind": ["'a'", "'',1"], "rindex": ["'b'"], "rjust": ["6", "5,'é'"], "rpartition": ["' '", "','"],
    "rsplit": ["", "','", "' ',1", "none,1", "maxsplit=1"], "rstrip": ["", "'\\n'"],
    "split": ["", "','", "',',1", "none,1", "sep='-'"], "splitlines": ["", "true"],
    "startswith": ["'a'", "('x','a')"],
    "strip": ["", "' x'", "none"], "swapcase": [""], "title": [""], "upper": [""], "zfill": ["5"],
    "get": ["'a'", "'q','z'", "1", "'a',2"], "items": [""], "keys": [""], "values": [""], "copy": [""],
    "append": ["1"], "pop": ["", "'a'"], "update": ["d"],
}
TESTS = """boolean callable defined even escaped false filter float integer iterable lower mapping none number odd
sequence string true undefined upper test""".split() + ["divisibleby 2", "eq 1", "in [1,'a',none]", "sameas none",
                                                        "gt 1", "le(2)", "ne 'a'"]
OPERATORS = "+ - * / // % ** ~ == != < <= > >= and or in".split() + ["not in"]
FORMATS = """%s %d %5d %-5d| %05d %+d %x %#x %X %o %c %% %r %.2f %8.3f %e %g %G %i %u %.3d %5s| %-5s| %.2s %(a)s
%*d %f %.0f %10.4e %#o %#.3g""".split()
BRACES = """{} {0} {a} {!r} {:5} {:>5} {:<5}| {:^7} {:*^7} {:05} {:+} {:,} {:x} {:#x} {:b} {:.2f} {:8.3f} {:e} {:g} {:%}
{:.2} {{}} {:_} {0}{0} {:{}} {a[k]} {:d} {:s} {:>{}} {:.1%} {:=+6}""".split()

VARIABLES = {
    "n": 12, "f": 0.30000000000000004, "t": "Some <text>, é\n", "u": "UPPER lower 12",
    "l": [1, "two", None, 3.0, True],
    "d": {"b": 2, "a": "x", "items": 1, "C": [1]}, "e": {}, "big": 123456789012345678901234567890,
    "m": [{"role": "user", "content": "Hi <|x|>", "k": 2, "v": "b"},
          {"role": "bot", "content": None, "k": 1, "v": "A"}],
}


EXPRESSION_FORMS = [
    "($E) is {test}", "($E) is not {test}", "(x or $E)[{index}]", "'{format}' % ($E)",
    "'{format}{format}' % ($E, $E)",
    "'{braces}'.format($E, 3)", "'{braces}'.format($E, $E)", "'{format}' % {number}",
    "'{braces}'.format({number}, 9)",
]
OTHER_FORMS = ["$E if $E else $E", "[$E, $E]", "{'k': $E, 'v': $E}", "-($E)", "not ($E)",
               "($E) < ($E) <= ($E)", "($E,)"]
CHOICES = {
    "test": TESTS, "format": FORMATS, "braces": BRACES,
    "index": ["0", "-1", "1:", ":-1", "::-1", "::2", "'a'", "5", "1:2", "n", ":0"],
    "number": ["n", "f", "-7", "255", "3.14159", "big", "1e10", "0.5", "1234567", "true"],
    "filter": ["upper", "trim", "length", "indent(1)", "title"], "leave": ["break", "continue"],
}
# "<%" and "%>" are tags with any sign, $E an expression, $B statements.
STATEMENTS = [
    "<% for i in $E %>$B{{ loop.index }}<% else %>$B<% endfor %>",
    "<% for i in $E if $E %>{{ loop.last }}$B<% endfor %>",
    "<% for i, j in $E %>{{ i }}$B<% endfor %>",
    "<% if $E %>$B<% elif $E %>$B<% else %>$B<% endif %>",
    "<% set x = $E %>$B{{ x }}", "<% set y %>$B<% endset %>{{ y }}",
    "<% set y | {filter} %>$B<% endset %>{{ y }}",
    "<% macro g(x, y=$E) %>{{ x }}$B{{ y }}<% endmacro %>{{ g($E) }}",
    "<% macro g(x) %>{{ caller(x) }}<% endmacro %><% call(i) g($E) %>$B<% endcall %>",
    "<% filter {filter} %>$B<% endfilter %>",
    "<% with x = $E, y = x %>$B{{ y }}<% endwith %>",
    "<% set ns = namespace(a=$E) %><% for i in [1, 2] %><% set ns.a = $E %><% endfor %>{{ ns.a }}",
    "<% for i in [1,2,3] %><% if i == 2 %><% {leave} %><% endif %>$B<% endfor %>",
    "<% for i in [[1, [2]], 3] recursive %>{{ loop.depth }}<% if i is iterable %>{{ loop(i) }}"
    "<% else %>{{ i }}<% endif %><% endfor %>",
    "<% generation %>$B<% endgeneration %>", "<% print $E, $E %>", "{% raw %}{{ x }}{% endraw %}",
]


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def fill(self, form, expression, body=None):
        """The form with something at every place."""
        r = self.random
        begin = r.choice(["{%", "{%-", "{%+", "  {%"])
        end = r.choice(["%}", "-%}", "+%}", "%}\n"])
        form = form.replace("<%", begin).replace("%>", end)
        form = re.sub(r"\{(\w+)\}", lambda m: r.choice(CHOICES[m[1]]) if m[1] in CHOICES else m[0], form)
        return re.sub(r"\$[EB]", lambda m: expression() if m[0] == "$E" else body(), form)

    def expression(self, depth=3):
        r = self.random
        kind = r.randrange(10) if depth else 0
        inner = lambda: self.expression(depth - 1)
        if kind < 2:
            return r.choice(LEAVES)
        if kind < 5:
            name = r.choice(FILTERS)
            args = r.choice(ARGUMENTS.get(name, [""]))
            return f"({inner()})|{name}" + (f"({args})" if args or r.random() < 0.1 else "")
        if kind < 7:
            name = r.choice(list(METHODS))
            return f"({inner()}).{name}({r.choice(METHODS[name])})"
        if kind == 7:
            op = r.choice(OPERATORS)
            return f"({inner()}) {op} ({r.choice(['2', '-1', '0.5', '3']) if op == '**' else inner()})"
        return self.fill(r.choice(EXPRESSION_FORMS if kind == 8 else OTHER_FORMS), inner)

    def statement(self, depth):
        r = self.random
        if depth and r.random() < 0.7:
            return self.fill(r.choice(STATEMENTS), lambda: self.expression(2), lambda: self.body(depth - 1))
        if r.random() < 0.5:
            return "{{ %s }}" % self.expression(2)
        return r.choice(["a", " b\n", "\n", " ", "{# c #}", "  {#- d -#} "])

    def body(self, depth):
        return "".join(self.statement(depth) for _ in range(self.random.randrange(1, 3)))

    def template(self):
        return self.body(self.random.choice([1, 2, 2, 3]))
