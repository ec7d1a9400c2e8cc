#!/usr/bin/env python3
"""Writes tests/golden/schema_cases.txt: random schemas, and texts that fit them or do not.
SPDX-License-Identifier: MIT

    make_schema_cases.py > tests/golden/schema_cases.txt

Three or more lines for each schema: the schema, then texts behind + (the package jsonschema calls them
valid) or -, with their properties in the order of the schema, and whole numbers without a fraction.
"""
import json, pathlib, random, sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "bench"))
from schema_bench import in_order, validator        # noqa: E402

NAMES = ["a", "b", "ab", "x-y", "\u00e9\"", "type"]
WORDS = ["", "a", "b", "ab", "abc", "x-y", "xx", "2024-02-29", "\u00e9\n", "a/b", "\\", "aaaaaa"]
PATTERNS = ["^a", "b$", "^[a-z]+$", "a|x", "^(ab|x.)*$", "[^a]", "^.{2}$", "\\d"]


def number(r):
    return r.choice([0, 1, 2, 3, 5, 7, 10, -1, -3, 12, 99, 100, 0.5, 1.5, -2.25, 10.0, 6, 0.25])


def value(r, depth=0):
    kind = r.randrange(8 if depth < 3 else 5)
    if kind < 2:
        return number(r)
    if kind < 4:
        return r.choice(WORDS)
    if kind == 4:
        return r.choice([None, True, False])
    if kind == 5:
        return [value(r, depth + 1) for _ in range(r.randrange(4))]
    return {n: value(r, depth + 1) for n in r.sample(NAMES, r.randrange(4))}


def schema(r, depth=0):
    s = {}

    def put(key, chance, make):
        if r.random() < chance:
            s[key] = make()
    kind = r.choice(["number", "integer", "string", "string", "array", "object", "object", "object"])
    if depth > 2 and kind in ("array", "object"):
        kind = "integer"
    if r.random() < 0.04:
        return r.random() < 0.6
    if r.random() < 0.8:
        s["type"] = kind if r.random() < 0.85 else [kind, r.choice(["null", "boolean", "string"])]
        if isinstance(s["type"], list) and s["type"][0] == s["type"][1]:
            s["type"] = kind
    if r.random() < 0.08:
        s["enum"] = [value(r, 2) for _ in range(r.randrange(1, 5))]
    if r.random() < 0.03:
        s["const"] = value(r, 2)
    if kind in ("number", "integer"):
        put("minimum", .4, lambda: number(r))
        put("exclusiveMaximum" if r.random() < .5 else "maximum", .4, lambda: number(r))
        put("exclusiveMinimum", .1, lambda: number(r))
        put("multipleOf", .25, lambda: r.choice([1, 2, 3, 5, 7, 10, 0.5, 0.25, 1.5]))
    elif kind == "string":
        put("minLength", .3, lambda: r.randrange(4))
        put("maxLength", .3, lambda: r.randrange(1, 6))
        put("pattern", .35, lambda: r.choice(PATTERNS))
    elif kind == "array":
        put("prefixItems", .3, lambda: [schema(r, depth + 1) for _ in range(r.randrange(1, 3))])
        put("items", .7, lambda: schema(r, depth + 1))
        put("minItems", .3, lambda: r.randrange(3))
        put("maxItems", .3, lambda: r.randrange(1, 4))
        put("contains", .2, lambda: schema(r, depth + 1))
        if "contains" in s:
            put("minContains", .3, lambda: r.randrange(3))
            put("maxContains", .3, lambda: r.randrange(1, 3))
    else:
        put("properties", .8, lambda: {n: schema(r, depth + 1)
                                       for n in r.sample(NAMES, r.randrange(1, 4))})
        put("required", .4, lambda: r.sample(NAMES, r.randrange(1, 3)))
        put("patternProperties", .2, lambda: {p: schema(r, depth + 1)
                                              for p in r.sample(PATTERNS, r.randrange(1, 3))})
        put("additionalProperties", .4, lambda: schema(r, depth + 1) if r.random() < .5 else False)
        put("propertyNames", .1, lambda: {"pattern": r.choice(PATTERNS)})
        put("minProperties", .15, lambda: r.randrange(3))
        put("maxProperties", .15, lambda: r.randrange(1, 4))
        put("dependentRequired", .1, lambda: {r.choice(NAMES): r.sample(NAMES, 1)})
    if depth < 2:
        put(r.choice(["anyOf", "oneOf", "allOf"]), .2,
            lambda: [schema(r, depth + 1) for _ in range(r.randrange(1, 4))])
        put("not", .07, lambda: schema(r, 2))
        if r.random() < .08:
            s["if"], s["then"] = schema(r, 2), schema(r, 2)
            put("else", .5, lambda: schema(r, 2))
        put("$ref", .04, lambda: "#/$defs/d")
    return s


def fitting(r, s, root, depth=0):
    """A value that likely fits."""
    if depth > 6 or not isinstance(s, dict) or r.random() < .06:
        return value(r, depth)
    if "$ref" in s:
        return fitting(r, root["$defs"]["d"], root, depth + 1)
    if "const" in s:
        return s["const"]
    if "enum" in s:
        return r.choice(s["enum"])
    for key in ("anyOf", "oneOf", "allOf"):
        if key in s and r.random() < .5:
            return fitting(r, r.choice(s[key]), root, depth + 1)
    t = s.get("type", r.choice(["object", "array", "string", "number"]))
    t = r.choice(t) if isinstance(t, list) else t
    if t == "object":
        names = [n for n in {**s.get("properties", {}), **{n: 1 for n in s.get("required", [])}}
                 if n in s.get("required", []) or r.random() < .6]
        names += [n for n in r.sample(NAMES, r.randrange(2)) if n not in names]
        own, others = s.get("properties", {}), s.get("additionalProperties", {})
        return {n: fitting(r, own.get(n, others), root, depth + 1) for n in names}
    if t == "array":
        first = [fitting(r, x, root, depth + 1) for x in s.get("prefixItems", [])]
        return first + [fitting(r, s.get("items", {}), root, depth + 1) for _ in range(r.randrange(4))]
    if t == "string":
        return r.choice(WORDS)
    if t in ("number", "integer"):
        x = number(r) * s.get("multipleOf", 1) if r.random() < .5 else number(r)
        return int(x) if t == "integer" else x
    return {"null": None, "boolean": r.random() < .5}.get(t)


def plain(x):
    if isinstance(x, list):
        return [plain(one) for one in x]
    if isinstance(x, dict):
        return {name: plain(one) for name, one in x.items()}
    return int(x) if isinstance(x, float) and x.is_integer() else x


def main():
    r = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 13)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 150):
        s = schema(r)
        if not isinstance(s, dict):
            continue
        if "$ref" in json.dumps(s):
            s["$defs"] = {"d": schema(r, 2)}
        check = validator(s)(s)
        seen = {}
        for _ in range(30):
            x = fitting(r, s, s)
            good = check.is_valid(x)
            ordered = in_order(x, s, [s], lambda b, v: check.evolve(schema=b).is_valid(v))
            text = json.dumps(plain(ordered), ensure_ascii=False, separators=(",", ":"))
            if sum(v == good for v in seen.values()) < 4:
                seen[text] = good
        if len(seen) > 1:
            print(json.dumps(s, ensure_ascii=False, separators=(",", ":")))
            for text, good in seen.items():
                print("+-"[not good] + text)


if __name__ == "__main__":
    main()
