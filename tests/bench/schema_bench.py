#!/usr/bin/env python3
"""JSON Schema grammars against public collections: how many schemas compile, which texts are accepted.
SPDX-License-Identifier: MIT

    schema_bench.py bench DIR   DIR: maskbench/data of the repository guidance-ai/jsonschemabench
    schema_bench.py suite DIR   DIR: json/tests in the source archive of the package jsonschema

--accept PROGRAM   the program schema_accept of this tree (`ninja schema_accept`)
--every N          only each Nth schema          --part I/N    part I of N, for runs in pieces
--show             what is wrong, one by one

Needs the packages jsonschema and llguidance (the latter for bench: it is measured in the same run).  Times
of masks: tests/bench/grammars.py.  An instance is written in the order of its schema's properties: as it
stands in the collection, or put in order by the branches it fits.  A valid one has to be accepted in one of
the two; an invalid one in none of them.
"""
import argparse, collections, glob, json, os, re, signal, statistics, subprocess, sys, time

DRAFTS = {"draft4": "http://json-schema.org/draft-04/schema#",
          "draft6": "http://json-schema.org/draft-06/schema#",
          "draft7": "http://json-schema.org/draft-07/schema#",
          "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
          "draft2020-12": "https://json-schema.org/draft/2020-12/schema"}


class Accept:
    """schema_accept, started again where it ends or takes too long."""

    def __init__(self, program, arguments=(), seconds=60):
        self.command, self.seconds = [program, *arguments], seconds
        self.process = None

    def ask(self, schema, texts):
        """(error, microseconds, [accepted], [microseconds of masks])"""
        if not self.process:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        signal.signal(signal.SIGALRM, lambda *_: self.process.kill())
        signal.alarm(self.seconds)
        try:
            self.process.stdin.write((json.dumps({"schema": schema, "texts": texts}) + "\n").encode())
            self.process.stdin.flush()
            line = self.process.stdout.readline().decode().rstrip("\n")
        except BrokenPipeError:
            line = ""
        signal.alarm(0)
        if not line:
            self.process.kill()
            self.process = None
            return "CRASH or more than %d s" % self.seconds, 0, [], []
        if line.startswith("error "):
            return line[6:], 0, [], []
        _, us, *rest = line.split(" ")
        return None, float(us), [c == "1" for c in rest[0]] if rest else [], [float(t) for t in rest[1:]]


# ---- instances in the order of their schemas ----

def resolve(root, ref):
    if not isinstance(ref, str) or not ref.startswith("#"):
        return None
    at = root
    try:
        for name in ref[2:].split("/") if len(ref) > 2 else []:
            name = name.replace("~1", "/").replace("~0", "~")
            at = at[int(name)] if isinstance(at, list) else at[name]
    except (KeyError, IndexError, ValueError, TypeError):
        return None
    return at


def said_of(root, schemas, value, check):
    """(keyword, its value, whether a condition says it), in the order in which it stands."""
    out, seen = [], set()

    def go(s, late=False):
        if not isinstance(s, dict) or (id(s), late) in seen:
            return
        seen.add((id(s), late))
        for k, v in s.items():
            if k == "$ref":
                go(resolve(root, v), late)
            elif k in ("allOf", "anyOf", "oneOf") and isinstance(v, list):
                fit = v if k == "allOf" else [x for x in v if check(x, value)]
                for x in fit or v:
                    go(x, late)
            elif k == "if":
                go(v, True)
                go(s.get("then" if check(v, value) else "else"), late)
            elif k == "not":
                go(v, True)
            elif k not in ("then", "else"):
                out.append((k, v, late))
                if k in ("dependencies", "dependentSchemas") and isinstance(v, dict):
                    for n, x in v.items():
                        if isinstance(value, dict) and n in value:
                            go(x, late)
    for s in schemas:
        go(s)
    return out


def matches(pattern, name):
    try:
        return re.search(pattern, name)
    except re.error:
        return True


def in_order(value, root, schemas, check, depth=0):
    if depth > 60 or not isinstance(value, (dict, list)):
        return value
    conditions = said_of(root, schemas, value, check)
    said = [(k, v) for k, v, _ in conditions]
    if isinstance(value, list):
        out = []
        for i, x in enumerate(value):
            sub = [v[i] for k, v in said
                   if k in ("items", "prefixItems") and isinstance(v, list) and i < len(v)]
            sub += [v for k, v in said if k in ("items", "additionalItems", "contains", "unevaluatedItems")
                    and not isinstance(v, list)]
            out.append(in_order(x, root, sub, check, depth + 1))
        return out
    first, late = {}, []
    for k, v, condition in conditions:
        if k == "properties" and isinstance(v, dict) and condition:
            late += v
        elif k == "properties" and isinstance(v, dict):
            for n in v:
                first.setdefault(n, len(first))
        elif k == "required" and isinstance(v, list):
            late += [n for n in v if isinstance(n, str)]
        elif k in ("dependencies", "dependentRequired") and isinstance(v, dict):
            for n, names in v.items():
                late += [n] + (names if isinstance(names, list) else [])
        elif k in ("const", "enum"):
            late += [n for x in (v if isinstance(v, list) else [v]) if isinstance(x, dict) for n in x]
    for n in late:
        first.setdefault(n, len(first))
    out = {}
    for n in sorted(value, key=lambda n: first.get(n, len(first))):
        sub = [v[n] for k, v in said if k == "properties" and isinstance(v, dict) and n in v]
        sub += [x for k, v in said if k == "patternProperties" and isinstance(v, dict)
                for pattern, x in v.items() if matches(pattern, n)]
        sub = sub or [v for k, v in said if k in ("additionalProperties", "unevaluatedProperties")]
        out[n] = in_order(value[n], root, sub, check, depth + 1)
    return out


def validator(schema):
    import jsonschema
    from jsonschema.validators import validator_for
    return validator_for(schema, default=jsonschema.Draft202012Validator)


def writings(schema, data):
    v = validator(schema)(schema)

    def check(branch, value):
        try:
            return v.evolve(schema=branch).is_valid(value)
        except Exception:
            return False
    return [json.dumps(data, ensure_ascii=False),
            json.dumps(in_order(data, schema, [schema], check), ensure_ascii=False)]


# ---- the collections ----

class Limit(Exception):
    pass


def limited(seconds, work, otherwise):
    def stop(*_):
        raise Limit
    signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        return work()
    except Exception:       # a schema that jsonschema cannot read, or not in this time
        return otherwise
    finally:
        signal.alarm(0)


def cases(a):
    names = sorted(glob.glob(os.path.join(a.dir, "*.json")))[::a.every]
    part, parts = map(int, a.part.split("/"))
    for name in names[part::parts]:
        with open(name, encoding="utf-8") as f:
            yield os.path.basename(name), json.load(f)


def valid_schema(schema):
    def work():
        validator(schema).check_schema(schema)
        return True
    return limited(20, work, False)


def bench(a):
    import llguidance
    tokens = llguidance.LLTokenizer("byte")
    accept, count, why, us, theirs = Accept(a.accept), collections.Counter(), collections.Counter(), [], []
    for name, case in cases(a):
        schema, tests = case["schema"], case["tests"]
        count["schemas"] += 1
        if not valid_schema(schema):
            count["schemas that jsonschema calls invalid"] += 1
            continue
        count["valid schemas"] += 1
        start = time.thread_time()
        m = llguidance.LLMatcher(tokens, json.dumps({"grammars": [{"json_schema": schema}]}), log_level=0)
        theirs.append(1e6 * (time.thread_time() - start))
        other = not m.is_error()
        count["  that llguidance compiles"] += other
        texts = [limited(20, lambda t=t: writings(schema, t["data"]),
                         [json.dumps(t["data"], ensure_ascii=False)] * 2) for t in tests]
        error, time_us, fits, _ = accept.ask(schema, [t for pair in texts for t in pair])
        if error:
            why[error.split(": ", 2)[-1][:70]] += 1
            count["  that only llguidance compiles"] += other
            if a.show:
                print(name, error, "(llguidance compiles it)" if other else "")
        else:
            us.append(time_us)
            count["  that compile here"] += 1
        v = validator(schema)(schema)
        for i, (t, pair) in enumerate(zip(tests, texts)):
            if other:
                good = any(byte_accepts(m, x) for x in pair)
                count["llguidance: valid, " + ("accepted" if good else "REFUSED") if t["valid"] else
                      "llguidance: invalid, " + ("ACCEPTED" if good else "refused")] += 1
            if error:
                continue
            good = fits[2 * i] or fits[2 * i + 1]
            by_package = limited(20, lambda t=t: v.is_valid(t["data"]), None)
            if t["valid"] and by_package is False:
                count["called valid, but jsonschema says no: left out"] += 1
                continue
            what = "valid" if t["valid"] else "invalid" if not by_package else "invalid for its format"
            count["%s, %s" % (what, "accepted" if good else "refused")] += 1
            if a.show and good != t["valid"]:
                print(name, i, what, "is", "accepted" if good else "refused")
    for k in ("schemas", "schemas that jsonschema calls invalid", "valid schemas",
              "  that llguidance compiles", "  that compile here", "  that only llguidance compiles"):
        print("%7d %s" % (count.pop(k, 0), k))
    for k, n in sorted(count.items()):
        print("%7d %s" % (n, k))
    print("compile, ms of processor time: %s; llguidance: %s" % (spread(us), spread(theirs)))
    for k, n in why.most_common(20):
        print("%7d refused: %s" % (n, k))


def byte_accepts(m, text):
    m, data = m.deep_copy(), list(text.encode())
    return m.try_consume_tokens(data) == len(data) and m.is_accepting()


def spread(us):
    if not us:
        return "none"
    s = sorted(us)
    return "median %.2f, mean %.2f, 99%% %.2f, most %.1f" % (
        s[len(s) // 2] / 1e3, statistics.fmean(s) / 1e3, s[len(s) * 99 // 100] / 1e3, s[-1] / 1e3)


def suite(a):
    accept, count, why = Accept(a.accept), collections.Counter(), collections.Counter()
    for draft, uri in DRAFTS.items():
        for path in sorted(glob.glob(os.path.join(a.dir, draft, "**/*.json"), recursive=True)):
            part = draft + (" optional" if "optional" in path else "")
            with open(path, encoding="utf-8") as f:
                groups = json.load(f)
            for g in groups:
                schema = g["schema"]
                if isinstance(schema, dict) and "$schema" not in schema:
                    schema = {"$schema": uri, **schema}
                texts = [limited(20, lambda t=t: writings(schema, t["data"])[1], json.dumps(t["data"]))
                         for t in g["tests"]]
                error, _, fits, _ = accept.ask(schema, texts)
                if error and "no value fits" in error:
                    error, fits = None, [False] * len(texts)
                count[part, "schemas refused by name" if error else "schemas kept"] += 1
                if error:
                    why[error.split(": ", 2)[-1][:70]] += 1
                for t, fit in zip(g["tests"], fits):
                    right = ("right" if fit == t["valid"] else "WRONG: refused" if t["valid"]
                             else "WRONG: accepted")
                    count[part, "instances " + right] += 1
                    if a.show and fit != t["valid"]:
                        print(os.path.relpath(path, a.dir), g["description"], t["description"], right,
                              sep=" | ")
    for k, n in sorted(count.items()):
        print("%7d %s, %s" % (n, *k))
    for k, n in why.most_common(20):
        print("%7d refused: %s" % (n, k))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=("bench", "suite"))
    p.add_argument("dir")
    p.add_argument("--accept", required=True)
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--part", default="0/1")
    p.add_argument("--show", action="store_true")
    a = p.parse_args()
    {"bench": bench, "suite": suite}[a.what](a)


if __name__ == "__main__":
    sys.exit(main())
