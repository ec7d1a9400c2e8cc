#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which files qsf-convert refuses to overwrite, what it cleans up, and the errors for what is not a model.

    convert_files.py QSF_CONVERT QSF_RUN

Nothing that a conversion reads is written: the same name, another spelling, a link, a part of a split model,
a file of a Hugging Face directory, the text to calibrate with.  A running conversion keeps its temporary
file, a killed one's is gone with the next.
"""
import hashlib, os, pathlib, signal, subprocess, sys, tempfile, time
from gguf import GGUFReader
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))
from random_gguf import make_model
import make_hf_tiny

convert, run_program = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
failures = 0


def check(ok, what):
    global failures
    if not ok:
        failures += 1
        print("FAIL:", what)


def run(*arguments, program=convert, **more):
    p = subprocess.run([program, *map(str, arguments)], stdin=subprocess.DEVNULL, capture_output=True,
                       text=True, timeout=120, **more)
    return p.returncode, p.stderr


def snapshot(folder):
    return {p: hashlib.sha256(p.read_bytes()).digest() for p in folder.rglob("*") if p.is_file()}


def split(path, folder):
    """The model as two files, cut after the description's first tensor: only names and counts matter here."""
    from gguf import GGUFWriter
    names = [folder / f"part-{i + 1:05d}-of-00002.gguf" for i in range(2)]
    r = GGUFReader(path)
    for i, name in enumerate(names):
        w = GGUFWriter(name, "llama")
        if i == 0:
            for key, f in r.fields.items():
                if key.startswith("GGUF.") or key == "general.architecture": continue
                w.add_key_value(key, f.contents(), f.types[0], f.types[1] if len(f.types) > 1 else None)
        w.add_uint16("split.no", i), w.add_uint16("split.count", 2), w.add_int32("split.tensors.count",
            len(r.tensors))
        for k, t in enumerate(r.tensors):
            if (k < 3) == (i == 0): w.add_tensor(t.name, t.data.copy())
        w.write_header_to_file(), w.write_kv_data_to_file(), w.write_tensors_to_file(), w.close()
    return names


def refused(what, code, says, *arguments):
    """...and nothing under the folder changes."""
    before = snapshot(folder)
    got, err = run("-q", *arguments)
    check(got == code and says in err, f"{what}: exit {got} (not {code}), {err.strip()!r}")
    check(snapshot(folder) == before, f"{what}: a file has changed")


with tempfile.TemporaryDirectory() as name:
    folder = pathlib.Path(name)
    source, small, out = folder / "model.gguf", folder / "small.gguf", folder / "out.qsf"
    make_model(source, layers=3, vocab=1024)
    make_model(small, layers=1, n=64, ff=64, vocab=64)
    parts = split(small, folder)
    check(run("-q", parts[0], out)[0] == 0, "a split model converts")
    check(run("-q", small, folder / "model.qsf")[0] == 0, "a small one, too")
    hf = folder / "hf"
    make_hf_tiny.write(folder, "hf",
                       next(c for n, c in make_hf_tiny.good_cases() if n == "llama-bias-shards").files)
    (hf / "README.md").write_text("of the model's authors")
    check(run("-q", hf, hf / "model.qsf")[0] == 0, "a Hugging Face directory, into itself")
    check(run("-q", hf, hf / "model.qsf")[0] == 0, "and once more, over its own output")
    text = folder / "text"
    text.write_text(" ".join(str(i * i) for i in range(400)))

    # ---- a file that is read is not written ----
    os.symlink(small, folder / "symbolic"), os.link(small, folder / "hard"), os.symlink(hf,
        folder / "hf-link"), os.link(hf / "tokenizer.json", folder / "tokenizer")
    lost = "would be overwritten"
    for target in (small, folder / ".." / folder.name / "small.gguf", folder / "symbolic",
                   folder / "hard"): refused(f"{target}", 2, lost, small, target)
    refused("through a link", 2, lost, folder / "symbolic", small)
    for part in parts: refused(f"{part}", 2, lost, parts[0], part)
    for file in sorted(p for p in hf.iterdir() if p.suffix != ".qsf"): refused(f"{file}", 2, lost, hf, file)
    refused("a linked directory", 2, lost, folder / "hf-link", hf / "config.json")
    refused("a hard link to the tokenizer", 2, lost, hf, folder / "tokenizer")
    refused("the calibration text", 2, lost, "--calibration", text, small, text)
    refused("measuring a file in place", 2, lost, "--calibration", text, folder / "model.qsf",
            folder / "model.qsf")
    refused("input and calibration", 2, lost, "--calibration", text, small, small)
    refused("the report over the input", 2, lost, "--json", small, small, folder / "new.qsf")
    refused("the report over the text", 2, lost, "--json", text, "--calibration", text, small,
            folder / "new.qsf")
    refused("the report over the output", 2, lost, "--json", folder / "new.qsf", small, folder / "new.qsf")
    refused("no text", 5, "no such file", "--calibration", folder / "nothing", small, folder / "new.qsf")
    new, kept = folder / "new.qsf", folder / "kept.cal"
    refused("the text to calibrate with", 2, lost, "--calibrate", text, small, text)
    refused("a calibration over its text", 3, "neither a calibration file nor", "--calibrate", text,
            "--calibration-file", text, small, new)
    refused("a calibration over the input", 2, "not an importance matrix", "--calibrate", "self",
            "--calibration-file", small, small, new)
    refused("a calibration and the output", 2, lost, "--calibrate", "self", "--calibration-file", new, small,
            new)
    refused("a calibration and the report", 2, lost, "--calibrate", "self", "--calibration-file", kept,
            "--json", kept, small, new)
    refused("no calibration", 5, "--calibrate makes it", "--calibration-file", kept, small, new)
    refused("a text as calibration", 3, "neither a calibration file nor", "--calibration-file", text, small,
            new)
    refused("a model as calibration", 2, "not an importance matrix", "--calibration-file", small, small, new)
    check(run("-q", "--calibrate", text, "--calibration-file", kept, hf, new)[0] == 0, "calibrates")
    check(run("-q", "--calibration-file", kept, hf, new)[0] == 0, "and once more, from the file")
    refused("another model's calibration", 2, "of another model", "--calibration-file", kept, small, new)
    check(sorted(p.name for p in folder.glob("*.unmeasured*")) == [], "no file of a calibration is left")
    new.unlink(), kept.unlink()

    # ---- places where no file can be ----
    os.mkfifo(folder / "fifo")
    for target, says in ((folder, "is a directory"), ("/dev/null", "is a device"),
                         (folder / "fifo", "is a FIFO"), (folder / "no" / "out.qsf",
                                                          "directory does not exist"),
                         (small / "out.qsf", "not a directory"), ("", "the name is empty")):
        refused(f"{target} as output", 5, says, small, target)
    refused("/dev/stdout as output", 5, "is a FIFO", small, "/dev/stdout")

    # ---- files that are not models ----
    (folder / "empty").write_bytes(b""), (folder / "bare").mkdir(), (folder / "looks.qsf").mkdir()
    for path, code, says in ((hf, 3, f"convert it: qsf-convert {hf} model.qsf"),
                             (folder / "bare", 5, "is a directory"), (folder / "fifo", 5, "is a FIFO"),
                             ("/dev/null", 5, "is a device"), (folder / "empty", 3,
                                                               "is empty"), (folder / "nothing", 5,
                                                                   "no such file"), (small / "x", 5,
                                                                       "no such file")):
        for program, arguments in ((run_program, [path, "-p", "x"]),
                                   (run_program, [folder / "model.qsf", "--draft-model", path, "-p",
                                                  "x"]), (convert, ["--info", path])):
            got, err = run(*arguments, program=program)
            check(got == code and says in err and "reading or writing failed" not in err,
                  f"{program} {arguments}: exit {got} (not {code}), {err.strip()!r}")
    for path, code, says in ((folder / "bare", 5, "is a directory; the input is a GGUF or QSF file, or"),
                             (folder / "fifo", 5, "is a FIFO"), (folder / "empty", 3,
                                                                 "is empty"), (folder / "nothing", 5,
                                                                     "no such file")):
        refused(f"{path} as input", code, says, path, folder / "new.qsf")
    secret = folder / "secret.gguf"
    secret.write_bytes(small.read_bytes())
    secret.chmod(0)
    for program, arguments in ((run_program, [secret, "-p", "x"]), (convert, [secret, folder / "new.qsf"])):
        if os.geteuid() == 0: continue                  # root reads everything
        got, err = run(*arguments, program=program)
        check(got == 5 and "permission denied" in err, f"an unreadable file: exit {got}, {err.strip()!r}")
    secret.unlink()

    for path, says in ((folder / "bare", "is a directory"), (folder / "fifo", "is a FIFO")):
        got, err = run("-p", "x", "-n", 1, "--session", path, folder / "model.qsf", program=run_program)
        check(got == 5 and says in err, f"{path} as session: exit {got}, {err.strip()!r}")

    # ---- what a conversion leaves ----
    def written():
        """The bytes of temporary files; one may be complete, and renamed, before it is looked at."""
        try:
            return sum(f.stat().st_size for f in folder.glob("out.qsf.*.tmp"))
        except FileNotFoundError:
            return 0

    def begun():
        """A conversion that is stopped while it writes."""
        for slower in range(200):
            p = subprocess.Popen([convert, "-q", "-t", "1", str(source), str(out)],
                                 preexec_fn=lambda: os.nice(min(slower, 19)))
            while p.poll() is None and not written(): time.sleep(0.002)
            if p.returncode is not None: continue
            os.kill(p.pid, signal.SIGSTOP)
            if not os.WIFSTOPPED(os.waitpid(p.pid, os.WUNTRACED)[1]): continue      # it has ended instead
            if list(folder.glob("out.qsf.*.tmp")): return p
            p.kill(), p.wait()
        sys.exit("no conversion was caught while it wrote")
    a = begun()
    temporary = set(folder.glob("out.qsf.*.tmp"))
    check(len(temporary) == 1, f"one conversion, one file: {temporary}")
    check(run("-q", small, out)[0] == 0, "a second conversion of the same name")
    check(set(folder.glob("out.qsf.*")) == temporary, "it leaves the first one's file alone")
    a.send_signal(signal.SIGCONT)
    check(a.wait() == 0 and not list(folder.glob("out.qsf.*")), "which goes on")
    a = begun()
    a.kill(), a.wait()
    check(len(list(folder.glob("out.qsf.*.tmp"))) == 1, "a kill leaves a file")
    ended = subprocess.Popen(["true"])
    ended.wait()
    (folder / f"out.qsf.{ended.pid}-0.unmeasured").write_bytes(b"left")
    living = folder / f"out.qsf.{os.getpid()}-0.unmeasured"
    living.write_bytes(b"in use")
    others = [folder / n for n in ("out.qsf.old", "out.qsf.1-0.tmp.txt", "out.qsf.x-0.tmp",
                                   "other.qsf.1-0.tmp")]
    for other in others: other.write_bytes(b"somebody's")
    check(run("-q", small, out)[0] == 0, "the next run")
    check(set(folder.glob("out.qsf.*")) == {living, *others[:3]} and others[3].exists(),
          f"removes that and nothing else: {sorted(folder.glob('out.qsf.*'))}")

print("ok" if not failures else f"{failures} failed")
sys.exit(failures > 0)
