package setting

import (
	"weft/gnn"
	"weft/internal/refusal"
	"weft/parallel/axis"
	"weft/parallel/mesh"
)

// chunksOfWorker is how many chunks there are for each worker, unless Chunks says otherwise (GNNPipe's K).
const chunksOfWorker = 4

// checkStages refuses a mesh with more stages than the blocks of a model can be cut into, and names a mesh of
// as many workers that works. It also refuses blocks that do not say what passes from one to the next.
func checkStages(m mesh.Mesh, blocks []gnn.BlockSpec) error {
	for i := 1; i < len(blocks); i++ {
		if gives, takes := blocks[i-1].Out, blocks[i].In; gives != takes {
			return refusal.Errorf("layer %d of the model takes %d columns, and layer %d gives %d", i, takes, i-1,
				gives)
		}
	}
	most := gnn.MostStages(blocks)
	if m.Stages <= most {
		return nil
	}
	stages := most
	for m.Workers()%stages > 0 {
		stages--
	}
	return refusal.Errorf("--parallel %s: each stage has a layer (one that aggregates, where a model has "+
		"such), and the model has %d; take --parallel %s", Axes(m), most,
		Axes(mesh.Mesh{Stages: stages, Partitions: m.Workers() / stages, Slices: 1}))
}

// ChunksOfPartition is how many chunks each partition has, and wanted how many it would have if no partition
// had fewer rows than that. starts are the first rows of the partitions. With several vertex types it is one.
func (r *Resolved) ChunksOfPartition(starts []int, types int) (k, wanted int) {
	m := r.Mesh
	if types > 1 {
		return 1, 1
	}
	if r.Chunks > 0 {
		k = int(r.Chunks) / m.Partitions
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

// ForLoop makes the options those of a caller's loop, which alone takes samples on several groups of workers.
// A pipeline without a number of chunks computes each partition as one chunk, which is exact.
func (o *Options) ForLoop() error {
	o.loop = true
	m, _, err := o.mesh()
	if err == nil && m.Stages > 1 && o.Chunks == 0 {
		o.Chunks = axis.Chunks(m.Partitions)
	}
	return err
}
