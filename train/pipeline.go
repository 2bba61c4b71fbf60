package train

import (
	"context"
	"slices"
	"sync"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/parallel/chunked"
	"weft/parallel/mesh"
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

// chunking identifies chunks.
type chunking struct {
	graph *graph.Graph
	parts *Parts
	partition.ChunkOptions
}

// chunks are those that the workers of a job have in common, made by the first that asks for them.
type chunks struct {
	mu sync.Mutex
	by map[chunking][]int32
}

// chunksOf is for each vertex, in the order of the partitions, its chunk. All workers call it together; of
// workers that are processes the first stage's make the chunks.
func (j *Job) chunksOf(ctx context.Context, g mesh.Groups, share *partition.Share, o partition.ChunkOptions) ([]int32, error) {
	j.chunks.mu.Lock()
	defer j.chunks.mu.Unlock()
	which := chunking{j.Graph, j.Parts, o}
	if of, made := j.chunks.by[which]; made {
		return of, nil
	}
	var of []int32
	var err error
	if c := j.peers(); c.Size() > 1 {
		if g.Stage == 0 {
			of, err = partition.Chunks(ctx, share, o)
		}
		if err := (launch.Ranks{Comm: c}).Together(err); err != nil {
			return nil, err
		}
		var all [][]int32 // of the first stage's ranks, which are first and in the order of the partitions
		if all, err = comm.GatherLists(c, comm.Setup, of); err == nil {
			of = slices.Concat(all...)
		}
	} else {
		for p := 0; p < g.Mesh.Partitions && err == nil; p++ {
			var theirs []int32
			if p == g.Partition {
				theirs, err = partition.Chunks(ctx, share, o)
			} else {
				theirs, err = j.Parts.chunks(ctx, p, o)
			}
			of = append(of, theirs...)
		}
	}
	if err == nil {
		j.chunks.by[which] = of
	}
	return of, err
}

// chunks are those of another partition than the caller's.
func (p *Parts) chunks(ctx context.Context, of int, o partition.ChunkOptions) (chunks []int32, err error) {
	share, err := p.Open(of)
	if err != nil {
		return nil, err
	}
	defer share.Close()
	err = share.Guard(func() error {
		chunks, err = partition.Chunks(ctx, share, o)
		return err
	})
	return chunks, err
}

// stageOptions are what this worker's stage is told, zero where there is one stage. All workers call it
// together.
func (w *worker) stageOptions(ctx context.Context, j *Job) (s engine.StageOptions, err error) {
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
	s.Chunks, err = j.chunksOf(ctx, w.groups, w.share, partition.ChunkOptions{
		K: s.Count, Method: o.ChunkMethod, Seed: o.Seed, Timeout: o.CommTimeout,
	})
	return s, err
}
