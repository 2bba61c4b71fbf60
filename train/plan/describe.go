package plan

import (
	"math"
	"slices"

	"weft/gnn"
	"weft/graph"
	"weft/partition"
	"weft/tensor"
	"weft/train/worker"
)

// measure sets what the dry run has sent, moved and allocated.
func (p *Worker) measure(w *worker.Worker) {
	p.Sent, p.EdgeColumns, p.LayoutBytes = w.LastPass.Sent, w.LastPass.EdgeColumns, w.LastPass.LayoutBytes
	if !w.Fetches.Known() {
		p.Sent.Links = worker.Traffic{} // a dry run draws no negative edges
	}
	if w.TakesTurns() { // a dry run does not sum over partitions that take turns
		p.Sent.Gradient, p.Sent.Statistics = worker.Traffic{}, worker.Traffic{}
	}
	mem := w.Team.Memory
	p.Tensors, p.Graph, p.DiskBytes, p.Parameters = mem.Peak(), mem.GraphBytes(),
		mem.DiskBytes(), w.Params.Count()
	use := mem.DeviceUse()
	p.OnCPU, p.Messages = use.OnCPU, use.StagedBytes
	for k := tensor.Features; k < tensor.Graph; k++ {
		p.Kinds = append(p.Kinds, mem.PeakOf(k))
	}
}

// describe sets what follows from the worker's model, its share and its stage.
func (p *Worker) describe(w *worker.Worker, share *partition.Share) {
	whole := &share.Whole
	p.Predictions = whole.Vertices * w.Outputs
	if slices.ContainsFunc(w.Blocks, func(b gnn.BlockSpec) bool { return b.Cost != gnn.Cost{} }) {
		p.Costs = gnn.Costs(w.Blocks, whole.Vertices, whole.Edges)
	}
	if w.Groups.Common != nil {
		p.Common = w.Groups.Common.Size()
	}
	p.Stages = w.Stages()
	p.Chunks = chunks(w)
	p.widths = widths(w)
	p.OwnPass = w.OwnPass()
	if w.Task != nil { // without a task the caller's loss measures
		p.Validates, p.OneClass = w.Validates(), w.Task.OneClass()
	}
	weighted := func(r partition.Relation) bool { return r.In.Weights != nil }
	if !gnn.ReadEdgeFeatures(w.Blocks) {
		for i := range share.Edges.Relations {
			p.UnusedEdgeFeatures = max(p.UnusedEdgeFeatures, share.Edges.Relations[i].In.Features.Columns)
		}
	}
	p.UnusedWeights = w.OwnModel == nil && !w.ReadsWeights() &&
		slices.ContainsFunc(share.Edges.Relations, weighted)
	for i := range share.Edges.Relations {
		name := share.Edges.Relations[i].Name
		if !gnn.ReadRelation(w.Blocks, name) && !gnn.ReadRelation(w.Blocks, partition.SilentName(name)) {
			p.UnusedRelations = append(p.UnusedRelations, name)
		}
	}
	if w.NormalizeFeatures == "row" {
		p.RowSums = rowSums(&share.Types[0].Features, share.Types[0].Count)
	}
	p.Scales, p.LargeEdges = differing(w, share), largeEdges(w, share)
}

// chunks describes the chunks of a worker's pipeline.
func chunks(w *worker.Worker) (c Chunks) {
	s, edges := &w.Stage, &w.Share.Edges
	if w.Mesh.Stages == 1 {
		return c
	}
	starts := edges.Types[0].Starts
	own := s.Chunks[starts[edges.P]:starts[edges.P+1]]
	rows := make([]int, s.Count)
	for _, c := range own {
		rows[c]++
	}
	c.Least, c.Most = slices.Min(rows), slices.Max(rows)
	c.Each, c.Wanted = w.ChunksOfPartition(starts, len(edges.Types))
	if s.Count > 1 {
		c.Cut, c.Edges = edges.ChunkCut(own)
	} else { // one chunk, whose vertices may be of several types
		all, remote := edges.Count()
		c.Edges = all - remote
	}
	values := int64(0) // of vertices
	for _, at := range s.Cuts[1:w.Mesh.Stages] {
		add := func(kind, columns int) {
			c.Columns += columns
			values += int64(columns) * int64(w.Share.Whole.Types[kind].Vertices)
		}
		before := &w.Blocks[at-1]
		for kind, columns := range before.Widths() {
			add(kind, columns)
		}
		add(0, w.Blocks[at].H0)
		for _, state := range before.Beside {
			add(state.Type, state.Columns)
		}
		for _, state := range w.Blocks[at].Edges {
			c.EdgeColumns += state.Columns
		}
	}
	const directions, float = 2, 4
	c.Bytes = directions * float * (values + int64(c.EdgeColumns)*w.Share.Whole.Edges)
	return c
}

func rowSums(f *graph.Features, vertices int) (r RowSums) {
	const rows, tolerance = 4096, 1e-4
	for v := 0; v < vertices; v += 1 + vertices/rows {
		sum, zero := 0.0, true
		for _, x := range f.Row(v) {
			sum, zero = sum+float64(x), zero && x == 0
			if x < 0 {
				r.Negative = x
			} else if x != float32(math.Trunc(float64(x))) {
				r.Fraction = x
			}
		}
		if math.Abs(sum-1) < tolerance {
			r.Ones++
		} else if !zero {
			r.Others++
		}
	}
	return r
}
