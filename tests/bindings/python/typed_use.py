"""What type checkers know of the package: typed_test.py checks this file with mypy, and it is not run.
SPDX-License-Identifier: MIT
"""
import asyncio
from typing import Any, List, Optional, Tuple, Union

from typing_extensions import assert_type

import qsf

model = qsf.load("model.gguf", ram_budget=500, kv_type="q4", threads=None)
assert_type(model.chat("Hi", temperature=0, stop=["a"]), qsf.Answer)
assert_type(model.chat("Hi", stream=True), qsf.Stream)
assert_type(model.generate([1, 2], max_tokens=3), qsf.Answer)
assert_type(model.rerank("q", ["a"]), List[Tuple[int, float]])
assert_type(model.conversation(system="x").chat("Hi"), qsf.Answer)
assert_type(qsf.convert("a.gguf", "a.qsf", quant_type="8bit", block=64).tensors[0].bytes, int)
assert_type(qsf.pull("owner/repo", progress=lambda step: step.fraction), str)
for piece in model.chat("Hi", stream=True):
    assert_type(piece, qsf.Piece)
    assert_type(piece.answer, Optional[qsf.Answer])


async def ask() -> None:
    assert_type(await model.achat("Hi"), qsf.Answer)
    async for piece in model.agenerate("Hi"):
        assert_type(piece, qsf.Piece)


def either(stream: bool) -> Any:
    assert_type(model.chat("Hi", stream=stream), Union[qsf.Answer, qsf.Stream])


asyncio.run(ask())
model.chat("Hi", max_new_tokens=3)              # wrong: call-overload
model.chat("Hi", temperature="hot")             # wrong: call-overload
qsf.load("model.gguf", kv_type="q5")            # wrong: arg-type
model.tokenize(5)                               # wrong: arg-type
qsf.convert("a.gguf", "a.qsf", block=48)        # wrong: arg-type
