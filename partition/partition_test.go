package partition

import (
	"context"
	"errors"
	"slices"
	"testing"

	"weft/graph"
	"weft/internal/assert"
	"weft/internal/require"
)

func sizes(a *Assignment) []int {
	n := make([]int, a.K)
	for _, p := range a.Parts {
		n[p]++
	}
	return n
}

func TestBalanced(t *testing.T) {
	g := made(t, 1003, 5000, kinds["bare"], 2)
	for _, o := range []Options{{K: 7, Method: Random}, {K: 7, Method: Range}} {
		a, err := Assign(context.Background(), g, o)
		require.NoError(t, err)
		if n := sizes(a); slices.Max(n)-slices.Min(n) > 1 {
			t.Errorf("%s: sizes %v", o.Method, n)
		}
	}
	// The isolated vertices are at the end: ranges of equally many edges are not equally long.
	a, err := Assign(context.Background(), g, Options{K: 7, Method: Range, Balance: ByEdges})
	require.NoError(t, err)
	s := counted(t, g, a)
	weight, heaviest := make([]int64, 7), int64(0)
	for p := range weight {
		weight[p] = s.Edges[p] + int64(s.Vertices[p])
	}
	for v := range g.Vertices() {
		heaviest = max(heaviest, g.Relations[0].Indptr[v+1]-g.Relations[0].Indptr[v]+1)
	}
	if !slices.IsSorted(a.Parts) || slices.Max(weight)-slices.Min(weight) > 2*heaviest ||
		s.Vertices[0] == s.Vertices[6] {
		t.Errorf("weights %v of vertices %v, the heaviest %d", weight, s.Vertices, heaviest)
	}
}

func TestSeedDecides(t *testing.T) {
	g := made(t, 400, 2000, kinds["plain"], 2)
	for _, method := range []string{Metis, Random} {
		assigned := func(seed uint64) []int32 {
			a, err := Assign(context.Background(), g, Options{K: 4, Method: method, Seed: seed})
			require.NoError(t, err)
			return a.Parts
		}
		assert.Equal(t, assigned(1), assigned(1), "%s: the same seed gave two assignments", method)
		if slices.Equal(assigned(1), assigned(2)) {
			t.Errorf("%s: two seeds gave the same assignment", method)
		}
	}
}

func TestAssignRefuses(t *testing.T) {
	g := made(t, 9, 20, kinds["plain"], 2)
	for _, test := range []struct {
		o    Options
		want string
	}{
		{Options{K: 0, Method: Random}, "partitions 0: give"},
		{Options{K: -1, Method: Random}, "partitions -1: give"},
		{Options{K: 10, Method: Random}, "10 partitions of 9 vertices"},
		{Options{K: MaxPartitions + 1, Method: Random}, "between 1 and 1024"},
		{Options{K: 2, Method: "spectral"}, `unknown partition method "spectral"`},
		{Options{K: 2, Method: Range, Balance: "time"}, "balance time: unknown balance"},
		{Options{K: 2, Method: Random, Balance: ByEdges}, "random does not balance edges"},
		{Options{K: 2, Method: Range, Balance: ByTrain}, "range does not balance training vertices"},
		{Options{K: 2, Balance: ByTrain, Split: 2}, "the graph has 2 splits"},
		{Options{K: 2, Method: Range, Split: 2}, "no training vertices of split 2"},
		{Options{K: 2, Method: Range, Split: -1}, "split -1"},
		{Options{K: 2, Method: File}, "needs --file"},
		{Options{K: 2, Method: Random, File: "f"}, "give --method file"},
		{Options{K: 2, Method: DGL}, "come with a graph that DGL divided"},
	} {
		_, err := Assign(context.Background(), g, test.o)
		assert.Refused(t, err, test.want, "%+v", test.o)
	}
}

func TestSplitRefuses(t *testing.T) {
	g := made(t, 3, 4, kinds["bare"], 2)
	for _, a := range []*Assignment{
		{K: 2, Parts: []int32{0, 1}},
		{K: 2, Parts: []int32{0, 1, 2}},
		{K: 2, Parts: []int32{0, -1, 1}},
		{K: 0, Parts: []int32{0, 0, 0}},
	} {
		_, err := Split(g, a)
		assert.Refused(t, err, "", "%+v", a)
	}
}

func TestAssignStops(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	g := graph.Of(graph.Relation{Indptr: make([]int64, 5)})
	_, err := Assign(ctx, g, Options{K: 2, Method: Random})
	assert.ErrorIs(t, err, stop)
}
