"""What mutants.py makes wrong stands in the sources."""

import mutants


def test_each_mutant_has_a_place():
    found = {(name, text): mutants.source(name).count(text) for name, text, *_ in mutants.MUTANTS}
    assert {place: times for place, times in found.items() if times != 1} == {}
    assert len(found) >= 30
