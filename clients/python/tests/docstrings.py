"""Runs the examples in docstrings."""

from __future__ import annotations

import ast
import asyncio
import inspect
import textwrap
from types import ModuleType
from typing import Any

# Address of the server in the examples.
_ADDRESS = "http://127.0.0.1:7421"


def run_examples(endpoint: str, module: ModuleType, *documented: object) -> None:
    """Runs the examples of a module, and then those of `documented`, as one program.

    An example is made of the paragraphs of indented lines in a docstring.
    """
    names: dict[str, Any] = {}
    for each in (module, *documented):
        paragraphs = (inspect.getdoc(each) or "").split("\n\n")
        example = textwrap.dedent("\n\n".join(filter(_is_code, paragraphs)))
        assert example, f"{each} has an example"
        program = compile(
            example.replace(_ADDRESS, endpoint),
            str(each),
            "exec",
            ast.PyCF_ALLOW_TOP_LEVEL_AWAIT,
        )
        waits = eval(program, names)
        if waits is not None:
            asyncio.run(waits)


def _is_code(paragraph: str) -> bool:
    return all(line.startswith("    ") for line in paragraph.splitlines())
