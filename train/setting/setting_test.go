package setting

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/refusal"
	"weft/internal/require"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/partition"
)

// TestSettingsOfAMesh: what is for an axis belongs to meshes with it, and the wait for another worker to all
// that have one.
func TestSettingsOfAMesh(t *testing.T) {
	for m, want := range map[mesh.Mesh][3]bool{
		mesh.One:                              {false, false, false},
		{Stages: 1, Partitions: 2, Slices: 1}: {true, false, true},
		{Stages: 2, Partitions: 1, Slices: 1}: {false, false, true},
		{Stages: 1, Partitions: 1, Slices: 2}: {false, true, true},
		{Stages: 1, Partitions: 2, Slices: 2}: {true, true, true},
	} {
		for i, name := range []string{"prefetch", "aggregation-chunks", "comm-timeout"} {
			if s, _ := settingNamed(name); s.appliesTo(m) != want[i] {
				t.Errorf("%s on %+v: %v", name, m, s.appliesTo(m))
			}
		}
	}
}

// counts are those of a graph of like vertex types.
func counts(vertices, columns, types int) partition.Whole {
	t := partition.WholeType{Vertices: vertices, FeatureColumns: columns}
	return partition.Whole{Vertices: types * vertices, Types: slices.Repeat([]partition.WholeType{t}, types)}
}

// TestCountsOnAMesh: a graph without vertices, labels or features is refused where a run needs them, and
// several vertex types on a mesh that divides the rows of one. What has all is taken.
func TestCountsOnAMesh(t *testing.T) {
	for _, c := range []struct {
		model, parallel string
		embedding       int
		whole           partition.Whole
		outputs         int
		want            string // of the refusal; none: taken
	}{
		{"gcn", "", 0, counts(1, 1, 1), 1, ""},
		{"gcn", "", 0, counts(0, 1, 1), 1, "the graph has no vertices"},
		{"gcn", "", 0, counts(1, 1, 1), 0, "the graph has no labels"},
		{"gcn", "", 0, counts(1, 0, 1), 2, "the graph has no features; import it"},
		{"gcn", "", 4, counts(1, 0, 1), 2, ""},
		{"rgcn", "", 0, counts(1, 0, 1), 2, ""},
		{"gcn", "graph=2", 4, counts(3, 0, 1), 2, ""},
		{"gcn", "tensor=2", 4, counts(3, 0, 1), 2, ""},
		{"gcn", "pipeline=2", 4, counts(3, 0, 1), 2, ""},
		{"rgcn", "pipeline=2", 0, counts(3, 0, 1), 2, "take --node-embedding N, or --parallel graph=2 or tensor=2"},
		{"gcn", "tensor=2", 0, counts(3, 2, 1), 2, ""},
		{"rgcn", "", 0, counts(3, 2, 2), 2, ""},
		{"rgcn", "graph=2", 0, counts(3, 2, 2), 2, ""},
		{"rgcn", "tensor=2", 0, counts(3, 2, 2), 2, ""},
		{"rgcn", "pipeline=2", 0, counts(3, 2, 2), 2, ""},
	} {
		o := Defaults()
		o.Model, o.Parallel, o.NodeEmbedding = c.model, c.parallel, c.embedding
		r, err := o.Resolve()
		require.NoError(t, err, "%s %s", c.model, c.parallel)
		err = r.CheckCounts(&c.whole, c.outputs)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !refusal.Is(err) ||
			!strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s %q, %+v: %v, want %q", c.model, c.parallel, c.whole, err, c.want)
		}
		some := r.CheckSome()
		if axes := strings.Contains(c.parallel, "tensor") ||
			strings.Contains(c.parallel, "pipeline"); (some != nil) != axes {
			t.Errorf("some vertices on %q: %v", c.parallel, some)
		}
	}
}

// TestNormsOfSeveralGraphs: a norm over all vertices would mix the statistics of graphs that have their own.
func TestNormsOfSeveralGraphs(t *testing.T) {
	for _, c := range []struct {
		model, norm string
		graphs      int
		refused     bool
	}{
		{"gcn", "graph", 3, true},
		{"gcn", "pair", 2, true},
		{"gcn", "graph", 1, false},
		{"gcn", "pair", 0, false},
		{"gcn", "batch", 3, false},
		{"gcn", "layer", 3, false},
	} {
		o := Defaults()
		o.Model, o.Norm = c.model, c.norm
		r, err := o.Resolve()
		require.NoError(t, err)
		want := fmt.Sprintf("--norm %s: its statistics are those of one graph, and the store has %d graphs; "+
			"take batch or layer, or give one graph", c.norm, c.graphs)
		whole := counts(9, 2, 1)
		whole.Graphs = c.graphs
		err = r.CheckCounts(&whole, 2)
		if c.refused && (!refusal.Is(err) || err.Error() != want) || !c.refused && err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// TestMorePartitionsThanVertices: the refusal names the setting that asks for too many partitions.
func TestMorePartitionsThanVertices(t *testing.T) {
	g, err := generate.Graph(generate.Options{
		Kind: generate.SBM, Vertices: 6, Degree: 2, Features: 3, Classes: 2,
	})
	require.NoError(t, err)
	for _, c := range []struct {
		parallel   string
		partitions int
		named      string
	}{
		{"graph=7", 0, "--parallel graph=7: "},
		{"", 7, "--partitions 7: "},
		{"graph=2", 7, "--partitions 7: "},
	} {
		o := Defaults()
		o.Parallel, o.Partitions = c.parallel, Partitions(c.partitions)
		r, err := o.Resolve()
		require.NoError(t, err)
		if err := r.CheckGraph(g); err == nil || !strings.HasPrefix(err.Error(), c.named) {
			t.Errorf("%v does not begin with %q", err, c.named)
		}
	}
}

// TestHolders: a worker holds the same slice of consecutive partitions.
func TestHolders(t *testing.T) {
	for _, c := range []struct {
		parallel   string
		partitions int
		want       []int // by partition, then slice
	}{
		{"graph=2", 0, []int{0, 1}},
		{"graph=2", 5, []int{0, 0, 0, 1, 1}},
		{"graph=2,tensor=2", 0, []int{0, 1, 2, 3}},
		{"tensor=2", 3, []int{0, 1, 0, 1, 0, 1}},
		{"graph=2,tensor=3", 3, []int{0, 1, 2, 0, 1, 2, 3, 4, 5}},
		{"pipeline=2", 0, []int{0, 1}},
	} {
		o := Defaults()
		o.Parallel, o.Partitions = c.parallel, Partitions(c.partitions)
		r, err := o.Resolve()
		require.NoError(t, err)
		assert.Equal(t, c.want, r.Holders(), "%s, %d partitions", c.parallel, c.partitions)
	}
}

// TestPartitionsAreRefused: what several partitions on a worker do not go with is refused.
func TestPartitionsAreRefused(t *testing.T) {
	for _, c := range []struct {
		parallel                      string
		partitions, aggregationChunks int
		offload                       string
		want                          string
	}{
		{"pipeline=2", 4, 0, "", "partitions 4 on the mesh pipeline=2: a stage divides its rows into chunks"},
		{"pipeline=2", 0, 0, "d", "matrices of a stage rest in the host's memory alone, below a card"},
		{"pipeline=2", 0, 0, RAM, "--offload ram copies other bytes for each order, and plans one"},
		{"graph=3,tensor=2", 2, 0, "", "take --partitions 3 or more"},
		{"tensor=4", 257, 0, "", "take --partitions 256 or less"},
		{"tensor=2", 4, 3, "", "each of the 4 partitions is aggregated in one chunk"},
		{"graph=2,tensor=2", 2, 0, "d", "give --partitions N, more than the 2 of the mesh"},
		{"tensor=2", 0, 0, "d", "give --partitions N, more than the 1 of the mesh"},
	} {
		o := Defaults()
		o.Layers, o.Parallel, o.Partitions, o.Offload = 3, c.parallel, Partitions(c.partitions), c.offload
		if o.AggregationChunks = axis.Chunks(c.aggregationChunks); c.offload == RAM {
			o.Device = AllCards
		}
		_, err := o.Resolve()
		assert.ErrorContains(t, err, c.want, "%s, %d partitions", c.parallel, c.partitions)
	}
}

// TestPartitionOfTurns: how vertices are divided stays on a mesh whose workers hold several partitions.
func TestPartitionOfTurns(t *testing.T) {
	for partitions, want := range map[int]string{0: autoPartition, 4: "random"} {
		o := Defaults()
		o.Parallel, o.Partitions, o.Partition = "tensor=2", Partitions(partitions), "random"
		o.ResetOtherAxes(func(string) bool { return false })
		assert.Equal(t, want, o.Partition, "%d partitions by", partitions)
	}
}

// TestRounded: amounts are written in the largest decimal unit of which there is one (IEC 80000-13), with a
// decimal below ten.
func TestRounded(t *testing.T) {
	for b, want := range map[Bytes]string{
		0: "0 B", 7: "7 B", 999: "999 B", 1000: "1.0 kB", 9_900: "9.9 kB", 10_000: "10 kB", 999_000: "999 kB",
		1_000_000: "1.0 MB", 2_500_000_000: "2.5 GB", 31_000_000_000_000: "31 TB",
		4_000_000_000_000_000: "4000 TB",
	} {
		assert.Equal(t, want, b.Rounded(), "%d is written", int64(b))
	}
}

// TestRoundedUp: the amount that is written suffices as a limit, and is the least with its digits.
func TestRoundedUp(t *testing.T) {
	for b, want := range map[Bytes]string{
		0: "0 B", 999: "999 B", 1001: "1.1 kB", 1100: "1.1 kB", 9_901: "10 kB", 10_001: "11 kB",
		44_100_001:  "45 MB",
		999_000_001: "1.0 GB", 2_200_000_000: "2.2 GB", 2_200_000_001: "2.3 GB",
		4_000_000_000_000_001: "4001 TB",
	} {
		got := b.RoundedUp()
		var read Bytes
		if err := read.UnmarshalText([]byte(got)); got != want || read < b || err != nil {
			t.Errorf("%d is written %q and read %d, %v, want %q", int64(b), got, int64(read), err, want)
		}
	}
}
