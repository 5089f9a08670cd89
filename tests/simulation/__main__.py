"""Play many stories: `python tests/simulation --client consume --seeds 10000`."""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from random import Random

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[1] / "cluster"))
sys.path.insert(0, str(Path(__file__).parents[1] / "protocol"))

from clients import CLIENTS
from stage import Broken, Seen


def _play(client: str, seed: int) -> Seen | str:
    try:
        return CLIENTS[client].play(Random(seed))
    except Broken as broken:
        return str(broken)


def _play_all(client: str, options: argparse.Namespace) -> int:
    """Returns how many stories broke something."""
    seeds = range(options.first, options.first + options.seeds)
    began, seen, failures = time.monotonic(), Seen(), 0
    with ProcessPoolExecutor(options.processes) as pool:
        results = pool.map(partial(_play, client), seeds, chunksize=10)
        for seed, result in zip(seeds, results, strict=True):
            if not isinstance(result, str):
                seen.update(result)
                continue
            failures += 1
            print(f"SEED {seed} of {client}: {result}\n", flush=True)
            if failures >= options.failures:
                pool.shutdown(cancel_futures=True)
                break
    took_s = time.monotonic() - began
    print(f"{client}: {len(seeds)} seeds, {failures} broken, {took_s:.0f} s\n{dict(seen)}")
    return failures


def _choose(name: str, seeds: int, of_faults: int) -> None:
    """Print the seeds that `clients.py` should have: of so many, and so many for each fault."""
    client, took_s, reached = CLIENTS[name], dict[int, float](), dict[int, set[str]]()
    for seed in range(seeds):
        began = time.process_time()
        reached[seed] = client.reaches & set(+client.play(Random(seed)))
        took_s[seed] = time.process_time() - began
    chosen: list[int] = []
    while missing := client.reaches - set[str]().union(*(reached[seed] for seed in chosen)):
        best = max(reached, key=lambda seed: len(reached[seed] & missing) / took_s[seed])
        if not reached[best] & missing:
            print(f"{name}: nothing reaches {missing}")
            break
        chosen.append(best)
    print(
        f"{name}: {tuple(sorted(chosen))}, {sum(took_s[seed] for seed in chosen):.1f} s", flush=True
    )
    for fault in client.faults:
        seconds: dict[int, float] = {}
        with pytest.MonkeyPatch.context() as patch:
            fault(patch)
            for seed in range(of_faults):
                began = time.process_time()
                if isinstance(_play(name, seed), str):
                    seconds[seed] = time.process_time() - began
        soonest = min(seconds, key=seconds.__getitem__, default=None)
        print(f"  {fault.__name__}: {soonest}, of {len(seconds)} that do", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=[*CLIENTS, "both"], default="both")
    parser.add_argument("--seeds", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--failures", type=int, default=1, help="stop after so many")
    parser.add_argument("--choose", action="store_true", help="the seeds for clients.py")
    options = parser.parse_args()
    clients = CLIENTS if options.client == "both" else [options.client]
    if options.choose:
        for client in clients:
            _choose(client, seeds=1000, of_faults=300)
        return
    raise SystemExit(sum(_play_all(client, options) for client in clients) > 0)


if __name__ == "__main__":
    main()
