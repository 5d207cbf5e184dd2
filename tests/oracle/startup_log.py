#!/usr/bin/env python3
"""Rows of crates/cases/tests/startup_log.jsonl: of each case, the lines of vLLM's own log that docs/log.md calls predicted.

    VLLM_LOGGING_LEVEL=INFO make_vectors.py … --out ANSWERS --log LOG CASES
    startup_log.py ANSWERS LOG >> crates/cases/tests/startup_log.jsonl
"""

import json
import re
import sys

# vLLM's prefix, without and with the process that newer releases name
LINE = re.compile(r"^(?:\(\w+ pid=\d+\) )?(INFO|WARNING) \S+ \S+ \[([\w.]+:\d+)\] (.*)$")

PREDICTED = re.compile(
    r"Resolved architecture: |(Downc|Upc|C)asting torch\.|Using max model len |Using \S+ data type to store kv cache"
    r"|Chunked prefill is enabled with |Using bfloat16 kv-cache for |Using fp8 kv-cache for |Mamba cache mode "
    r"|Hybrid or mamba-based model detected |There is a latency regression when using chunked local attention"
    r"|Asynchronous scheduling is |--block-size \d+ precluded |Using \w+ attention backend out of potential backends: "
    r"|Using AttentionBackendEnum\.\w+ backend\.$|Using \w+ KV cache layout|Using FlashAttention version "
    r"|Using \S+ KV cache format for |Using standard fp8 KV cache format|Using DeepSeek's |Using \w+ indexer cache for "
    r"|Setting kv cache block size |Setting attention block size |Padding mamba page size |Hybrid KV cache manager is disabled"
    r"|KV cache page sizes cannot be unified|Add \d+ padding layers|Overriding num_gpu_blocks|Auto-fit max_model_len"
    r"|GPU KV cache size|Maximum concurrency for|kv cache group sizes |kv lcm block sizes "
)


def printed(path):
    """The lines of each case, by its id."""
    cases, lines = {}, []
    with open(path, errors="replace") as file:
        for line in file:
            if line.startswith("==== "):
                lines = cases.setdefault(line[5:].strip(), [])
            elif (match := LINE.match(line)) and PREDICTED.match(match[3]):
                lines.append([match[1], match[3]])
    return cases


def predicted(case, lines):
    # without a checkpoint to look into, what config.json does not name is float32
    if "dtype" not in case.get("args", {}):
        lines = [line for line in lines if not line[1].startswith("Downcasting")]
    # a drafter's own architecture and length
    drafter = [at for at, line in enumerate(lines) if line[1].startswith("Resolved architecture")][1:]
    for at in reversed(drafter):
        del lines[at : at + 2]
    return lines


def main(answers, log):
    cases = printed(log)
    with open(answers) as file:
        for line in file:
            case = json.loads(line)["case"]
            if lines := cases.get(str(case["id"])):
                row = {"case": case, "lines": predicted(case, lines)}
                print(json.dumps(row, separators=(",", ":")))


if __name__ == "__main__":
    main(*sys.argv[1:])
