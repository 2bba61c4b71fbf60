package edges

import (
	"slices"
	"testing"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/require"
	"weft/kernel"
	"weft/tensor"
)

// TestMessages: a message has a sixth of a partition's rows, rounded up, and at least 512. Only the last
// message is smaller, and none is empty.
func TestMessages(t *testing.T) {
	for _, c := range []struct {
		n, partition int
		want         []int
	}{
		{0, 5000, nil},
		{1, 5000, []int{1}},
		{512, 100, []int{512}},
		{513, 100, []int{512, 1}},
		{1234, 3702, []int{617, 617}},
		{1234, 3703, []int{618, 616}},
		{1235, 3702, []int{617, 617, 1}},
		{6000, 6000, []int{1000, 1000, 1000, 1000, 1000, 1000}},
	} {
		if got := messages(c.n, c.partition); !slices.Equal(got, c.want) {
			t.Errorf("%d rows of %d go in %d, want %d", c.n, c.partition, got, c.want)
		}
	}
}

// TestSymmetricOfPlainEdges: edges without weights that have no reverse edge need both matrices, in the first
// partition and in later ones.
func TestSymmetricOfPlainEdges(t *testing.T) {
	for name, c := range map[string]struct {
		source, target []int32
		once           bool
	}{
		"a circle":             {[]int32{0, 1, 2, 3}, []int32{1, 2, 3, 0}, false},
		"an edge from the end": {[]int32{3}, []int32{0}, false},
		"a path":               {[]int32{0, 1, 2, 1}, []int32{1, 0, 1, 2}, true},
	} {
		for _, before := range []int32{0, 5} {
			var list graph.Edges
			for i, u := range c.source {
				list.Source, list.Target = append(list.Source, before+u), append(list.Target, c.target[i])
			}
			r, err := graph.NewBipartite(int(before)+4, 4, list)
			require.NoError(t, err)
			mem := tensor.NewMeter()
			defer mem.Close()
			s := Source{Relation: &r, Starts: []int{0, 4}, Holders: []int{0}}
			if before > 0 {
				s.Starts, s.Holders, s.Me = []int{0, int(before), int(before) + 4}, []int{0, 1}, 1
			}
			e, _, err := read(kernel.NewTeam(1, mem), s)
			require.NoError(t, err)
			if once := e.Local().Out == e.Local().In; once != c.once {
				t.Errorf("%s behind %d vertices is held once: %v", name, before, once)
			}
		}
	}
}

// TestLoopBlock: stored self loops are edges with their weights, each as often as it is stored. Instead, each
// vertex may have one loop of weight 1.
func TestLoopBlock(t *testing.T) {
	list := graph.Edges{
		Source: []int32{1, 0, 1, 2, 1}, Target: []int32{1, 1, 1, 2, 0},
		Weights: []float32{3, 9, 4, 5, 8},
	}
	r, err := graph.NewRelation(4, list)
	require.NoError(t, err)
	mem := tensor.NewMeter()
	defer mem.Close()
	e, err := New(kernel.NewTeam(1, mem), comm.Alone(),
		Source{Relation: &r, Starts: []int{0, 4}, Holders: []int{0}})
	require.NoError(t, err)
	for loops, want := range map[gnn.Loops]struct {
		indptr  []int64
		columns []int32
		weights []float32
	}{
		gnn.OnlyLoops: {[]int64{0, 0, 2, 3, 3}, []int32{1, 1, 2}, []float32{3, 4, 5}},
		gnn.LastLoops: {[]int64{0, 0, 1, 2, 2}, []int32{1, 2, 0}, []float32{4, 5, 0}}, // room for all
		gnn.OneLoop:   {[]int64{0, 1, 2, 3, 4}, []int32{0, 1, 2, 3}, []float32{1, 1, 1, 1}},
	} {
		a := e.loopBlock(loops).In
		if !slices.Equal(a.Indptr.Int64s(), want.indptr) || !slices.Equal(a.Indices.Int32s(), want.columns) ||
			!slices.Equal(a.Values.Floats(), want.weights) {
			t.Errorf("%v %v %v, want %v", a.Indptr.Int64s(), a.Indices.Int32s(), a.Values.Floats(), want)
		}
	}
	if e.Entries() != 2 {
		t.Errorf("%d edges besides, want 2", e.Entries())
	}
}
