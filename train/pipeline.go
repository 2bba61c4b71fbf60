package train

import (
	"context"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/parallel/chunked"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/partition"
	"weft/train/engine"
)

var (
	historyStarts = []string{"zeros", historyWarm} // what history is in the first epochs: zeros, or an exact pass
	chunkOrders   = []string{"shuffle", orderFixed}
)

const (
	historyWarm = "warm"
	orderFixed  = "fixed"
)

// chunksOfWorker is how many chunks there are for each worker, unless Chunks says otherwise (GNNPipe's K).
const chunksOfWorker = 4

// checkPipeline refuses what the stages of a mesh cannot do.
func (o *Options) checkPipeline(m mesh.Mesh) error {
	parallel, chunks, k := refusal.Setting("parallel"), refusal.Setting("chunks"), int(o.Chunks)
	switch {
	case m.Stages == 1:
	case m.Slices > 1:
		return refusal.Errorf("%s %s: the rows of a chunk are not divided into slices; take %s graph=%d,pipeline=%d, or graph=%d,tensor=%d",
			parallel, axes(m), parallel, m.Partitions*m.Slices, m.Stages, m.Partitions*m.Stages, m.Slices)
	case k > 0 && k < m.Partitions:
		return refusal.Errorf("%s %d on the mesh %s: each of the %d partitions has a chunk at least; take %s %d or more",
			chunks, k, axes(m), m.Partitions, chunks, m.Partitions)
	case k%m.Partitions > 0:
		return refusal.Errorf("%s %d on the mesh %s: the %d partitions have equally many chunks; take %s %d or %d",
			chunks, k, axes(m), m.Partitions, chunks, k/m.Partitions*m.Partitions, (k/m.Partitions+1)*m.Partitions)
	case o.Norm == "batch" && o.model().Uses("norm") && k != m.Partitions:
		return refusal.Errorf("%s batch on the mesh %s: its mean is over all vertices, of which a stage has one chunk at a time; "+
			"take %s layer, or %s %d: a chunk for each partition", refusal.Setting("norm"), axes(m), refusal.Setting("norm"), chunks, m.Partitions)
	case o.AggregationOrder != order.Names[order.Auto] && k != m.Partitions:
		return refusal.Errorf("%s %s on the mesh %s: the order is given, as history holds what a layer aggregates; "+
			"leave it out, or take %s %d: a chunk for each partition", refusal.Setting("aggregation-order"), o.AggregationOrder, axes(m), chunks, m.Partitions)
	}
	return nil
}

// checkStages refuses a mesh of more stages than the blocks of a model can be cut into, and names one of as
// many workers that works.
func checkStages(m mesh.Mesh, blocks []gnn.BlockSpec) error {
	most := gnn.MostStages(blocks)
	if m.Stages <= most {
		return nil
	}
	stages := most
	for m.Workers()%stages > 0 {
		stages--
	}
	return refusal.Errorf("%s %s: each stage has a layer (one that aggregates, where a model has such), and the model has %d; take %s %s",
		refusal.Setting("parallel"), axes(m), most, refusal.Setting("parallel"),
		axes(mesh.Mesh{Stages: stages, Partitions: m.Workers() / stages, Slices: 1}))
}

// chunksOfPartition is how many chunks each partition has, for the rows from one start to the next, and how
// many there would be if none had fewer rows.
func (o *Options) chunksOfPartition(m mesh.Mesh, starts []int) (k, wanted int) {
	if o.Chunks > 0 {
		k = int(o.Chunks) / m.Partitions
		return k, k
	}
	wanted = chunksOfWorker * m.Stages * m.Slices
	k = wanted
	for p, start := range starts[1:] {
		if rows := start - starts[p]; rows > 0 {
			k = min(k, rows)
		}
	}
	return k, wanted
}

// chunks are those that the workers of a job have in common.
type chunks struct {
	made division
	of   []int32 // for each vertex, in the order of the partitions
}

// division is what chunks follow from.
type division struct {
	graph  *graph.Graph
	parts  *Parts
	chunks Chunks
	mesh   mesh.Mesh
	method string
	seed   uint64
}

// divide makes the chunks that a mesh of several stages needs, unless they are at hand. All processes call it
// together; the first makes them, with the shares that open opens.
func (j *Job) divide(ctx context.Context, grid mesh.Mesh, open func(rank int, use func(*partition.Share) error) error) error {
	o := &j.Options
	made := division{j.Graph, j.Parts, o.Chunks, grid, o.ChunkMethod, o.Seed}
	if grid.Stages == 1 || j.chunks.made == made {
		return nil
	}
	var of []int32
	ranks := launch.Ranks{Comm: j.peers()}
	err := ranks.OnFirst(func() error {
		for rank := range grid.Partitions { // of the first stage
			err := open(rank, func(s *partition.Share) error {
				k, _ := o.chunksOfPartition(grid, s.Edges.Starts)
				part, err := partition.Chunks(ctx, s, partition.ChunkOptions{K: k, Method: o.ChunkMethod, Seed: o.Seed, Timeout: o.CommTimeout})
				of = append(of, part...)
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !ranks.First() {
		vertices := 0
		if grid.Partitions == 1 {
			vertices = j.Graph.Vertices()
		} else {
			vertices = j.Parts.Whole.Vertices
		}
		of = make([]int32, vertices)
	}
	if err := ranks.Comm.Broadcast(comm.Setup, comm.Bytes(of), 0); err != nil {
		return err
	}
	j.chunks = chunks{made, of}
	return nil
}

// stageOptions are what this worker's stage is told, zero where there is one stage.
func (w *worker) stageOptions(j *Job) (s engine.StageOptions, err error) {
	grid, o, whole := w.groups.Mesh, w.o, &w.share.Whole
	if grid.Stages == 1 {
		return s, nil
	}
	if err := checkStages(grid, w.blocks); err != nil {
		return s, &Common{Err: err}
	}
	if s.Cuts, err = gnn.Cut(w.blocks, grid.Stages, whole.Vertices, whole.Edges); err != nil {
		return s, &Common{Err: err}
	}
	if s.Stale, err = chunked.ParseStale(o.StaleGradients); err != nil {
		return s, &Common{Err: err}
	}
	s.Period, s.Warm, s.Fixed, s.Recompute = o.HistoryPeriod, o.HistoryStart == historyWarm, o.ChunkOrder == orderFixed, o.Recompute
	s.Report = func(r engine.StageReport) { w.spent = r }
	s.Count, _ = o.chunksOfPartition(grid, w.share.Edges.Starts)
	s.Chunks = j.chunks.of
	return s, nil
}
