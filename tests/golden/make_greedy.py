#!/usr/bin/env python3
"""Writes greedy/<model>.json: what llama.cpp answers to eight prompts on a real model.
SPDX-License-Identifier: MIT

    make_greedy.py LLAMA_REF MODEL.gguf...

LLAMA_REF is llama_ref.cpp built as README.md says. Recorded is the run with a 16-bit KV cache
and plain attention.

llama.cpp rounds activations to 8 bits, so that its margins (largest minus second largest logit) carry an
error of their own. `reference` is the same margin by ../parity/reference.py in float32 (negative where it
prefers another token), `noise` the standard deviation of the difference over all steps. A checker calls a
step a tie where either margin is below a few times the noise.
"""
import hashlib, json, pathlib, statistics, subprocess, sys
import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "parity"))
from reference import Model

STORY = """The lighthouse at the end of the northern road had been dark for eleven years when Marta Lindqvist was sent to
count its lamps. She was not a keeper, nor the daughter of one; she was a clerk in the office of harbours, and she had been
chosen because she owned a bicycle and because nobody else wanted to go. The road followed the coast for forty kilometres.
On the first day she passed two villages, a closed cannery and a field in which somebody had arranged old boats in a circle,
their bows pointing inward as though they were listening to one another. On the second day it rained. She slept in a barn that
smelled of apples and wrote in her notebook: distance covered, 23 km; bread left, half a loaf; people met, one, a boy who asked
whether the war was over. She had told him that it was, although she did not know which war he meant. On the third day the
road became a path and the path became a line of white stones, and at the end of the stones stood the tower. It was smaller
than in the drawing. The door was not locked. Inside she found a table, two chairs, a calendar that had stopped in March, and a
row of seven brass lamps, each polished so well that she could see her own tired face in it seven times. Somebody had been here.
She called out and heard only the sea. Then she climbed the stairs, counting them because counting was her work: one hundred
and twelve steps, the last of them made of wood. At the top the great lens stood under a sheet. When she pulled the sheet away a
moth flew up, circled once and settled on the glass. The wick had been trimmed that morning; the oil was full to the line. Marta
sat down on the iron floor and considered what to write. The office had asked for the number of lamps, so that they could be sold.
Seven, she wrote, and one large. Then she crossed it out. From the window she saw a thin thread of smoke behind the dunes, and
next to it something that might have been a roof, or a boat turned over, or only a rock. The tide was going out. She thought about
the boy, the circle of boats and the calendar, and it seemed to her that these were parts of a single message which had been
sent to her alone, in a language that she almost understood. As it grew dark she took the matches from her pocket, opened the small
brass door below the lens, and"""

PROMPTS = {
    "english": "The history of the bicycle begins in the early nineteenth century, when",
    "code": "def binary_search(items, target):\n    \"\"\"Return the index of target in the sorted list "
            "items, or -1.\"\"\"\n    low, high = 0, len(items) - 1\n",
    "german": "Der Zug nach München hatte schon zwanzig Minuten Verspätung, als der Schaffner",
    "chinese": "北京是中国的首都，也是全国的政治、文化中心。这座城市",
    "numbers": "2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37,",
    "one": "The",
    "long": " ".join(STORY.split()),
}
CHAT = {
    "gemma3": "<start_of_turn>user\nWhy is the sky blue? Answer in two "
              "sentences.<end_of_turn>\n<start_of_turn>model\n",
    None: "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nWhy is the sky "
          "blue? Answer in two sentences."
          "<|im_end|>\n<|im_start|>assistant\n",
}

def escape(text):
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")

def run(ref, model, prompts, *options):
    text = "".join(f"text: {escape(p)}\n" for p in prompts)
    out = subprocess.run([ref, str(model), "-n", "32", "-c", "1024", "--top", "20", *options],
                         input=text, text=True,
                         stdout=subprocess.PIPE, check=True).stdout
    return [json.loads(line) for line in out.splitlines()]

def reference_margins(model, prompt, greedy):
    """How far each greedy token's logit is above the best other one, given the tokens before it."""
    y = model.logits(prompt + greedy[:-1], last=False)[len(prompt) - 1:]
    rows = np.arange(len(greedy))
    own = y[rows, greedy]
    y[rows, greedy] = -np.inf
    return [round(float(m), 4) for m in own - y.max(axis=1)]

def record(ref, path):
    prompts = dict(PROMPTS, chat=CHAT["gemma3" if "gemma" in path.name else None])
    model = Model(path)
    entries, errors = [], []
    for name, text, main in zip(prompts, prompts.values(), run(ref, path, prompts.values())):
        main["reference"] = reference_margins(model, main["prompt"], main["greedy"])
        errors += [a - b for a, b in zip(main["margin"], main["reference"])]
        entries.append({"name": name, "text": text, **main})
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    return {"model": path.name, "sha256": digest, "noise": round(statistics.pstdev(errors), 4),
            "prompts": entries}

def main():
    ref, *models = sys.argv[1:]
    folder = pathlib.Path(__file__).parent / "greedy"
    for path in map(pathlib.Path, models):
        golden = record(ref, path)
        rows = ",\n".join("  " + json.dumps(p, ensure_ascii=False) for p in golden.pop("prompts"))
        head = json.dumps(golden)[1:-1]
        (folder / f"{path.stem}.json").write_text(f"{{{head},\n \"prompts\": [\n{rows}\n]}}\n")
        print(path.name, "noise", golden["noise"])

if __name__ == "__main__":
    main()
