"""Runs whose folder somebody damages while they go on, while they are resumed, and between the two."""

import itertools
import json
import os
import pathlib
import shutil
import struct
import subprocess

EPOCHS, DAMAGED_AFTER = 24, 6  # a checkpoint after each second epoch
LONG = 60  # seconds
FILES = (
    "state.json",
    "run.yaml",
    "metrics.jsonl",
    "program.json",
    "unread.safetensors",
    "run.json",
    "profile.json",
    "model.safetensors",
    "predictions.npy",
    "checkpoints",
    "checkpoints/*",
    "checkpoints/*/manifest.json",
    "checkpoints/*/worker-0.safetensors",
)
PHASES = ("new", "resumed", "between")
WAYS = ("missing", "empty", "cut", "rubbish", "folder", "unreadable")
PROGRAM = {
    "version": 1,
    "class": "Linear",
    "output": 3,
    "parameters": [
        {"name": "weight", "shape": [3, 8], "trained": True},
        {"name": "bias", "shape": [3], "trained": True},
    ],
    "operations": [
        {"op": "features", "shape": [8]},
        {"op": "parameter", "name": "weight"},
        {"op": "parameter", "name": "bias"},
        {"op": "linear", "in": [0, 1, 2], "line": "model.py:3: return self.lin(x)"},
    ],
}
# Without these capabilities root is denied what others are.
DENIED = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--"] if os.geteuid() == 0 else []


def weights(path):
    """The program's initial weights, and a tensor that no operation reads."""
    tensors, data = {}, b""
    for name, shape in (("weight", (3, 8)), ("bias", (3,)), ("unread", (4,))):
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        more = struct.pack(f"<{count}f", *(((7 * i) % 11 - 5) / 10 for i in range(count)))
        tensors[name] = {
            "dtype": "F32",
            "shape": list(shape),
            "data_offsets": [len(data), len(data) + len(more)],
        }
        data += more
    header = json.dumps(tensors).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)


def damage(path, way):
    """Damages a file or a folder. Returns whether there was anything to damage."""
    if not path.parent.exists() or not path.exists() and way in ("missing", "cut", "unreadable"):
        return False
    if way == "unreadable":
        path.chmod(0)
        return True
    if path.is_dir() and way != "missing":
        shutil.move(path, path.with_name("moved-" + path.name))
    elif path.is_dir():
        shutil.rmtree(path)
    whole = path.read_bytes() if path.exists() else b""
    if path.exists() and way in ("missing", "folder"):
        path.unlink()
    if way == "folder":
        path.mkdir()
        (path / "file").write_text("")
    elif way != "missing":
        path.write_bytes({"empty": b"", "cut": whole[: len(whole) // 2], "rubbish": b"\xff{" * 20}[way])
    return True


class Damaged:
    """One run, and what is damaged of it."""

    def __init__(self, setting, folder, name, way, phase):
        self.setting, self.folder, self.name, self.way, self.phase = setting, folder, name, way, phase
        self.out, self.inputs = folder / "run", folder / "given"

    def __str__(self):
        return f"{self.phase:<8} {self.name:<36} {self.way}"

    def weft(self, *arguments, after=None):
        """Runs weft, and calls strike after so many epochs and the first checkpoint."""
        command = [
            *DENIED,
            self.setting.weft,
            *map(str, arguments),
            *(["--json", "--follow"] if after else []),
        ]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for epoch in range(1, EPOCHS if after else 0):
            if not process.stdout.readline():
                break
            if epoch >= after and (any(self.out.glob("checkpoints/epoch-*")) or epoch == EPOCHS - 5):
                self.strike()
                break
            process.stdin.write("\n")
            process.stdin.flush()
        out, err = process.communicate(timeout=LONG)
        return (
            process.returncode,
            out,
            (err.strip().splitlines() or [""])[-1],
        )  # the lines before it are progress

    def begin(self, *more, after=None):
        return self.weft(
            "train",
            self.setting.stores,
            "--program",
            self.inputs / "program.json",
            "--init",
            self.inputs / "init.safetensors",
            "--epochs",
            EPOCHS,
            "--checkpoint-every",
            2,
            "--out",
            self.out,
            *more,
            after=after,
        )

    def resume(self, after=None):
        graph = [] if (self.out / "state.json").exists() else [self.setting.stores]
        return self.weft("train", *graph, "--resume", self.out, "--epochs", EPOCHS, after=after)

    def victim(self):
        last = sorted((self.out / "checkpoints").glob("epoch-*"))[-1:]
        return self.out / self.name.replace(
            "checkpoints/*", str(last[0].relative_to(self.out)) if last else "checkpoints/none"
        )

    def strike(self):
        self.path = self.victim()
        self.struck = damage(self.path, self.way)

    def mend(self):
        """What the lines that weft says ask for: permissions, and what is damaged out of the way, or restored
        if the user has it."""
        if self.way == "unreadable" and self.path.exists():
            self.path.chmod(0o777)
        elif self.path.is_dir():
            shutil.rmtree(self.path)
        else:
            self.path.unlink(missing_ok=True)
        moved = self.path.with_name("moved-" + self.path.name)
        if moved.exists():
            moved.rename(self.path)
        if self.name == "program.json":
            shutil.copy(self.inputs / "program.json", self.path)

    def run(self):
        """What is broken."""
        self.inputs.mkdir(parents=True)
        (self.inputs / "program.json").write_text(json.dumps(PROGRAM))
        weights(self.inputs / "init.safetensors")
        self.struck, before = False, 0
        if self.phase == "new":
            status, _, err = self.begin(after=DAMAGED_AFTER)
        else:
            self.weft(
                "train",
                self.setting.stores,
                "--program",
                self.inputs / "program.json",
                "--init",
                self.inputs / "init.safetensors",
                "--epochs",
                4,
                "--checkpoint-every",
                2,
                "--out",
                self.out,
            )
            if self.phase == "between":
                self.strike()
            status, _, err = self.resume(after=DAMAGED_AFTER - 4 if self.phase == "resumed" else None)
        if "goroutine" in err or "panic" in err:
            yield f"a trace: {err}"
        if status != 0:
            if not err.startswith("weft: "):
                yield f"status {status}: {err!r}"
            if not self.out.exists():
                yield f"the folder is gone: {err}"
                return
            before = err
            self.mend()
            status, out, err = self.resume()
            if "begins again" in out and not (self.name == "checkpoints" and self.way == "missing"):
                yield f"it began again: {before!r}"
        if status != 0:
            yield f"status {status} after it was mended: {err!r}, before {before!r}"
            return
        yield from self.compare()

    def compare(self):
        like = self.setting.uninterrupted["damage"]
        for name in ("model.safetensors", "predictions.npy", "run.yaml"):
            if name == "model.safetensors" and self.name == "unread.safetensors":
                continue  # what is lost of it is the user's
            path = self.out / name
            if not path.is_file() or not os.access(path, os.R_OK):
                yield f"{name} is not there"
            elif path.read_bytes() != (like / name).read_bytes():
                yield f"{name} is another"
        if (
            json.loads((self.out / "run.json").read_text())["summary"]["losses"]
            != json.loads((like / "run.json").read_text())["summary"]["losses"]
        ):
            yield "the losses are others"


def main(setting, options, folder):
    setting.quiet(
        "generate", "sbm", setting.stores, "--vertices", 200, "--degree", 4, "--features", 8, "--classes", 3
    )
    whole = Damaged(setting, folder / "whole", "", "", "")
    whole.inputs.mkdir(parents=True)
    (whole.inputs / "program.json").write_text(json.dumps(PROGRAM))
    weights(whole.inputs / "init.safetensors")
    whole.begin()
    setting.uninterrupted["damage"] = whole.out
    all_ways = itertools.cycle(itertools.product(PHASES, FILES, WAYS))
    broken = untouched = 0
    for number, (phase, name, way) in enumerate(
        itertools.islice(all_ways, options.first, options.first + options.trials), options.first
    ):
        if options.only and options.only not in (phase, name, way):
            continue
        trial = Damaged(setting, folder / str(number), name, way, phase)
        complaints = list(trial.run())
        untouched += not trial.struck
        for line in complaints:
            print(f"{number:<6}{trial}  BROKEN: {line}; see {trial.folder}", flush=True)
        broken += bool(complaints)
        if not complaints:
            shutil.rmtree(pathlib.Path(trial.folder))
    print(f"{untouched} trials found nothing to damage")
    print(f"{broken} trials broke a rule" if broken else "all rules held")
    return int(bool(broken))
