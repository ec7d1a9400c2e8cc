#!/usr/bin/env python3
"""The documents as a reader meets them: links, paths and lines.  Builds nothing.
SPDX-License-Identifier: MIT

    docs_pages_test.py

docs/api.md is what tools/make_api.py makes, and the list in docs/memory.md what tools/make_ladder.py makes.
Every page begins with a heading and says what it is for; its links lead somewhere; files that it names are
there; its lines have at most 110 columns (tables apart); no sentence stands on two pages; and every page of
docs/ can be reached from README.md.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH = 110
FOLDERS = "cli cmake convert core demo docs examples include js kernels platform tests tools".split()
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


def sentences(text):
    prose = [line for _, line in outside_blocks(text) if not line.startswith(("|", "#"))]
    for part in re.split(r"\n\s*\n|\n- ", "\n".join(prose)):
        for sentence in re.split(r"(?<=[.:;!?])\s", re.sub(r"\s+", " ", part).strip()):
            if len(sentence) > 60:
                yield sentence


def main():
    for maker in ("make_api.py", "make_ladder.py"):
        command = [sys.executable, ROOT / "tools" / maker, "--check"]
        check = subprocess.run(command, capture_output=True, text=True)
        if check.returncode:
            bad.append(check.stderr.strip())
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
