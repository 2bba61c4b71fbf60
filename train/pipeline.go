package train

import (
	"context"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"weft/comm"
	"weft/gnn"
	"weft/graph"
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

// chunking identifies the chunks of a partition.
type chunking struct {
	graph *graph.Graph
	parts *Parts
	of    int // which partition
	partition.ChunkOptions
}

// chunks are those that the stages of a partition have in common. The workers of this process that ask for
// them share them, and the first of these makes them.
type chunks struct {
	mu sync.Mutex
	by map[chunking]*partitionChunks
}

type partitionChunks struct {
	mu   sync.Mutex
	rows []int32 // the chunk of each row; nil: not made
}

func (c *chunks) of(ctx context.Context, which chunking, share *partition.Share) ([]int32, error) {
	c.mu.Lock()
	p := c.by[which]
	if p == nil {
		p = &partitionChunks{}
		c.by[which] = p
	}
	c.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rows != nil {
		return p.rows, nil
	}
	rows, err := partition.Chunks(ctx, share, which.ChunkOptions)
	if err == nil {
		p.rows = rows
	}
	return rows, err
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
	s.ChunkCount, _ = o.chunksOfPartition(grid, w.share.Edges.Starts)
	s.Chunks, err = j.chunks.of(ctx, chunking{j.Graph, j.Parts, w.groups.Partition, partition.ChunkOptions{
		K: s.ChunkCount, Method: o.ChunkMethod, Seed: o.Seed, Timeout: o.CommTimeout,
	}}, w.share)
	if w.team.Planning() {
		return s, err
	}
	if err := w.ranks().Together(err); err != nil {
		return s, err
	}
	return s, w.sameChunks(&s)
}

// sameChunks fails on all workers where one stage of a partition has other chunks than its first.
func (w *worker) sameChunks(s *engine.StageOptions) error {
	hash := crc32.Checksum(comm.Bytes(s.Chunks), crc32.MakeTable(crc32.Castagnoli))
	all, err := comm.Gather(w.groups.World, comm.Setup, int64(s.ChunkCount), int64(hash))
	if err != nil {
		return err
	}
	grid := w.groups.Mesh
	for rank := range grid.Workers() {
		place := grid.Place(rank)
		place.Stage = 0
		first := grid.Rank(place)
		if !slices.Equal(all[2*rank:2*rank+2], all[2*first:2*first+2]) {
			return &Common{Err: fmt.Errorf("worker %d has divided partition %d into other chunks than worker %d: "+
				"all machines need the same graph and the same METIS", rank, place.Partition, first)}
		}
	}
	return nil
}
