package tp

import (
	"slices"
	"testing"

	"weft/autograd"
)

// TestSegments: a slice of heads of 4 columns is divided, by hand, into a part of a head, all whole heads
// together, and a part of a head.
func TestSegments(t *testing.T) {
	for _, c := range []struct {
		slice span
		want  []segment
	}{
		{span{0, 0}, nil},
		{span{0, 12}, []segment{{from: 0, count: 12, head: 0, heads: 3}}},
		{span{4, 8}, []segment{{from: 4, count: 8, head: 1, heads: 2}}},
		{span{0, 3}, []segment{{from: 0, count: 3, head: 0, heads: 1}}},
		{span{1, 2}, []segment{{from: 1, count: 2, head: 0, heads: 1}}},
		{span{3, 5}, []segment{
			{from: 3, count: 1, head: 0, heads: 1},
			{from: 4, count: 4, head: 1, heads: 1},
		}},
		{span{2, 12}, []segment{{2, 2, 0, 1}, {4, 8, 1, 2}, {12, 2, 3, 1}}},
	} {
		if got := segments(c.slice, 4); !slices.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.slice, got, c.want)
		}
	}
}

// TestInputs: a value that is source and target is redistributed once.
func TestInputs(t *testing.T) {
	x, y := new(autograd.Var), new(autograd.Var)
	for _, c := range []struct {
		target *autograd.Var
		want   []*autograd.Var
	}{{nil, []*autograd.Var{x}}, {x, []*autograd.Var{x}}, {y, []*autograd.Var{x, y}}} {
		var got []*autograd.Var
		for _, in := range (module{}).inputs(nil, x, c.target) {
			got = append(got, in.x)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("target %p: %p, want %p", c.target, got, c.want)
		}
	}
}
