#!/usr/bin/env python3
"""The reader that was written from docs/format.md alone sees what the C code wrote, and sees damage.
SPDX-License-Identifier: MIT

    qsf_reader_test.py QSF_TEST_PROGRAM
"""
import pathlib, random, subprocess, sys, tempfile
import numpy as np
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
from qsf_reader import QSF

with tempfile.TemporaryDirectory() as work:
    work = pathlib.Path(work)
    subprocess.run([sys.argv[1], "--write-samples", work], check=True)
    files = sorted(work.glob("*.qsf"))
    assert len(files) == 48, len(files)
    scaled = 0
    for path in files:
        q = QSF(path)
        got = np.concatenate([q.values(t).ravel() for t in q.tensors if t["type"] != 24])
        want = np.fromfile(path.with_suffix(".f32"), "<f4")
        assert got.dtype == np.float32 and got.shape == want.shape, (path.name, got.shape, want.shape)
        assert np.allclose(got, want, rtol=1e-6, atol=1e-7), (path.name, np.abs(got - want).max())
        tokens = q.tokens()
        assert len(tokens) == 288 and tokens[257:261] == [b"</s>", b"th", b"the", b"in"], (
            path.name, tokens[257:261])
        assert q.keys["meta.source"] == "tests/tools/make_tiny_qsf.h"
        scales = [q.scale(t) for t in q.tensors if t["rows"] > 1 and t["kind"] < 0x100 and t["kind"] != 33]
        assert len(set(scales)) == 1 and scales[0] in (1, 0.75), (path.name, scales)
        scaled += scales[0] == 0.75
        for t in q.tensors:
            if t["type"] == 24:
                start = np.frombuffer(q.data(t), "<u4", t["rows"] + 1)
                assert start[0] == 0 and start[-1] == t["cols"] == 6 and (
                    np.diff(start.astype(int)) >= 0).all()

    assert scaled == 15, scaled

    q = QSF(work / "clusters.qsf")
    rows, scale, radius, centroids = q.clusters()
    assert len(rows) == 40 and len(rows[0]) == 0 and centroids.shape == (40,
                                                                         64) and (radius == 1.5).all() and (
                                                                             scale >= 0.5).all()
    assert abs(centroids.std() - 1) < 0.1, centroids.std()

    q = QSF(work / "embedding-clusters.qsf")
    of, centroids = q.embedding_clusters()
    assert len(of) == 288 and len(np.unique(of)) == 20 and centroids.shape == (20,
                                                                               64) and abs(centroids.std()
                                                                                       - 1) < 0.1
    assert abs(q.embedding().std() - 2 ** 0.5) < 0.1, q.embedding().std()       # of two normal values
    assert QSF(work / "clusters.qsf").embedding_clusters() is None

    rng = random.Random(1)
    good = files[0].read_bytes()
    for _ in range(300):
        at = rng.randrange(len(good))
        bad = bytearray(good)
        bad[at] ^= 1 << rng.randrange(8)
        (work / "bad").write_bytes(bad)
        try:
            QSF(work / "bad")
        except Exception:
            continue
        raise AssertionError(f"byte {at} was changed and nothing said so")
print("ok")
