package setting

import (
	"strings"
	"testing"

	"weft/graph/generate"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/axis"
)

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
	}{{"graph=7", 0, "parallel graph=7: "}, {"", 7, "partitions 7: "}, {"graph=2", 7, "partitions 7: "}} {
		o := Defaults()
		o.Parallel, o.Partitions = c.parallel, c.partitions
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
		o.Parallel, o.Partitions = c.parallel, c.partitions
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
		{"graph=3,tensor=2", 2, 0, "", "take partitions 3 or more"},
		{"tensor=4", 257, 0, "", "take partitions 256 or less"},
		{"tensor=2", 4, 3, "", "aggregation-chunks 3 with 4 partitions: each is aggregated in one chunk"},
		{"graph=2,tensor=2", 2, 0, "d", "give partitions N, more than the 2 of the mesh"},
		{"tensor=2", 0, 0, "d", "give partitions N, more than the 1 of the mesh"},
	} {
		o := Defaults()
		o.Layers, o.Parallel, o.Partitions, o.Offload = 3, c.parallel, c.partitions, c.offload
		o.AggregationChunks = axis.Chunks(c.aggregationChunks)
		_, err := o.Resolve()
		assert.ErrorContains(t, err, c.want, "%s, %d partitions", c.parallel, c.partitions)
	}
}

// TestPartitionOfTurns: how vertices are divided stays on a mesh whose workers hold several partitions.
func TestPartitionOfTurns(t *testing.T) {
	for partitions, want := range map[int]string{0: autoPartition, 4: "random"} {
		o := Defaults()
		o.Parallel, o.Partitions, o.Partition = "tensor=2", partitions, "random"
		o.ResetOtherAxes(func(string) bool { return false })
		assert.Equal(t, want, o.Partition, "%d partitions by", partitions)
	}
}
