#!/usr/bin/env python3
"""options.py list FOLDER > resolver/tables/options.txt, or options.py dump FOLDER/<release>.json
or options.py parse crates/paste/tests/golden/argv.jsonl < argv.jsonl: the parser of the vLLM that is importable.

`dump` writes every option of `vllm serve` with the name it is kept under and what follows it; `list` makes one table of
the fourteen releases, oldest first, a bit of the mask for each. `parse` has the parser take lists of words and writes what
it makes of them: the values that are not its defaults, or that it stops. README.md tells how to run another release.
"""
import json
import pathlib
import sys

RELEASES = "0.20.2 0.21.0 0.22.1 0.23.0 0.24.0 0.25.1 0.26.0 0.27.1 0.28.0 0.29.0 0.30.0 0.31.0 0.32.0 0.33.0".split()
SWITCHES = ("EnableDisableAction", "BooleanOptionalAction")


def parsers():
    import vllm_oracle  # noqa: F401  pretends the GPU
    from vllm.entrypoints.cli.serve import ServeSubcommand
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    top = FlexibleArgumentParser(description="x")
    serve = ServeSubcommand().subparser_init(top.add_subparsers(required=False, dest="subparser"))
    return top, serve


def kind(action):
    name = type(action).__name__
    if action.nargs in ("+", "?"):
        return {"+": "values", "?": "may"}[action.nargs]
    return "switch" if name in SWITCHES else "on" if action.nargs == 0 else "value"


def dump():
    _, serve = parsers()
    options = serve._option_string_actions.items()
    rows = [[option, action.dest, kind(action)] for option, action in options]
    pathlib.Path(sys.argv[2]).write_text(json.dumps(rows))


def table(folder):
    masks = {}
    for bit, release in enumerate(RELEASES):
        for row in json.loads((pathlib.Path(folder) / f"{release}.json").read_text()):
            masks[tuple(row)] = masks.get(tuple(row), 0) | 1 << bit
    for (option, name, what), mask in sorted(masks.items()):
        print(f"{mask:04x} {option} {name} {what}")


def plain(value):
    try:
        return json.loads(json.dumps(value))
    except TypeError:
        return {"repr": str(value)[:80]}


def parse():
    import contextlib
    import io

    import vllm

    top, _ = parsers()
    defaults = vars(top.parse_args(["serve"]))
    out = open(sys.argv[2], "a")
    for line in sys.stdin:
        argv = json.loads(line)
        row = {"release": vllm.__version__.split("+")[0], "argv": argv}
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                found = vars(top.parse_args(["serve", *argv]))
            row["set"] = {name: plain(value) for name, value in found.items() if value != defaults.get(name)}
        except (SystemExit, ValueError, IndexError) as error:
            row["stops"] = type(error).__name__
        out.write(json.dumps(row, sort_keys=True) + "\n")


if __name__ == "__main__":
    {"dump": dump, "parse": parse, "list": lambda: table(sys.argv[2])}[sys.argv[1]]()
