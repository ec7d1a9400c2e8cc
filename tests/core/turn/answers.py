#!/usr/bin/env python3
"""Random answers of a real model under JSON Schemas: each that ends parses and fits its schema.
SPDX-License-Identifier: MIT

    answers.py ANSWERS MODEL...

--each N      answers to each of the schemas of golden/answer_schemas.jsonl (20)
--every N     only each Nth schema, from --first on
--most N      tokens of an answer (200); an answer that is cut there has to be the beginning of one
--slots N     answers at a time (16)       --seed N    of the first answer (1)
--whole X     the share of answers that have to end by themselves (0.8)

Temperature 1, and nothing is left out of the model's distribution.  The judge is the package jsonschema, with
its checks of formats.  ANSWERS is the program of this tree (`ninja answers`).  A turn that fails, as it does
where no token fits the grammar, is an error.
"""
import argparse, collections, json, os, pathlib, subprocess, sys, time

SCHEMAS = pathlib.Path(__file__).resolve().parents[2] / "golden" / "answer_schemas.jsonl"
END_TOKEN, MOST = 1, 3      # of qsf_turn_end


class Twice(dict):
    """An object in which a name comes twice, which JSON allows: what is not listed may."""


def members(pairs):
    return (dict if len(set(k for k, _ in pairs)) == len(pairs) else Twice)(pairs)


def has_twice(value):
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, Twice) or any(map(has_twice, inside))


def no_constant(name):
    raise ValueError(name + " is no JSON")


def wrong(text, validator, count):
    """Why an answer does not fit; None: it does."""
    try:
        value = json.loads(text, object_pairs_hook=members, parse_constant=no_constant)
    except ValueError as e:
        return "no JSON: %s" % e
    count["twice"] += has_twice(value)
    errors = [e.message for e in validator.iter_errors(value)]
    return errors[0] if errors else None


def run(a, model, schemas, validators):
    asks = [{"schema": text, "prompt": "Give me an example in JSON: %s." % json.loads(text)["title"],
             "seed": a.seed + i, "most": a.most} for i, text in enumerate(schemas * a.each)]
    start, tokens, forced, count, bad = time.time(), 0, 0, collections.Counter(), []
    out = subprocess.run([a.program, model, str(a.slots)], input="".join(json.dumps(x) + "\n" for x in asks),
                         capture_output=True, text=True)
    for line in out.stdout.splitlines():
        number, end, n, n_forced, *text = line.split(" ")
        number, end, tokens, forced = int(number), int(end), tokens + int(n), forced + int(n_forced)
        text = bytes.fromhex(text[0]).decode()
        schema = number % len(schemas)
        why = None
        if end == END_TOKEN:
            count["whole"] += 1
            why = wrong(text, validators[schema], count)
        elif end == MOST:
            count["cut"] += 1
        else:
            why = "the turn failed"
        if why:
            bad.append("schema %d, seed %d: %s: %r" % (schema + 1, a.seed + number, why, text))
    if out.returncode or len(out.stdout.splitlines()) != len(asks):
        bad.append("%d answers of %d came; %s" % (len(out.stdout.splitlines()), len(asks), out.stderr[-500:]))
    print("%s: %d answers under %d schemas: %d whole (%d with a name twice), %d cut at %d tokens, %d wrong; "
          "%d tokens, %d of them forced; %.0f s"
          % (pathlib.Path(model).name, len(asks), len(schemas), count["whole"], count["twice"], count["cut"],
             a.most, len(bad), tokens, forced, time.time() - start))
    for b in bad[:20]:
        print("   ", b)
    return not bad and count["whole"] >= a.whole * len(asks)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("models", nargs="+")
    p.add_argument("--each", type=int, default=20)
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--first", type=int, default=0)
    p.add_argument("--most", type=int, default=200)
    p.add_argument("--slots", type=int, default=16)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--whole", type=float, default=0.8)
    a = p.parse_args()
    a.models = [m for m in a.models if pathlib.Path(m).exists()]
    if not a.models:
        print("skipped: none of these models is there")
        sys.exit(1 if os.environ.get("QSF_TEST_NO_SKIP") else 77)
    import jsonschema
    schemas = SCHEMAS.read_text(encoding="utf-8").splitlines()[a.first::a.every]
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    validators = [jsonschema.Draft202012Validator(json.loads(s), format_checker=checker) for s in schemas]
    return 0 if all([run(a, m, schemas, validators) for m in a.models]) else 1


if __name__ == "__main__":
    sys.exit(main())
