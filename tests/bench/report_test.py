#!/usr/bin/env python3
"""report.py makes complete tables and plots of what was recorded, and names what is missing.  Nothing is
measured: the sample has the form of a recorded run, but its figures mean nothing.
SPDX-License-Identifier: MIT

    report_test.py
"""
import copy, json, pathlib, re, subprocess, sys, tempfile
from xml.etree import ElementTree

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import report                                                               # noqa: E402

SAMPLE = json.loads((HERE / "report_sample.json").read_text())


def tables(text):
    """{heading: rows, with the head} of the tables of a report"""
    found = {}
    for title, body in re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.M | re.S):
        found[title] = [[c.strip() for c in line.strip("|").split("|")]
                        for line in body.splitlines() if line.startswith("|") and "---" not in line]
    return found


def check_complete(recorded, missing=()):
    text, plots = report.render(recorded)
    found = tables(text)
    for name, (title, _, _, draw) in report.PARTS.items():
        rows = found[title]
        assert len(rows) > 1 and all(len(r) == len(rows[0]) for r in rows), (name, rows)
        for row in rows[1:]:
            assert all(row[1:]) and not re.search(r"\bnan\b|\binf\b|None", " ".join(row)), (name, row)
        if not draw: continue
        drawn = ElementTree.fromstring(plots[name])         # as many bars as values
        assert f"]({name}.svg)" in text and len(drawn.findall(".//{*}rect")) > 1, name
    why = {row[0]: row[1] for row in found["Not measured"][1:]}
    assert set(why) == {*report.NOT_HERE, *missing} and all(why.values()), why
    return found, plots


def test_a_recorded_run_gives_all_tables():
    found, plots = check_complete(SAMPLE)
    models = found[report.PARTS["models"][0]]
    files = {r[0] for r in models[1:]}
    assert len(files) == 5 and {(r[0], r[1]) for r in models[1:]} == {
        (f, t) for f in files for t in report.TESTS.values()}, models
    assert len(ElementTree.fromstring(plots["models"]).findall(".//{*}rect")) == 1 + 5 * len(report.TESTS)
    first = SAMPLE["parts"]["models"][0]
    ratio = sorted(a / b for a, b in zip(first["libqsf"], first["llama.cpp"]))
    assert models[1][4] == f"{ratio[1]:.2f}x ({ratio[0]:.2f} to {ratio[2]:.2f})", models[1]
    assert [r[0] for r in found[report.PARTS["wllama"][0]][1:]] == list(report.WLLAMA.values())
    machine = dict(r[:2] for r in found["Machine"][1:])
    assert machine["processor"] == "AMD EPYC" and "GB/s (" in machine["read, all threads"], machine


def test_without_llama_cpp_the_rest_is_there():
    alone = copy.deepcopy(SAMPLE)
    for row in alone["parts"]["models"]: row["llama.cpp"] = []
    alone["missing"] = {"llama.cpp": "no compiler"}
    found, plots = check_complete(alone, ["llama.cpp"])
    assert {r[2] for r in found[report.PARTS["models"][0]][1:]} == {"missing"}
    assert "tokens a second" in plots["models"]


def test_parts_that_could_not_be_measured_are_left_out():
    some = copy.deepcopy(SAMPLE)
    del some["parts"]["wllama"], some["parts"]["shapes"]
    some["missing"] = {"wllama": "node: exit code 1: no network"}
    text, plots = report.render(some)
    assert "wllama.svg" not in text and set(plots) == {"models"} and "no network" in text


def test_a_peer_that_is_not_there_is_no_error():
    try:
        report.run("/no/such/program")
        raise AssertionError("it ran")
    except report.Missing as e:
        assert e.args[0] == "/no/such/program", e.args
    try:
        report.run(sys.executable, "-c", "import sys; sys.exit('no network')")
        raise AssertionError("it did not fail")
    except report.Missing as e:
        assert e.args[1] == "exit code 1: no network", e.args


def test_the_program_draws_a_report_again():
    with tempfile.TemporaryDirectory() as work:
        command = [sys.executable, HERE / "report.py", work, "--from", HERE / "report_sample.json"]
        subprocess.run([str(c) for c in command], check=True)
        made = {p.name for p in pathlib.Path(work).iterdir()}
        assert made == {"report.md", "report.json", "models.svg", "shapes.svg", "wllama.svg"}, made
        assert json.loads(pathlib.Path(work, "report.json").read_text()) == SAMPLE


for name, test in list(globals().items()):
    if not name.startswith("test_"): continue
    test()
    print("ok  ", name[5:])
