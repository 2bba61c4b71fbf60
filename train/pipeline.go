package train

import (
	"weft/gnn"
	"weft/internal/refusal"
	"weft/parallel/mesh"
)

var (
	chunkMethods  = []string{"metis", "merged"}
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

// chunksOfPartition is how many chunks each partition of a mesh has, where the smallest has so many rows, and
// whether these are fewer than there would be in larger partitions.
func (o *Options) chunksOfPartition(m mesh.Mesh, rows int) (k int, fewer bool, err error) {
	most := max(rows, 1)
	if k = int(o.Chunks) / m.Partitions; k == 0 {
		k = chunksOfWorker * m.Stages * m.Slices
		return min(k, most), k > most, nil
	}
	if k > most {
		return 0, false, refusal.Errorf("%s %s on the mesh %s: the smallest partition has %d vertices to divide into %d chunks; take %s %d at most",
			refusal.Setting("chunks"), o.Chunks, axes(m), rows, k, refusal.Setting("chunks"), most*m.Partitions)
	}
	return k, false, nil
}
