"""What ../device/check.py computes of a trial. That trials run is tested there."""

import card


def span(category, start, end, name="", **args):
    return {"ph": "X", "cat": category, "name": name, "ts": start, "dur": end - start, "args": args}


def test_beside():
    """Copies are at work from 0 to 10 and from 20 to 30, and kernels beside from 4 to 10 and from 22 to 28.
    One copy was asked for before, one is longer at work than the link's rate tells, and a kernel waits for
    one."""
    link = {"to_device": 2e6, "to_host": 1e6}  # bytes a second
    spans = [
        span("copy", 0, 6, "to device", bytes=100),
        span("copy", 5, 10, "to host", bytes=100),
        span("copy", 11, 30, "to device", bytes=20),
        span("copy", 40, 90, "to host", bytes=50, caller="nn.Loss"),
        span("compute", 4, 19),
        span("compute", 22, 24),
        span("compute", 23, 28),
        span("compute", 35, 60),
        span("phase", 0, 100),
    ]
    assert card.beside_kernels({"traceEvents": [{"ph": "M", "name": "thread_name"}, *spans]}, link) == 12 / 20


def test_compared():
    """A link of 10 and 5 bytes a second takes 4 s for 40 up, and 2 s for 10 down at the same time."""
    run, link = {"to_device_bytes": 40, "to_host_bytes": 10}, {"to_device": 10, "to_host": 5}
    for seconds, in_memory, times, hidden in (
        (6, 5, 1.2, 0.75),
        (4.5, 2, 1.125, 0.75),
        (9, 5, 1.8, 0),
        (3.9, 1, 0.975, 1),
    ):
        found = card.compared(seconds, in_memory, run, link)
        assert found == {"copies_seconds": 4, "times_bound": times, "hidden": hidden}
    assert card.compared(5, None, run, link) == {"copies_seconds": 4, "times_bound": 1.25}


def test_steady():
    """The first three epochs and the last one are profiled."""
    assert card.steady([9, 8, 8, 2, 4, 3, 7]) == 3 and card.steady([9, 8, 7]) == 7
