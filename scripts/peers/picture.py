"""Draws docs/speed.svg of the figures in docs/performance.md: an epoch's seconds and the peak of memory of
weft beside DGL and PyG. `make picture` runs it, after the tables there were written anew."""

import re
from html import escape
from pathlib import Path

DOCUMENTS = Path(__file__).parents[2] / "docs"
COLOURS = {"weft": "#1f6fb2", "weft, bf16": "#8fc1e8", "DGL": "#c0662b", "PyG": "#8a8a8a"}
WIDTH, HEIGHT, TOP, BOTTOM = 900, 220, 62, 36


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|\n").split("|")]


def figures(text: str) -> list[tuple[str, dict[str, tuple[float, float]]]]:
    """The models of the tables that have seconds and GiB of peers, each with (seconds, GiB) by system: those
    beside DGL on the first graph, and those beside PyG."""
    groups = []
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("| graph | model | f32 | bf16 | blocks | DGL |"):
            systems = {2: "weft", 3: "weft, bf16", 5: "DGL"}
            next(lines)
            rows = [cells(next(lines)) for _ in range(3)]  # of one graph
            assert rows[0][0].startswith("uniform, 200,000") and not rows[1][0] and not rows[2][0]
            groups += [
                (row[1].split()[0], {name: pair(row[k]) for k, name in systems.items()}) for row in rows
            ]
        elif line.startswith("| convolution | weft | PyG | PyG under `torch.compile` |"):
            next(lines)
            while (line := next(lines)).startswith("|"):
                row = cells(line)
                groups.append((row[0].strip("`"), {"weft": pair(row[1]), "PyG": pair(row[2])}))
    return groups


def pair(cell: str) -> tuple[float, float]:
    """Seconds and GiB of a cell, as "1.19 s, 1.07"."""
    found = re.fullmatch(r"([\d.]+)(?: s)?, ([\d.]+)", cell)
    if found is None:
        raise ValueError(f"docs/performance.md: {cell!r} is no time and memory")
    return float(found[1]), float(found[2])


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" {more}>{escape(words)}</text>'


def picture(groups: list[tuple[str, dict[str, tuple[float, float]]]]) -> str:
    """Two charts of bars, of seconds and of GiB, a group of bars for each model. Each group is scaled to its
    largest bar, which has its figure, so that small models are seen."""
    out = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {2 * HEIGHT}" '
            'font-family="sans-serif" font-size="12">'
        ),
        "<title>Time of an epoch and peak memory of weft beside DGL and PyG</title>",
        f'<rect width="{WIDTH}" height="{2 * HEIGHT}" fill="white"/>',
    ]
    for chart, title in enumerate(("Seconds of an epoch", "GiB at the peak of memory")):
        above = chart * HEIGHT
        out.append(text(16, above + 24, title, 'font-size="15" font-weight="bold"'))
        x = 16.0
        for name, colour in COLOURS.items():
            out.append(f'<rect x="{x:g}" y="{above + 34}" width="11" height="11" fill="{colour}"/>')
            out.append(text(x + 15, above + 44, name))
            x += 34 + 7 * len(name)
        step = (WIDTH - 32) / len(groups)
        for k, (model, systems) in enumerate(groups):
            most = max(value[chart] for value in systems.values())
            bar = min(30.0, (step - 20) / len(systems))
            x = 16 + k * step + (step - bar * len(systems)) / 2
            floor = above + HEIGHT - BOTTOM
            for system, value in systems.items():
                height = (HEIGHT - TOP - BOTTOM - 18) * value[chart] / most
                out.append(
                    f'<rect x="{x:.1f}" y="{floor - height:.1f}" width="{bar - 3:.1f}" height="{height:.1f}" '
                    f'fill="{COLOURS[system]}"/>'
                )
                label = f"{value[chart]:.{2 if value[chart] < 1 else 1 if value[chart] < 10 else 0}f}"
                out.append(
                    text(
                        round(x + bar / 2 - 1.5, 1),
                        round(floor - height - 4, 1),
                        label,
                        'text-anchor="middle" font-size="11"',
                    )
                )
                x += bar
            out.append(text(round(16 + (k + 0.5) * step, 1), floor + 16, model, 'text-anchor="middle"'))
        out.append(f'<path d="M16 {above + HEIGHT - BOTTOM + 0.5}H{WIDTH - 16}" stroke="#444"/>')
    out.append(
        text(
            16,
            2 * HEIGHT - 4,
            "Each model is scaled to its largest bar. One random graph of 200,000 vertices, two cores.",
            'fill="#555"',
        )
    )
    return "\n".join([*out, "</svg>", ""])


if __name__ == "__main__":
    (DOCUMENTS / "speed.svg").write_text(picture(figures((DOCUMENTS / "performance.md").read_text())))
