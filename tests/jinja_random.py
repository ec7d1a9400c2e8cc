"""Random Jinja expressions and templates from a seed, for jinja_exact.py.
SPDX-License-Identifier: MIT"""
import random

LEAVES = """1 0 7 -3 2.5 -0.5 100 1e3 0.1 true false none x y n f t u l d m e
'' 'a' 'Ab c' ' x ' 'a-b_c' '12' '-4' '3.7' 'é一' 'a,b,,c' 'line\\nnext\\n' '<b>&' "it's" '%s-%d' 'abc' 'ABC' 'a1'
[] [1,2,3] ['b','A','c'] [3,1,2] [[1,2],[3,4]] (1,2) () {} {'a':1} {'b':2,'a':[1,none]} [none,0,''] 'Hello World'
range(3) [1.5,2] {'a':{'b':3}} ['a','b','a'] [{'k':1},{'k':2,'v':'x'}] m[0] d.a l[0] l[-1] t[1:] t[0]""".split()
LEAVES = [leaf for leaf in LEAVES if leaf not in ("'Hello", "World'", "'Ab", "c'", "'", "x", "x'")] + [
    "'Hello World'", "'Ab c'", "' x '", "x"]

ARGUMENTS = {
    "attr": ["'a'", "'items'", "'upper'"], "batch": ["2", "3,'-'", "linecount=2"], "center": ["", "9", "width=4"],
    "d": ["", "'z'", "'z',true", "1,boolean=true"], "default": ["'z'", "0,true"],
    "dictsort": ["", "true", "by='value'", "reverse=true", "false,'value',true"], "filesizeformat": ["", "true"],
    "float": ["", "1.5", "default=2"], "format": ["", "1", "'a',2", "a=1"],
    "groupby": ["'k'", "0", "'v',default='q'", "'k',case_sensitive=true"],
    "indent": ["", "2", "2,true", "width=1,blank=true", "'> '", "first=true"],
    "int": ["", "5", "default=-1", "0,16", "base=8"], "join": ["", "','", "'-',attribute='k'", "d=1"],
    "map": ["'upper'", "attribute='k'", "attribute='v',default='-'", "'string'", "'int'", "'default','q'", "'trim'",
            "'length'", "'replace','a','b'", "'list'", "'first'", "'tojson'", "'abs'", ""],
    "max": ["", "attribute='k'", "true"], "min": ["", "case_sensitive=true"],
    "reject": ["", "'odd'", "'string'", "'gt',1", "'in',[1,2]"], "select": ["", "'even'", "'defined'", "'ne','a'"],
    "rejectattr": ["'k'", "'k','eq',1", "'v','undefined'"], "selectattr": ["'k'", "'v','defined'", "'k','ge',2", "0"],
    "replace": ["'a','b'", "'a','b',1", "'','-'", "old='b',new='c'", "'b',3"],
    "round": ["", "1", "2,'floor'", "method='ceil'", "0,'common'"], "slice": ["2", "3,'-'", "slices=2"],
    "sort": ["", "true", "false,true", "attribute='k'", "attribute='k,v'", "reverse=true,case_sensitive=true"],
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
    "endswith": ["'c'", "('a','c')", "'b',1"], "expandtabs": ["", "4"], "find": ["'b'", "'',1", "'b',1,2", "'b',-2"],
    "format": ["1,'a'", "", "a=1"], "index": ["'b'", "1", "'c',1"], "isalnum": [""], "isalpha": [""],
    "isascii": [""], "isdecimal": [""], "isdigit": [""], "isidentifier": [""], "islower": [""], "isnumeric": [""],
    "isprintable": [""], "isspace": [""], "istitle": [""], "isupper": [""], "join": ["l", "'abc'", "['a','b']", "d"],
    "ljust": ["6", "5,'.'"], "lower": [""], "lstrip": ["", "'a '"], "partition": ["'b'", "' '"],
    "removeprefix": ["'a'"], "removesuffix": ["'c'"], "replace": ["'a','xy'", "'b','',1", "'','.'"],
    "rfind": ["'a'", "'',1"], "rindex": ["'b'"], "rjust": ["6", "5,'é'"], "rpartition": ["' '", "','"],
    "rsplit": ["", "','", "' ',1", "none,1", "maxsplit=1"], "rstrip": ["", "'\\n'"],
    "split": ["", "','", "',',1", "none,1", "sep='-'"], "splitlines": ["", "true"], "startswith": ["'a'", "('x','a')"],
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
    "n": 12, "f": 0.30000000000000004, "t": "Some <text>, é\n", "u": "UPPER lower 12", "l": [1, "two", None, 3.0, True],
    "d": {"b": 2, "a": "x", "items": 1, "C": [1]}, "e": {}, "big": 123456789012345678901234567890,
    "m": [{"role": "user", "content": "Hi <|x|>", "k": 2, "v": "b"}, {"role": "bot", "content": None, "k": 1, "v": "A"}],
}


class Maker:
    def __init__(self, seed):
        self.random = random.Random(seed)

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
            if op == "**":
                return f"({inner()}) ** {r.choice(['2', '-1', '0.5', '3'])}"
            return f"({inner()}) {op} ({inner()})"
        if kind == 8:
            return r.choice([
                lambda: f"({inner()}) is {r.choice(['', 'not '])}{r.choice(TESTS)}",
                lambda: f"(x or {inner()})[{r.choice(['0', '-1', '1:', ':-1', '::-1', '::2', repr('a'), '5', '1:2', 'n', ':0'])}]",
                lambda: f"'{r.choice(FORMATS)}' % ({inner()})",
                lambda: f"'{r.choice(FORMATS)}{r.choice(FORMATS)}' % ({inner()}, {inner()})",
                lambda: f"'{r.choice(BRACES)}'.format({inner()}, {r.choice(['3', inner()])})",
                lambda: f"'{r.choice(FORMATS)}' % {r.choice(['n', 'f', '-7', '255', '3.14159', 'big', '1e10', '0.5'])}",
                lambda: f"'{r.choice(BRACES)}'.format({r.choice(['n', 'f', '-7', '1234567', '3.14159', '1e10', 'true'])}, 9)",
            ])()
        return r.choice([
            lambda: f"{inner()} if {inner()} else {inner()}", lambda: f"[{inner()}, {inner()}]",
            lambda: f"{{'k': {inner()}, 'v': {inner()}}}", lambda: f"-({inner()})", lambda: f"not ({inner()})",
            lambda: f"({inner()}) < ({inner()}) <= ({inner()})", lambda: f"({inner()},)"])()

    def template(self):
        r = self.random
        e = lambda: self.expression(2)
        body = lambda n: "".join(statement(n) for _ in range(r.randrange(1, 3)))

        def statement(n):
            forms = [lambda: "{{ %s }}" % e(), lambda: r.choice(["a", " b\n", "\n", " ", "{# c #}", "  {#- d -#} "])]
            if n:
                inside = lambda: body(n - 1)
                a, b = r.choice(["{%", "{%-", "{%+", "  {%"]), r.choice(["%}", "-%}", "+%}", "%}\n"])
                forms += [
                    lambda: f"{a} for i in {e()} {b}{inside()}{{{{ loop.index }}}}{a} else {b}{inside()}{a} endfor {b}",
                    lambda: f"{a} for i in {e()} if {e()} {b}{{{{ loop.last }}}}{inside()}{a} endfor {b}",
                    lambda: f"{a} for i, j in {e()} {b}{{{{ i }}}}{inside()}{a} endfor {b}",
                    lambda: f"{a} if {e()} {b}{inside()}{a} elif {e()} {b}{inside()}{a} else {b}{inside()}{a} endif {b}",
                    lambda: f"{a} set x = {e()} {b}{inside()}{{{{ x }}}}", lambda: f"{a} set y {b}{inside()}{a} endset {b}{{{{ y }}}}",
                    lambda: f"{a} set y | {r.choice(['upper', 'trim', 'length'])} {b}{inside()}{a} endset {b}{{{{ y }}}}",
                    lambda: f"{a} macro g(x, y={e()}) {b}{{{{ x }}}}{inside()}{{{{ y }}}}{a} endmacro {b}{{{{ g({e()}) }}}}",
                    lambda: f"{a} macro g(x) {b}{{{{ caller(x) }}}}{a} endmacro {b}{a} call(i) g({e()}) {b}{inside()}{a} endcall {b}",
                    lambda: f"{a} filter {r.choice(['upper', 'trim', 'indent(1)', 'length', 'title'])} {b}{inside()}{a} endfilter {b}",
                    lambda: f"{a} with x = {e()}, y = x {b}{inside()}{{{{ y }}}}{a} endwith {b}",
                    lambda: f"{a} set ns = namespace(a={e()}) {b}{a} for i in [1, 2] {b}{a} set ns.a = {e()} {b}{a} endfor {b}{{{{ ns.a }}}}",
                    lambda: f"{a} for i in [1,2,3] {b}{a} if i == 2 {b}{a} {r.choice(['break', 'continue'])} {b}{a} endif {b}{inside()}{a} endfor {b}",
                    lambda: f"{a} for i in [[1, [2]], 3] recursive {b}{{{{ loop.depth }}}}{a} if i is iterable {b}{{{{ loop(i) }}}}{a} else {b}{{{{ i }}}}{a} endif {b}{a} endfor {b}",
                    lambda: f"{a} generation {b}{inside()}{a} endgeneration {b}", lambda: f"{a} print {e()}, {e()} {b}",
                    lambda: f"{a} raw {b}{{{{ x }}}}{a} endraw {b}",
                ]
            return r.choice(forms[2:] if n and r.random() < 0.7 else forms[:2])()
        return body(r.choice([1, 2, 2, 3]))
