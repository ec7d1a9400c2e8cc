#!/usr/bin/env python3
"""qsf-run --list-devices: what it finds, and why it finds nothing; --device gpu with a GPU that has a defect.
SPDX-License-Identifier: MIT

    cli_devices_test.py QSF_RUN LIBRARY OLD_LIBRARY       the libraries of tests/platform/fake_webgpu.c
"""
import os, pathlib, subprocess, sys, tempfile, unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "parity"))
import make_tiny

QSF_RUN, LIBRARY, OLD = sys.argv[1:4]
del sys.argv[1:4]


def listed(library=None):
    env = {k: v for k, v in os.environ.items() if not k.startswith("QSF_")}
    if library is not None: env["QSF_WEBGPU_LIB"] = library
    return subprocess.run([QSF_RUN, "--list-devices"], capture_output=True, env=env, text=True, timeout=60)


class Devices(unittest.TestCase):
    def test_a_device_is_described(self):
        r = listed(LIBRARY)
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        self.assertEqual(r.stdout.splitlines(), [
            f"WebGPU library: {LIBRARY}",
            "0: Fake GPU [31m",
            "   integrated GPU, of nobody, by Vulkan",
            "   buffers of 1 MB, 0 MB of one visible to a shader, 8 buffers at once",
            "   workgroups of 256 threads with 16 KB"])

    def test_a_library_that_was_asked_for_must_work(self):
        for library, says in (("/no/such/library.so", "cannot be loaded"), (OLD, "wgpuGetInstanceLimits"),
                              (QSF_RUN, "qsf-run")):
            r = listed(library)
            self.assertNotEqual(r.returncode, 0)
            self.assertEqual(r.stdout, "")
            self.assertIn(says, r.stderr)

    def test_no_library_is_an_answer(self):
        r = listed("")
        self.assertEqual((r.returncode, r.stderr), (0, ""))
        if "WebGPU library:" not in r.stdout:           # it is not installed here
            self.assertIn("No GPU", r.stdout)
            self.assertIn("QSF_WEBGPU_LIB", r.stdout)

    def test_without_the_gpu_that_was_asked_for_all_weights_stay_in_memory(self):
        env = dict(os.environ, QSF_WEBGPU_LIB=LIBRARY, FAKE_ROOM="1")
        with tempfile.TemporaryDirectory() as folder:
            model = str(make_tiny.make(folder, "llama-q4_k")[0])
            run = [QSF_RUN, model, "--raw", "-p", "abc de", "-n", "4", "--temp", "0", "-c", "128", "-v"]
            cpu, gpu = (subprocess.run([*run, *more], capture_output=True, env=env, timeout=60)
                        for more in ([], ["--device", "gpu"]))
        self.assertEqual((cpu.returncode, gpu.returncode), (0, 0))
        self.assertEqual(cpu.stdout, gpu.stdout)
        self.assertIn(b"all layers stay on the CPU", gpu.stderr)
        self.assertIn(b"all layers in memory", gpu.stderr)


if __name__ == "__main__":
    unittest.main()
