package setting

import (
	"weft/gnn"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/parallel/order"
)

// chunksOfWorker is how many chunks there are for each worker, unless Chunks says otherwise (GNNPipe's K).
const chunksOfWorker = 4

// checkPipeline refuses what the stages of a mesh cannot do.
func (r *Resolved) checkPipeline() error {
	o, m := &r.Options, r.Mesh
	k := int(o.Chunks)
	switch {
	case m.Stages == 1:
	case k > 0 && k < m.Partitions:
		return refusal.Errorf("{chunks} %d on the mesh %s: each of the %d partitions has a chunk at least; "+
			"take {chunks} %d or more", k, Axes(m), m.Partitions, m.Partitions)
	case k%m.Partitions > 0:
		return refusal.Errorf("{chunks} %d on the mesh %s: the %d partitions have equally many chunks; "+
			"take {chunks} %d or %d", k, Axes(m), m.Partitions, k/m.Partitions*m.Partitions,
			(k/m.Partitions+1)*m.Partitions)
	case gnn.OverVertices(o.Norm) && r.Uses("norm") && k != m.Partitions:
		return refusal.Errorf("{norm} %s on the mesh %s: its mean is over all vertices, of which a stage "+
			"has one chunk at a time; take {norm} layer, or {chunks} %d: a chunk for each partition", o.Norm,
			Axes(m), m.Partitions)
	case o.DropEdge > 0 && r.Uses("drop-edge"):
		return refusal.Errorf("{drop-edge} %v on the mesh %s: the edges of a stage's chunks are those of "+
			"all epochs; leave it out, or take {parallel} graph=%d", o.DropEdge, Axes(m), r.Workers)
	case o.AggregationOrder != order.Auto && k != m.Partitions:
		return refusal.Errorf("{aggregation-order} %s on the mesh %s: the order is given, as history holds "+
			"what a layer aggregates; leave it out, or take {chunks} %d: a chunk for each partition",
			o.AggregationOrder, Axes(m), m.Partitions)
	}
	return nil
}

// checkStages refuses a mesh of more stages than the blocks of a model can be cut into, and names one of as
// many workers that works; and blocks that do not say what goes from one to the next.
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
	return refusal.Errorf("{parallel} %s: each stage has a layer (one that aggregates, where a model has "+
		"such), and the model has %d; take {parallel} %s", Axes(m), most,
		Axes(mesh.Mesh{Stages: stages, Partitions: m.Workers() / stages, Slices: 1}))
}

// ChunksOfPartition is how many chunks each partition has, for the rows from one start to the next, and how
// many there would be if none had fewer rows.
func (r *Resolved) ChunksOfPartition(starts []int) (k, wanted int) {
	m := r.Mesh
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
