#!/usr/bin/env python3
"""The documents as a reader meets them: links, paths and lines.  Builds nothing.
SPDX-License-Identifier: MIT

    docs_pages_test.py

docs/api.md is what tools/make_api.py makes, the list in docs/memory.md what tools/make_ladder.py makes, what
follows from the list of options what tools/make_options.py makes, from the names of the flat layer what
tools/make_names.py makes, and plots what tools/plot.py makes.  The
kinds of tensors in docs/format.md are those of core/model/roles.c.  Every page begins with a heading and says
what it is for; its links lead somewhere; files that it names are there; its lines have at most 110 columns
(tables apart); no sentence stands on two pages; and every page of docs/ can be reached from README.md.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH = 110
FOLDERS = ("bindings cli cmake convert core demo docs examples include js kernels parity platform serve "
           "tests tools web").split()
PAGES = [ROOT / n for n in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "js/README.md")]
PAGES += sorted((ROOT / "docs").glob("*.md"))
MADE = {ROOT / "docs" / "api.md"}
bad = []


def outside_blocks(text):
    """(line number, line) of everything but code."""
    fence = False
    for i, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            fence = not fence
        elif not fence and not line.startswith("    "):
            yield i, line


def anchors(path):
    found, seen = set(), {}
    for _, line in outside_blocks(path.read_text()):
        if line.startswith("#"):
            title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", line.lstrip("#").strip().lower())
            name = re.sub(r"[^\w\- ]", "", title).replace(" ", "-")
            found.add(name if name not in seen else f"{name}-{seen[name]}")
            seen[name] = seen.get(name, 0) + 1
    return found


def check_links(page, text):
    linked = set()
    for i, line in outside_blocks(text):
        for target in re.findall(r"\]\(([^)\s]+)\)", line):
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            path = (page.parent / file).resolve() if file else page
            if not path.exists():
                bad.append(f"{page.relative_to(ROOT)}:{i}: {target} leads nowhere")
            elif anchor and anchor not in anchors(path):
                bad.append(f"{page.relative_to(ROOT)}:{i}: {target}: the page has no such heading")
            linked.add(path)
    return linked


def check_paths(page, text):
    for i, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"(?<![\w/.$~-])(?:%s)/[\w./*-]*[\w*/]" % "|".join(FOLDERS), line):
            top, base = ROOT, page.parent
            if page.name == "bundlers.md" and name.startswith("js/") and not name.startswith("js/test"):
                continue
            if not any(any(b.glob(name.rstrip("/"))) for b in (top, base)) and "NAME" not in name:
                bad.append(f"{page.relative_to(ROOT)}:{i}: there is no {name}")


def check_form(page, text):
    lines = text.splitlines()
    name = page.relative_to(ROOT)
    if not lines[0].startswith("# ") or lines[1] or not re.match(r"[A-Z`]", lines[2]):
        bad.append(f"{name}:1: begin with a heading, an empty line, and what the page is for")
    for i, line in enumerate(lines, 1):
        breakable = " " in line.strip() and not line.startswith("|")
        if len(line) > WIDTH and breakable and page not in MADE:
            bad.append(f"{name}:{i}: {len(line)} columns")
        if line != line.rstrip():
            bad.append(f"{name}:{i}: white space at the end")


DIMS = dict(ONE=None, EMBD="E", VOCAB="V", CTX="positions", Q="H D or 2 H D", KV="Hkv D", V="Hkv D",
            SUMS="H D", Q_NORM="D or H D", K_NORM="D or Hkv D", FF="F", HEADS="H", EXPERTS="X",
            EXPERT_FF="Fx", EXPERTS_FF="X Fx", EXPERT_EMBD="Ex", EXPERTS_EMBD="X Ex",
            TYPES="types", CLASSES="classes",
            DENSE="dense", TABLE="L P", LAYER_EMBD="P", ALTUP="4 E", OTHERS="3 E", PREDICT="64",
            CORRECT="16", LAUREL="R", STATE_IN="2 E", ATTN_IN="E", WORDS="V", FEATURES="3 Em", MIX_IN="M",
            MIX="I", CHANNELS="C", CONV="C T",
            MIX_HEADS="S or I", MIX_DECAY="S or I N", MIX_RANK="S", MIX_STEPS="I or S", MIX_STATE="N",
            MIX_X="S + 2 N or S",
            MIX_NORM="I or I / S",
            LERPS="6 E or 5 E", MIX_RATE="A", MIX_FIRST="B", MIX_GATE="Z",
            BETAS="S or 2 S",
            LATENT="L", Q_LATENT="Lq", PLAIN="P", HEADS_LATENT="H L", KV_B="H (P + Dv)")
WHEN = dict(ALWAYS="always", FF="if F", GATED="if F, and gated", EXPERTS="if X",
            EXPERT_GATE="if X, and gated", PARALLEL="if `experts.beside` is 1",
            EXPERTS_APART="if `experts.embd` is not 0", MAY_EXPERTS="",
            LEARNED_POS="if positions are learned",
            UNTIED="if not tied",
            ATTN_NORM="if `layer.flow` is 0, 2, 3, or 5 after layer 0, and norms have weights",
            FFN_NORM="if `layer.flow` is 0, 3 or 5 and norms have weights",
            FINAL_NORM="if norms have weights and `layer.flow` is not 4",
            SUMS="if `layer.flow` is 4", TYPES="if `embd.token_types` is not 0",
            DENSE="if `dense.width` is not 0", CLASSES="if `rank.classes` is not 0", IT_IS="",
            ATTENTION="if the mixer has attention", MIXER="if the mixer has state",
            STATE="if the mixer has sums", MAY_STATE="", MAMBA="if the mixer is Mamba or RWKV",
            MAMBA1="if the mixer is Mamba-1, PLaMo 2's or RWKV",
            PLAMO="if the mixer is PLaMo 2's",
            MIX_GATE="if the mixer is a delta net or PLaMo 2's", CONV="if the mixer has a convolution",
            DECAY="if the mixer has sums, and is not RWKV", RWKV="if the mixer is RWKV",
            RWKV_FIRST="if the mixer is RWKV, after layer 0",
            RWKV_GATE="if the mixer is RWKV, and Z is not 0", SHIFTED="if `layer.ffns` is 4",
            DELTA="if the mixer is a delta net",
            ALPHA="if the mixer is a delta net without `mix.neighbours`",
            KEYS="if the mixer has attention with keys of its own and no latent",
            LAYER_EMBD="if `embd.per_layer` is not 0", MAY_LAYER="",
            ALTUP="if `layer.altup` is 1",
            ALTUP_BEGIN="in the first layer, if `layer.altup` is 1",
            ALTUP_END="in the last layer, if `layer.altup` is 1",
            QUERIES="if the mixer has attention, and queries have no latent",
            LATENT="if keys and values have a latent", Q_LATENT="if queries have a latent",
            SPLIT="if keys and values have a latent, and `latent.joined` is 0",
            JOINED="if `latent.joined` is 1", MTP="for multi-token prediction", MAY_MTP="",
            FEATURES="if features are normed")


def kind_numbers():
    """The enumeration of core/tensor/types.h."""
    enum = re.search(r"typedef enum qsf_kind \{(.*?)\}", (ROOT / "core/tensor/types.h").read_text(), re.S)[1]
    numbers, n = {}, 0
    for name, value in re.findall(r"QSF_K_(\w+)(?: = (\d+))?[,\s]", enum):
        n = int(value) if value else n
        numbers[name] = n
        n += 1
    return numbers


def check_kinds():
    numbers, rows = kind_numbers(), {}
    source = (ROOT / "core/model/roles.c").read_text()
    table = source.split("qsf_roles[QSF_N_ROLES] = {")[1].split("};")[0]
    for what, given in re.findall(r"^    (\w+)\((.*)\),$", table, re.M):
        _, kind, *rest = given.split(", ")
        if what == "ROLE":
            rest.pop(0)
        dims = ["ONE", rest.pop(0)] if what in ("NORM", "BIAS") else [rest.pop(0), rest.pop(0)]
        when = "IT_IS" if what == "BIAS" else rest.pop(0)
        shape = " × ".join(DIMS[d] for d in dims if DIMS[d])
        rows[numbers[kind]] = (rest[0].strip('"'), shape, WHEN[when])
    said = {}
    kinds = (ROOT / "docs/format.md").read_text().split("## 4. Kinds")[1].split("## 5.")[0]
    for line in (kinds + (ROOT / "docs/layer-parts.md").read_text()).splitlines():
        if re.match(r"\| \d+ \|", line):
            kind, name, _, shape, when = (c.strip() for c in line.strip("|").split("|"))
            said[int(kind)] = (name.strip("`"), shape, when)
    for kind in sorted(rows.keys() | said.keys()):
        if rows.get(kind) != said.get(kind):
            want, is_said = rows.get(kind), said.get(kind)
            bad.append(f"docs/format.md, layer-parts.md: kind {kind} is {is_said}, but core/model/roles.c "
                       f"has {want}")
    if not rows:
        bad.append("core/model/roles.c: no table of roles")


def sentences(text):
    prose = [line for _, line in outside_blocks(text) if not line.startswith(("|", "#"))]
    for part in re.split(r"\n\s*\n|\n- ", "\n".join(prose)):
        for sentence in re.split(r"(?<=[.:;!?])\s", re.sub(r"\s+", " ", part).strip()):
            if len(sentence) > 60:
                yield sentence


def main():
    for maker in ("make_api.py", "make_ladder.py", "make_names.py", "make_options.py", "make_python.py",
                  "make_version.py", "plot.py"):
        command = [sys.executable, ROOT / "tools" / maker, "--check"]
        check = subprocess.run(command, capture_output=True, text=True)
        if check.returncode:
            bad.append(check.stderr.strip())
    check_kinds()
    said, links = {}, {}
    for page in PAGES:
        text = page.read_text()
        check_form(page, text)
        check_paths(page, text)
        links[page] = check_links(page, text)
        for sentence in set(sentences(text)) if page not in MADE else ():
            if sentence in said:
                bad.append(f"{page.relative_to(ROOT)}: {said[sentence]} says this too: {sentence}")
            said[sentence] = page.relative_to(ROOT)
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        new = {p for page in new for p in links.get(page, ()) if p not in reached}
    bad.extend(f"{p.relative_to(ROOT)}: no link leads here from README.md" for p in PAGES if p not in reached)
    if bad:
        sys.exit("\n".join(bad))
    print("ok")


if __name__ == "__main__":
    main()
