#!/usr/bin/env python3
"""Python functions as tools: the schema of a signature and docstring, and the types of arguments in calls.
SPDX-License-Identifier: MIT

    functions_test.py LIBQSF_PYTHON [unittest options]
"""
import enum, json, unittest
from typing import Annotated, Dict, List, Literal, NewType, Optional, TypedDict, Union

from python_case import Case
try:
    from pydantic import Field, create_model
except ImportError:
    print("skip: this Python has no pydantic (tests/requirements.txt)")
    raise SystemExit(77)
from qsf._schema import called, tool_of


class Kind(enum.Enum):
    A = "a"
    B = "b"


class Nested(TypedDict):
    inner: "List[Nested]"


Number = NewType("Number", int)
Deep = Annotated[int, Field(description="how deep")]


class Functions(Case):
    def test_types_of_parameters_that_refer_to_others(self):
        Place = create_model("Place", at=(create_model("Point", x=(int, ...)), ...))
        Path = create_model("Path", at=(create_model("Point", y=(str, ...)), ...))
        def go(place: Place, path: Optional[Path], more: Literal[Kind.A, "c"], n: Number,
               depth: Deep): ...
        go.__annotations__.update(place=Place, path=Optional[Path])
        made = tool_of(go)["function"]["parameters"]
        for part, name, kind in ((made["properties"]["place"], "x", "integer"),
                                 (made["properties"]["path"]["anyOf"][0], "y", "string")):
            place = made
            for step in part["properties"]["at"]["$ref"].split("/")[1:]:
                place = place[step]
            self.assertEqual(place["properties"][name]["type"], kind)
        self.assertEqual(made["properties"]["more"], {"enum": ["a", "c"]})
        self.assertEqual(made["properties"]["n"], {"type": "integer"})
        self.assertEqual(made["properties"]["depth"], {"type": "integer", "description": "how deep"})

        def nested(of: Nested): ...
        with self.refused("ARGUMENT", "contains itself"):
            tool_of(nested)

    def test_descriptions_of_several_lines(self):
        def add(a: int, b: int): ...
        for text in ("""Adds.

                     Parameters
                     ----------
                     a : int
                         the first one,
                         a number
                     b : int, optional
                         the second: one
                     """,
                     """Adds.

                     Args:
                         a (int): the first one,
                             a number
                         b: the second: one

                     Returns:
                         the sum
                     """,
                     """Adds.

                     :param int a: the first one,
                         a number
                     :param b: the second: one
                     :return: the sum
                     """):
            add.__doc__ = text
            made = tool_of(add)["function"]
            self.assertEqual(made["description"], "Adds.")
            self.assertEqual([one["description"] for one in made["parameters"]["properties"].values()],
                             ["the first one, a number", "the second: one"])

    def test_arguments_have_the_types_of_the_signature(self):
        Point = create_model("Point", x=(int, ...))
        def take(n: int, f: float, o: Optional[Point], l: "list[Kind]", t: "tuple[int, str]", s: "set[int]",
                 k: Literal[Kind.B], u: Union[str, int, Point], m: "dict[str, Point]", a, b: bool):
            return n, f, o, l, t, s, k, u, m, a, b
        take.__annotations__.update(o=Optional[Point], u=Union[str, int, Point], m=Dict[str, Point])
        given = {"n": 2.0, "f": 3, "o": {"x": 1.0}, "l": ["a", "b"], "t": [1.0, "x"], "s": [1, 1.0], "k": "b",
                 "u": {"x": 2}, "m": {"y": {"x": 3}}, "a": 1.0, "b": True}
        got = called(take, json.dumps(given))
        self.assertEqual(repr(got), repr((2, 3.0, Point(x=1), [Kind.A, Kind.B], (1, "x"), {1}, Kind.B,
                                          Point(x=2), {"y": Point(x=3)}, 1.0, True)))
        self.assertEqual(called(lambda a, b=2: (a, b), '{"a": null}'), (None, 2))


if __name__ == "__main__":
    unittest.main()
