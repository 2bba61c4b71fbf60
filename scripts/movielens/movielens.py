"""Ratings of MovieLens 100k as labels of edges: RMSE beside published ones. Run by `make movielens`.

    movielens.py [--seeds 5] [--folder F] [--weft bin/weft]

The ratings come from PyPI: the wheel of RecBole has those of GroupLens in their order. The first 20,000 of
them are u1.test of MovieLens 100k, and the other 80,000 u1.base. A GraphSAGE over both directions of the
edges of u1.base learns their ratings; vertices have learned embeddings and no features. A twentieth of
u1.base, the same for all seeds, selects the epoch; a tenth of it chose the settings. The ratings of u1.test
are used to measure only, and their edges pass no messages: `weft predict --add-edges` scores them. The table
goes to standard output, progress to standard error. Exit status: 0 done, 1 where a step fails, 2 where the
ratings are not those of MovieLens 100k. Standard library only.
"""

import argparse
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys
import tempfile
import zipfile

WHEEL = "recbole==1.2.1"
RATINGS = "recbole/dataset_example/ml-100k/ml-100k.inter"
TEST = 20_000  # of the first ratings
SETTINGS = (
    "--model sage --node-embedding 64 --dropout 0.3 --weight-decay 5e-5 --lr 0.005 --epochs 400 --patience "
    "100"
)

# On u1.base and u1.test, without features of users and movies.
PUBLISHED = [
    ("GC-MC (van den Berg, Kipf and Welling 2017, arXiv:1706.02263)", 0.910),
    ("IGMC (Zhang and Chen 2020, arXiv:1904.12058)", 0.905),
]


def fetched(folder):
    """The rows of user, movie and rating, in their order, of the wheel that pip fetches."""
    pip = f"-m pip download --quiet --disable-pip-version-check --no-deps {WHEEL} --dest"
    subprocess.run([sys.executable, *pip.split(), folder], check=True)
    (wheel,) = pathlib.Path(folder).glob("*.whl")
    with zipfile.ZipFile(wheel) as z:
        lines = z.read(RATINGS).decode().splitlines()[1:]
    return [line.split("\t")[:3] for line in lines]


def unlike(ratings):
    """What of the ratings is not as in MovieLens 100k, whose u1.test has the movies of 459 users; empty:
    nothing."""
    users = {user for user, _, _ in ratings[:TEST]}
    if len(ratings) != 100_000 or len(users) != 459 or max(map(int, users)) != 462:
        return f"{len(ratings)} ratings, of which the first {TEST} are of {len(users)} users"
    return ""


def write(path, header, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])


def tables(ratings, folder):
    """Writes the tables: users, movies, the edges of u1.base, and those of u1.test without their ratings."""
    edges = [(f"u{user}", f"m{movie}", rating) for user, movie, rating in ratings]
    for name, end in (("users", 0), ("movies", 1)):
        write(folder / f"{name}.csv", ["id"], [[name] for name in dict.fromkeys(edge[end] for edge in edges)])
    write(folder / "base.csv", ["user", "movie", "rating"], edges[TEST:])
    write(folder / "test.csv", ["user", "movie"], [edge[:2] for edge in edges[:TEST]])


def rmse(path, ratings):
    """The RMSE of a table of predictions, whose rows are those of the ratings."""
    with open(path, newline="") as file:
        values = {int(row["row"]): float(row["value"]) for row in csv.DictReader(file)}
    return math.sqrt(
        statistics.fmean((values[k] - float(rating)) ** 2 for k, (_, _, rating) in enumerate(ratings))
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5, help="trainings, with the seeds from 0 on")
    parser.add_argument(
        "--folder", help="folder for tables, store and runs (default: a temporary one, which is removed)"
    )
    parser.add_argument("--weft", default="bin/weft", help="the command to drive")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="weft-movielens-") as temporary:
        return reproduce(asked, pathlib.Path(asked.folder or temporary))


def reproduce(asked, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="weft-wheel-") as wheel:
        ratings = fetched(wheel)
    if why := unlike(ratings):
        print(f"movielens: {WHEEL}: {why}: these are not MovieLens 100k", file=sys.stderr)
        return 2
    tables(ratings, folder)

    def weft(*words):
        return subprocess.run(
            [asked.weft, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    store = folder / "store"
    weft(
        *("import", "edges", f"rates={folder / 'base.csv'}", store, "--source", "user", "--target", "movie"),
        *(
            "--vertices-from",
            f"user={folder / 'users.csv'}",
            "--vertices-from",
            f"movie={folder / 'movies.csv'}",
        ),
        *("--edge-label", "rating", "--values", "--reverse-relations", "--split", "random:95/5/0", "--quiet"),
    )
    val, test = [], []
    for seed in range(asked.seeds):
        run, scores = folder / f"run-{seed}", folder / f"scores-{seed}.csv"
        result = json.loads(
            weft(
                "train",
                store,
                "--edge-label",
                "rating",
                *SETTINGS.split(),
                "--seed",
                seed,
                "--out",
                run,
                "--json",
            )
        )
        weft("predict", run, "--add-edges", f"rates={folder / 'test.csv'}", "--out", scores, "--quiet")
        val.append(result["val"])
        test.append(rmse(scores, ratings[:TEST]))
        print(f"seed {seed}: validation {val[-1]:.4f}, u1.test {test[-1]:.4f}", file=sys.stderr)

    def spread(values):
        return f"{statistics.fmean(values):.4f}" + (
            f" ± {statistics.stdev(values):.4f}" if len(values) > 1 else ""
        )

    print(f"RMSE on u1.test of MovieLens 100k, {len(test)} seeds")
    print(f"weft train {SETTINGS}: {spread(test)} (validation {spread(val)})")
    for name, published in PUBLISHED:
        print(f"{name}, published: {published:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
