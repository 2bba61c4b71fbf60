package launch

import (
	"errors"
	"testing"

	"weft/internal/assert"
	"weft/internal/refusal"
)

// TestCall: ranks that call alike and bring the same go on. Else all have one error, about the lowest rank
// that refuses its call, calls otherwise than rank 0, or brings something else. Their connection is whole.
func TestCall(t *testing.T) {
	mk := func(text string, sums ...uint32) Call {
		c := Call{Says: text, Unlike: "has others than rank 0"}
		for k, sum := range sums {
			c.Alike = append(c.Alike, Alike{string(rune('a' + k)), sum})
		}
		return c
	}
	none := make([]error, 3)
	for name, c := range map[string]struct {
		calls []Call // by rank
		errs  []error
		want  string // "": none
	}{
		"alike":    {[]Call{mk("sum", 1, 2), mk("sum", 1, 2), mk("sum", 1, 2)}, none, ""},
		"nothing":  {[]Call{mk("sum"), mk("sum"), mk("sum")}, none, ""},
		"says":     {[]Call{mk("sum"), mk("sum"), mk("rows")}, none, "rank 2 calls rows, and rank 0 sum: "},
		"first":    {[]Call{mk("sum"), mk("rows"), mk("rows")}, none, "rank 1 calls rows, and rank 0 sum: "},
		"brings":   {[]Call{mk("sum", 1, 2), mk("sum", 1, 3), mk("sum", 3, 2)}, none, "b: rank 1 has others"},
		"brings 2": {[]Call{mk("sum", 1, 2), mk("sum", 1, 2), mk("sum", 3, 2)}, none, "a: rank 2 has others"},
		"several": {
			[]Call{mk("sum", 1, 2, 3, 4, 5), mk("sum", 0, 0, 3, 0, 0), mk("sum", 1)},
			none,
			"a, b, d, and 1 more: rank 1 has others than rank 0",
		},
		"more":  {[]Call{mk("sum", 1), mk("sum", 1), mk("sum", 1, 2)}, none, "b: rank 2 has others than rank 0"},
		"fewer": {[]Call{mk("sum", 1, 2), mk("sum", 1, 2), mk("sum", 1)}, none, "b: rank 2 has others than rank 0"},
		"refused": {
			[]Call{mk("sum", 1), mk("rows", 2), mk("")},
			[]error{nil, nil, refusal.Errorf("no: %w", own{})},
			"rank 2: no: a fault",
		},
		"refused by all": {
			[]Call{mk("sum"), mk("sum"), mk("sum")}, []error{own{}, errors.New("another"), nil}, "a fault",
		},
	} {
		for rank, err := range each(3, func(r Ranks) error {
			err := r.Begin(&c.calls[r.Rank()], c.errs[r.Rank()])
			assert.NoError(t, r.Together(nil), name)
			return err
		}) {
			if c.want == "" {
				assert.NoError(t, err, name)
				continue
			}
			assert.ErrorContains(t, err, c.want, "%s: rank %d", name, rank)
			assert.Equal(t, true, isCommon(err), "%s: rank %d: %v", name, rank, err)
			if c.errs[rank] != nil && rank == 0 {
				assert.ErrorIs(t, err, c.errs[rank], name)
			}
		}
	}
	call := mk("sum", 1)
	assert.NoError(t, alone.Begin(&call, nil), "alone")
	assert.ErrorIs(t, alone.Begin(&call, own{}), own{}, "alone")
}
