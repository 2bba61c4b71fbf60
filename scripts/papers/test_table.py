"""The table of settings on cards: a plan stands in for weft's, and weft plans what is quick."""

import os

import table


def test_first_that_fits():
    """Of a graph that takes 40 GB in f32, 20 in bf16, and an equal part of that on each of several cards. Of
    partitions 1 GB is always there."""

    def fits(gb, workers, *flags):
        return 40 / int(workers.removeprefix("--workers=")) / (2 if "--precision=bf16" in flags else 1) <= gb

    def least(n):
        return 1e9 + 20e9 / n

    assert [table.one_card(fits, least, gb) for gb in (40, 39, 19, 6.6, 6.5, 2, 1)] == [
        "f32",
        "bf16",
        "4",
        "4",
        "8",
        "–",
        "–",
    ]
    assert [table.how_many(fits, gb) for gb in (20, 19, 1)] == ["1", "2", "32"]


def test_of_partitions(monkeypatch):
    """Memory grows with the rows of a partition: here by 100 bytes for each, beside a megabyte."""
    monkeypatch.setattr(
        table, "of_random", lambda weft, vertices, degree, features, classes, n: 10**6 + 100 * vertices // n
    )
    assert table.of_partitions("weft", (8_000_000, 96_000_000, 16, 4), 8) == 10**6 + 100 * 10**6


def test_weft():
    """The plan of the smallest graph."""
    graph = {"ogbn-arxiv": table.GRAPHS["ogbn-arxiv"]}
    heads, found = table.rows(os.environ["WEFT_PROGRAM"], graph, cards=(8, 1), several=(1,))
    assert heads == ["SAGE 3×256", "all in f32", "all in bf16", "8 GB", "1 GB", "cards of 1 GB"]
    assert found[0] == "ogbn-arxiv" and found[3:] == ["f32", "bf16", "1"]
    assert 0.9 < float(found[1].removesuffix(" GB")) < 1.1
