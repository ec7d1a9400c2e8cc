"""What the tests of models by name share: repositories, and programs with a cache of their own.
SPDX-License-Identifier: MIT
"""
import ctypes, os, pathlib, subprocess, sys, tempfile, unittest

TESTS = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "cli"), str(TESTS / "tools")]
from cli_case import MODEL, QSF_RUN, needs_directories
from hub_server import COMMITS, TOKEN

SMALL = pathlib.Path(MODEL).read_bytes()
TEXT = b"# a model\n"
# What follows a GGUF file's data is not read: files of other sizes, and sums.
REPOS = {
    "owner/tiny-GGUF": {"README.md": TEXT, "tiny-F16.gguf": SMALL + b"F" * 64000,
                        "tiny-Q4_K_M.gguf": SMALL + b"4" * 32, "sub folder/tiny-Q2_K.gguf": SMALL,
                        "mmproj-Q4_K_M.gguf": TEXT},
    "private/tiny": {"tiny-q8_0.gguf": SMALL},
    "gated/tiny": {"tiny-q8_0.gguf": SMALL},
    "owner/weights": {"model.safetensors": TEXT},
}


def has_libcurl():
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4", "libcurl.4.dylib"):
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    return None


class Case(unittest.TestCase):
    def setUp(self):
        work = tempfile.TemporaryDirectory()
        self.addCleanup(work.cleanup)
        self.home = pathlib.Path(work.name)
        self.hub = self.home / "hub"

    def env(self, server, **more):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("QSF_", "HF_", "XDG_", "HUGGING"))
                and not k.lower().endswith("_proxy")}
        return {**kept, "HF_HOME": str(self.home), "HF_ENDPOINT": getattr(server, "url", server),
                "QSF_THREADS": "1", **more}

    def run_model(self, server, *args, **env):
        return subprocess.run([QSF_RUN, *map(str, args), "-n", "2", "--raw", "--json", "-p", "Hi"],
                              capture_output=True, env=self.env(server, **env), timeout=120)

    def good(self, server, *args, **env):
        r = self.run_model(server, *args, **env)
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertTrue(r.stdout)
        return r.stderr.decode()

    def bad(self, server, *args, code=5, **env):
        r = self.run_model(server, *args, **env)
        self.assertEqual(r.returncode, code, r.stderr)
        self.assertNotIn(TOKEN.encode(), r.stderr)
        return r.stderr.decode()

    def snapshot(self, repo, path, revision="main"):
        return self.hub / f"models--{repo.replace('/', '--')}" / "snapshots" / COMMITS[revision] / path


def main():
    if not has_libcurl():
        print("libcurl is not installed")
        sys.exit(1 if os.environ.get("QSF_TEST_NO_SKIP") else 77)
    unittest.main(verbosity=0)
