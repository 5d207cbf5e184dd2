#!/usr/bin/env python3
"""make_vectors.py --venv DIR --stub DIR [--releases DIR] [--overlays DIR] [--release VERSION] [--oracle FILE] [--models DIR] [--code DIR] [--out FILE] [CASES.jsonl]

Asks vLLM itself (through vllm_oracle.py beside it) and writes vectors of the shared form, one
{"case": ..., "result": ...} a line. Never needed by the tests; it is how the vectors in tests/vectors/ are made.

A case names its model by id ("deepseek-ai/DeepSeek-V4-Flash", a file of tests/models with "/" written "--") or
holds "hf_config", and may name its "release" (default 0.33.0, the one installed in the venv; any other is taken from
RELEASES/v<release>, an unpacked wheel put in PYTHONPATH). Cases are run release by release and compute capability
by compute capability, one process at a time, and written in their original order as soon as that order allows.
"draft_hf_config" is the config.json of the drafter that args.speculative_config.model names, where tests/models has none.
A model whose configuration is code of its own repository (config.json: auto_map) needs that code: --code names a
folder with a folder of each such model, named as its config.json is, that holds the repository's Python files.
A vector file is itself a file of cases: its results are asked for anew.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What a DeepSeek V4 case imports, imported once per process instead of once per case (3.5 s a case instead of 8).
PREIMPORT = ",".join([
    "vllm.models.deepseek_v4.nvidia.model",
    "vllm.model_executor.models.config",
    "vllm.compilation.passes.fusion.allreduce_rms_fusion",
    "vllm.model_executor.kernels.mhc.tilelang_kernels",
    "vllm.model_executor.layers.quantization.quark.quark",
    "vllm.model_executor.layers.fused_moe.oracle.mxfp4",
])
# The release installed in the environment.
INSTALLED = "0.33.0"
TAIL = re.compile(r" \[type=value_error, input_value=.*", re.S)


def short_error(result):
    """What the user reads: of pydantic's wrapping only the text after "Value error, "."""
    text = result.get("error", "")
    if result.get("error_type") == "ValidationError" and "Value error, " in text:
        text = TAIL.sub("", text.split("Value error, ", 1)[1])
    return text


def distinct_layers(layers):
    """{name: spec} -> each distinct spec once, in order of first appearance, with how many share it."""
    seen = {}
    for name, spec in layers.items():
        key = json.dumps(spec)
        if key not in seen:
            seen[key] = {"count": 0, "first": name, **spec}
        seen[key]["count"] += 1
    return list(seen.values())


def printed(log):
    """The figures of the start-up log, as printed; of several workers', the first one's."""
    out = {}
    for line in log:
        m = re.search(r"GPU KV cache size: ([\d,]+) tokens", line)
        if m:
            out.setdefault("printed_tokens", int(m.group(1).replace(",", "")))
        m = re.search(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x", line)
        if m:
            out.setdefault("printed_concurrency", m.group(1))
    return out


def counted(tensors):
    """Each tensor with the number of its layers instead of their names."""
    out = []
    for t in tensors:
        names = t.get("layers", t.get("shared_by", []))
        t = {k: v for k, v in t.items() if k not in ("layers", "shared_by")}
        out.append({**t, "layers": len(names)})
    return out


def reduce_result(result):
    """The oracle's raw result -> the shared form."""
    out = {k: v for k, v in result.items() if k not in (
        "layers", "groups", "tensors", "log", "seconds", "stage", "error", "error_type")}
    if not result.get("ok"):
        out["error_type"] = result.get("error_type")
        out["stage"] = result.get("stage")
        out["error"] = short_error(result)
    out.update(printed(result.get("log", [])))
    if "layers" in result:
        out["layers"] = distinct_layers(result["layers"])
    if "groups" in result:
        out["groups"] = []
        for g in result["groups"]:
            names = g["layers"]
            g = {k: v for k, v in g.items() if k != "layers"}
            out["groups"].append({**g, "layers": len(names), "first": names[0] if names else None})
    if "tensors" in result:
        out["tensors"] = counted(result["tensors"])
    if "ranks" in result:
        out["ranks"] = [{
            **rank, "layers": len(rank["layers"]), "first": rank["layers"][0] if rank["layers"] else None,
            "groups": [len(names) for names in rank["groups"]], "tensors": counted(rank["tensors"]),
        } for rank in result["ranks"]]
    return out


def draft_config(options, case):
    """The config.json of the model that speculative_config names: the case's own, or a file of tests/models."""
    own = case.pop("draft_hf_config", None)
    spec = case.get("args", {}).get("speculative_config")
    if own is not None or not isinstance(spec, dict) or not isinstance(spec.get("model"), str):
        return own
    path = os.path.join(options.models, spec["model"].replace("/", "--", 1) + ".json")
    return json.load(open(path)) if os.path.isfile(path) else None


def run(options, release, cases):
    """One oracle process: cases of one release and one compute capability."""
    env = dict(os.environ, LD_LIBRARY_PATH=options.stub)
    root = next(pathlib.Path(options.venv).glob("lib/python3*/site-packages"))
    if release != INSTALLED:
        if not options.releases:
            sys.exit(f"--releases: where is the unpacked wheel of {release}?")
        root = pathlib.Path(options.releases) / ("v" + release)
        path = [str(root)]
        # its own FlashInfer (and transformers, where it pins one) come before the environment's
        if options.overlays and (own := pathlib.Path(options.overlays) / release).is_dir():
            path.insert(0, str(own))
            # FlashInfer 0.7.2 brings a package b12x; no older one has it
            env["ORACLE_HIDE"] = "b12x"
        env["PYTHONPATH"] = os.pathsep.join(path)
    # what a release does not have is not imported for it
    has = lambda module: any((root / (module.replace(".", "/") + end)).exists() for end in (".py", "/__init__.py"))
    env["ORACLE_PREIMPORT"] = ",".join(
        module for module in options.preimport.split(",") if not module.startswith("vllm.") or has(module))
    lines, folders = [], []
    for number, case in enumerate(cases):
        case = dict(case, id=str(number))
        if "model" in case:
            name = case.pop("model").replace("/", "--", 1)
            path = os.path.join(options.models, name + ".json")
            code = os.path.join(options.code or "", name)
            if options.code and os.path.isdir(code):
                folders.append(tempfile.TemporaryDirectory())
                case["model"] = folders[-1].name
                shutil.copy(path, os.path.join(case["model"], "config.json"))
                for file in pathlib.Path(code).glob("*.py"):
                    shutil.copy(file, case["model"])
            else:
                case["hf_config"] = json.load(open(path))
        draft = draft_config(options, case)
        if draft is not None:
            # vLLM recognises some drafters by their name, which therefore ends the path
            args = case["args"] = dict(case["args"])
            spec = args["speculative_config"] = dict(args["speculative_config"])
            folders.append(tempfile.TemporaryDirectory())
            spec["model"] = os.path.join(folders[-1].name, spec["model"])
            os.makedirs(spec["model"])
            with open(os.path.join(spec["model"], "config.json"), "w") as f:
                json.dump(draft, f)
        lines.append(json.dumps(case))
    command = [os.path.join(options.venv, "bin", "python"), options.oracle]
    # vLLM's log: what stderr holds by the time a case's answer is out belongs to that case.
    with tempfile.TemporaryFile("w+", errors="replace") as stderr:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=stderr, text=True, env=env)
        process.stdin.write("\n".join(lines) + "\n")
        process.stdin.close()
        seen = 0
        for case, line in zip(cases, process.stdout):
            result = json.loads(line)
            result["id"] = case["id"]
            log = os.pread(stderr.fileno(), 1 << 26, seen)
            seen += len(log)
            result["log"] = log.decode(errors="replace").splitlines()
            if options.log:
                with open(options.log, "a") as f:
                    print(f"==== {case['id']}", *result["log"], sep="\n", file=f)
            yield result
        # a process that died must not pass for one without cases
        if process.wait():
            stderr.seek(0)
            sys.exit(f"{release}: the oracle ended with {process.returncode}\n{stderr.read()[-20000:]}")
    for folder in folders:
        folder.cleanup()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--venv", required=True, help="the oracle's environment")
    p.add_argument("--stub", required=True, help="the folder that make_stub.sh made")
    p.add_argument("--releases", help="the folder of unpacked wheels, v<release>/")
    p.add_argument("--overlays", help="the folder of <release>/, packages that a release brings of its own")
    p.add_argument("--release", help="ask this release whatever the cases name")
    p.add_argument("--models", default=ROOT / "tests/models")
    p.add_argument("--code", help="the folder of model repositories' own code")
    p.add_argument("--oracle", default=ROOT / "tests/oracle/vllm_oracle.py")
    p.add_argument("--preimport", default=PREIMPORT, help="modules to import before the cases fork")
    p.add_argument("--log", help="append vLLM's own log here, case by case")
    p.add_argument("--raw", help="also append the raw results here")
    p.add_argument("--out", help="default: standard output")
    p.add_argument("cases", nargs="?")
    options = p.parse_args()
    source = open(options.cases) if options.cases else sys.stdin
    cases = [json.loads(l) for l in source if l.strip()]
    cases = [c.get("case", c) for c in cases]  # a vector's own case will do
    for number, c in enumerate(cases):
        c.setdefault("id", str(number))
        c.setdefault("release", INSTALLED)
        if options.release:
            c["release"] = options.release
    batches = {}
    for number, c in enumerate(cases):
        batches.setdefault((c["release"], tuple(c["gpu"]["cc"])), []).append(number)
    out = open(options.out, "a") if options.out else sys.stdout
    done, next_line = {}, 0
    for (release, _), numbers in batches.items():
        for number, raw in zip(numbers, run(options, release, [cases[n] for n in numbers])):
            if options.raw:
                with open(options.raw, "a") as f:
                    print(json.dumps(raw), file=f)
            done[number] = {"case": cases[number], "result": reduce_result(raw)}
            while next_line in done:
                print(json.dumps(done.pop(next_line)), file=out, flush=True)
                next_line += 1
    for number in sorted(done):
        print(json.dumps(done[number]), file=out, flush=True)


if __name__ == "__main__":
    main()
