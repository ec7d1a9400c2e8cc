#!/usr/bin/env python3
"""Converting files and finding models by name with the Python package; the models come from a server that
answers as Hugging Face's hub does.
SPDX-License-Identifier: MIT

    files_test.py LIBQSF_PYTHON [unittest options]
"""
import ctypes, os, pathlib, re, signal, subprocess, sys, threading, unittest, unittest.mock

from python_case import CHAT, FOLDER, ROOT, Case, hello, tiny
import qsf

sys.path[:0] = [str(ROOT / "tests" / "hub")]
from hub_server import TOKEN, HubServer

SMALL = hello().read_bytes()
REPOS = {"owner/tiny-GGUF": {"tiny-F16.gguf": SMALL + b"F" * 64000, "tiny-Q4_K_M.gguf": SMALL},
         "private/tiny": {"tiny-q8_0.gguf": SMALL}, "gated/tiny": {"tiny-q8_0.gguf": SMALL}}


def has_libcurl():
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return None


class Convert(Case):
    def test_a_file_is_converted_and_answers(self):
        to, steps = FOLDER / "converted.qsf", []
        done = qsf.convert(tiny(), to, progress=steps.append, quant_type="8bit", tensors={"attn_v": "6bit_s"},
                           threads=1)
        self.assertEqual((done.path, done.file_bytes), (str(to), to.stat().st_size))
        kinds = {one.type for one in done.tensors if one.kind == "attn_v"}
        self.assertEqual((done.architecture, kinds), ("llama", {"6bit_s"}))
        self.assertTrue(0.99 < done.cosine <= 1 and 0 < done.relative_error < 1e-3, done)
        self.assertIn("convert", {step.stage for step in steps})
        self.assertEqual((steps[-1].stage, steps[-1].fraction), ("write", 1.0))
        with qsf.load(to, threads=1) as model:
            self.assertEqual(model.info.format, "QSF")
        self.assertLess(qsf.convert(tiny(), to, quant_type="2bit", threads=1).file_bytes, done.file_bytes)

    def test_an_exception_ends_it_and_leaves_nothing(self):
        class Enough(Exception):
            pass

        def stop(progress):
            raise Enough
        with self.assertRaises(Enough):
            qsf.convert(tiny(), FOLDER / "stopped.qsf", progress=stop)
        self.assertEqual(list(FOLDER.glob("stopped*")), [])

    @unittest.skipUnless(hasattr(signal, "raise_signal") and sys.platform != "win32", "needs signals")
    def test_an_interrupt_ends_it(self):
        def interrupt(progress):
            signal.raise_signal(signal.SIGINT)
        with self.assertRaises(KeyboardInterrupt):
            qsf.convert(tiny(), FOLDER / "stopped.qsf", progress=interrupt)
        self.assertEqual(list(FOLDER.glob("stopped*")), [])

    def test_errors(self):
        to = FOLDER / "not.qsf"
        for options, *says in (
                ({"quant_type": "5bit"}, "quant_type", "mixed"), ({"bloc": 3}, "did you mean block"),
                ({"block": 33}, "32, 64"), ({"tensors": {"a": "8bit:x"}}, "TYPE:BLOCK"),
                ({"tensors": {"nothing": "8bit"}}, "nothing"), ({"merge_lora": "a"}, "merge_lora"),
                ({"progress": 3}, "function"), ({"target_size": -1}, "target_size")):
            with self.refused("ARGUMENT", *says):
                qsf.convert(tiny(), to, **options)
        with self.refused("NOT_FOUND", "none.gguf"):
            qsf.convert(FOLDER / "none.gguf", to)
        (FOLDER / "wrong.gguf").write_bytes(b"GGUF" + b"\3\0\0\0" + b"\xff" * 100)
        with self.refused("CORRUPT", "wrong.gguf"):
            qsf.convert(FOLDER / "wrong.gguf", to)
        with self.refused("ARGUMENT"):
            qsf.convert(tiny(), tiny())
        self.assertFalse(to.exists())

    def test_several_at_once(self):
        sizes = []

        def work(i):
            sizes.append(qsf.convert(tiny(), FOLDER / f"at_once_{i}.qsf", threads=1).file_bytes)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((len(sizes), len(set(sizes))), (3, 1))

    def test_its_options_are_those_of_the_program(self):
        source = (ROOT / "cli" / "qsf-convert.c").read_text()
        rows = source[source.index("convert_rows[] = {"):source.index("static const option_page")]
        theirs = {words.split()[-1].lstrip("-").replace("-", "_")
                  for words in re.findall(r'{ OPTION_[A-Z]+, "([^"]+)"', rows)}
        from qsf._convert import ConvertOptions
        ours = set(ConvertOptions.__annotations__)
        self.assertEqual(set(qsf._options.CALLS["convert"]), ours)
        self.assertEqual(ours - {"tensors"}, theirs - {"tensor", "json", "quiet", "info", "verify"})


@unittest.skipUnless(has_libcurl(), "no libcurl")
class Names(Case):
    def setUp(self):
        self.home = FOLDER / self.id()
        kept = {key: value for key, value in os.environ.items()
                if not key.startswith("HF_") and not key.lower().endswith("_proxy")}
        patch = unittest.mock.patch.dict(os.environ, {**kept, "HF_HOME": str(self.home)}, clear=True)
        patch.start()
        self.addCleanup(patch.stop)

    def hub(self, **more):
        server = HubServer(REPOS, **more)
        self.addCleanup(server.close)
        os.environ["HF_ENDPOINT"] = server.url
        return server

    def test_a_name_is_downloaded_once_and_answers(self):
        server, steps = self.hub(), []
        model = self.load("owner/tiny-GGUF", progress=steps.append)
        self.assertEqual(str(model.chat("Hi", **CHAT)), "Hello world.")
        self.assertTrue(model.path.endswith("tiny-Q4_K_M.gguf"), model.path)
        first, last = steps[0], steps[-1]
        self.assertEqual((first.stage, first.name, first.done),
                         ("download", "owner/tiny-GGUF/tiny-Q4_K_M.gguf", 0))
        self.assertEqual((last.done, last.total, last.fraction), (len(SMALL), len(SMALL), 1.0))
        self.assertEqual(qsf.pull("hf:owner/tiny-GGUF:q4_k_m"), model.path)
        self.assertEqual(len(server.of("files")), 1)
        other = qsf.pull("hf:owner/tiny-GGUF/tiny-F16.gguf")
        self.assertEqual([one.path for one in qsf.cached()], [other, model.path])
        self.assertEqual(qsf.cached()[1].name, "hf:owner/tiny-GGUF/tiny-Q4_K_M.gguf")
        server.close()
        self.assertEqual(self.load("owner/tiny-GGUF:F16", offline=True).path, other)
        done = qsf.convert("owner/tiny-GGUF", FOLDER / "named.qsf", quant_type="8bit", threads=1)
        self.assertGreater(done.weights, 0)

    def test_addresses_and_another_hub(self):
        server = self.hub()
        os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
        self.assertTrue(qsf.pull("owner/tiny-GGUF", hub=server.url).endswith("tiny-Q4_K_M.gguf"))
        self.assertEqual(pathlib.Path(qsf.pull(f"{server.url}/owner/tiny-GGUF/resolve/main/tiny-F16.gguf",
                                               hub=server.url)).read_bytes(), REPOS["owner/tiny-GGUF"]
                         ["tiny-F16.gguf"])

    def test_errors(self):
        self.hub()
        for name, code, *says in (
                ("hf:owner/none", "NOT_FOUND", "401"),
                ("owner/none", "NOT_FOUND", "no file owner/none exists"),
                ("hf:owner/tiny-GGUF:Q5_K_M", "NOT_FOUND", "F16"), ("gated/tiny", "IO", "403"),
                ("private/tiny", "NOT_FOUND", "HF_TOKEN"), ("hf:owner", "ARGUMENT"),
                ("hf:a/b/../c", "ARGUMENT"),
                ("folder/model.gguf", "NOT_FOUND", "no such file"),
                ("./owner/none", "NOT_FOUND", "no such file")):
            with self.refused(code, *says):
                self.load(name)
        with self.refused("NOT_FOUND"):
            self.load("owner/tiny-GGUF", offline=True)
        with self.refused("ARGUMENT", "OWNER/REPO"):
            qsf.pull("model.gguf")
        with self.refused("ARGUMENT", "progress"):
            self.load("owner/tiny-GGUF", progress=1)
        os.environ["HF_TOKEN"] = TOKEN
        self.assertTrue(qsf.pull("private/tiny"))
        os.environ["HF_ENDPOINT"] = "http://127.0.0.1:9"
        with self.refused("IO"):
            qsf.pull("owner/other")
        self.assertEqual(len(qsf.cached()), 1)

    def test_an_exception_ends_a_download_and_the_next_resumes(self):
        server = self.hub()

        def stop(progress):
            if progress.done:
                raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            qsf.pull("owner/tiny-GGUF", progress=stop)
        self.assertEqual(qsf.cached(), [])
        self.assertEqual(pathlib.Path(qsf.pull("owner/tiny-GGUF")).read_bytes(), SMALL)
        self.assertTrue(server.of("files"))

    def test_another_library_is_refused(self):
        flat = pathlib.Path(os.environ["QSF_LIBRARY"].replace("qsf_python", "qsf_flat"))
        if not flat.exists() or "LD_PRELOAD" in os.environ:
            self.skipTest(f"no {flat}")
        done = subprocess.run([sys.executable, "-c", "import qsf"], capture_output=True, text=True, env={
            **os.environ, "QSF_LIBRARY": str(flat), "PYTHONPATH": str(ROOT / "bindings" / "python")})
        self.assertIn("is not a libqsf_python of this version", done.stderr.splitlines()[-1])



if __name__ == "__main__":
    unittest.main()
