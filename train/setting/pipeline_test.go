package setting

import (
	"strings"
	"testing"

	"weft/gnn"
	"weft/internal/assert"
	"weft/internal/require"
	"weft/parallel/axis"
	"weft/parallel/mesh"
	"weft/partition"
)

// TestChunksOfPartition: partitions have equally many chunks, four for each worker of the mesh, but never
// more than the smallest has rows.
func TestChunksOfPartition(t *testing.T) {
	for _, c := range []struct {
		chunks    axis.Chunks
		mesh      mesh.Mesh
		starts    []int
		k, wanted int
	}{
		{0, mesh.Mesh{Stages: 4, Partitions: 1, Slices: 1}, []int{0, 100}, 16, 16},
		{0, mesh.Mesh{Stages: 4, Partitions: 2, Slices: 1}, []int{0, 50, 100}, 16, 16},
		{0, mesh.Mesh{Stages: 4, Partitions: 2, Slices: 1}, []int{0, 93, 100}, 7, 16},
		// what is empty is not divided
		{0, mesh.Mesh{Stages: 2, Partitions: 3, Slices: 1}, []int{0, 50, 100, 100}, 8, 8},
		{6, mesh.Mesh{Stages: 2, Partitions: 3, Slices: 1}, []int{0, 40, 80, 100}, 2, 2},
		{1, mesh.Mesh{Stages: 2, Partitions: 1, Slices: 1}, []int{0, 5}, 1, 1},
	} {
		r := Resolved{Options: Options{Options: axis.Options{Chunks: c.chunks}}, Meshes: Meshes{Mesh: c.mesh}}
		k, wanted := r.ChunksOfPartition(c.starts, 1)
		assert.Equal(t, c.k, k, "%s of %v by %+v", c.chunks, c.starts, c.mesh)
		assert.Equal(t, c.wanted, wanted, "%s of %v by %+v", c.chunks, c.starts, c.mesh)
	}
}

// TestNormsInAPipeline: layer norm is no obstacle, nor is batch norm with a chunk for each partition.
func TestNormsInAPipeline(t *testing.T) {
	for _, set := range []func(*Options){
		func(o *Options) { o.Norm = "layer" },
		func(o *Options) { o.Norm, o.Chunks = "batch", 2 },
		func(o *Options) { o.Norm, o.Chunks = "pair", 2 },
		func(o *Options) { o.Model, o.Norm = "gcnii", "batch" }, // which it does not use
	} {
		o := Defaults()
		o.Parallel = "graph=2,pipeline=2"
		set(&o)
		_, err := o.Resolve()
		assert.NoError(t, err)
	}
}

// TestRecomputes: auto stands for blocks in a pipeline, and elsewhere for a choice.
func TestRecomputes(t *testing.T) {
	for _, c := range []struct {
		recompute, parallel string
		want                []bool
	}{
		{RecomputeAuto, "", []bool{false, true}},
		{RecomputeAuto, "graph=2,tensor=2", []bool{false, true}},
		{RecomputeAuto, "pipeline=2", []bool{true}},
		{RecomputeNone, "pipeline=2", []bool{false}},
		{RecomputeNone, "graph=2", []bool{false}},
		{RecomputeBlocks, "", []bool{true}},
	} {
		o := Defaults()
		o.Recompute, o.Parallel = c.recompute, c.parallel
		r, err := o.Resolve()
		require.NoError(t, err)
		assert.Equal(t, c.want, r.Recomputes(), "%s on %q", c.recompute, c.parallel)
	}
}

// TestSettingsOfAPipeline: a run writes the settings of the axis, and reads them again.
func TestSettingsOfAPipeline(t *testing.T) {
	o := Defaults()
	o.Parallel, o.Layers, o.Chunks, o.ChunkMethod, o.HistoryPeriod = "pipeline=2,graph=2", 4, 12,
		partition.Merged, 5
	o.HistoryStart, o.ChunkOrder, o.StaleGradients, o.Recompute = axis.Warm, axis.Fixed,
		axis.Keep, RecomputeNone
	written := writtenYAML(t, &o)
	again := Defaults()
	require.NoError(t, parseConfig(written, "", &again))
	assert.Equal(t, o, again, written)
	for _, name := range []string{"prefetch", "keep-halo", "halo", "aggregation-chunks"} {
		if strings.Contains(string(written), "\n"+name+":") {
			t.Errorf("%s stands in\n%s", name, written)
		}
	}
	o.ResetOtherAxes(func(string) bool { return false })
	assert.Equal(t, again, o)
	o.Parallel = "graph=2"
	o.ResetOtherAxes(func(string) bool { return false })
	if o.Chunks != 0 || o.StaleGradients != Defaults().StaleGradients {
		t.Errorf("the settings of another mesh remain: %+v", o)
	}
}

// TestSparseFeaturesCostWhatTheyStore: the first block is weighed by the values that are there, and nothing
// of the caller's model changes.
func TestSparseFeaturesCostWhatTheyStore(t *testing.T) {
	own := []gnn.BlockSpec{{Cost: gnn.Cost{Vertex: 1000, Edge: 3}}, {Cost: gnn.Cost{Vertex: 50, Edge: 3}}}
	for values, want := range map[int64]int{0: 1000, 4000: 1000, 400: 100, 1: 1} {
		whole := counts(100, 40, 1)
		whole.Types[0].FeatureValues = values
		blocks, err := (&Resolved{}).BlockSpecs(&partition.Share{
			Whole: whole, Edges: partition.PartEdges{Relations: make([]partition.Relation, 1)},
		}, 5,
			func(_, _ int) []gnn.BlockSpec { return own })
		if err != nil || blocks[0].Cost != (gnn.Cost{Vertex: want, Edge: 3}) ||
			blocks[1].Cost != own[1].Cost || own[0].Cost.Vertex != 1000 {
			t.Errorf("%d values: %+v, %v", values, blocks, err)
		}
	}
}
