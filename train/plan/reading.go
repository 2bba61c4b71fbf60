package plan

import (
	"slices"

	"weft/gnn"
	"weft/graph"
	"weft/parallel/sar"
	"weft/partition"
	"weft/train/engine"
	"weft/train/task"
	"weft/train/worker"
)

// Reading says whether messages of other vertices reach the training vertices of a worker's partition, along
// the relations and in the directions of its model. It is zero if training learns no vertices, if a mean over
// all vertices reads each of them, and if another graph validates.
type Reading struct {
	Training int  // training vertices, of all partitions
	In, Out  bool // whether the model aggregates along edges, and along reversed edges
	Reads    bool // one of the partition's training vertices has such an edge, self loops aside
}

// readingOf is the Reading of a worker and its share. A model of the caller's own may read edges in any way.
func readingOf(w *worker.Worker, share *partition.Share) (r Reading) {
	if w.Task == nil || w.Config.Task != task.Vertex || w.OwnModel != nil ||
		w.Program.Program != nil && w.OverAll() != "" {
		return r
	}
	var along []gnn.Along
	for _, reach := range engine.Reaches(w.Blocks, sar.SchemaOf(share)) {
		along = append(along, reach.Along...)
	}
	for _, a := range along {
		r.In, r.Out = r.In || !a.Reversed, r.Out || a.Reversed
	}
	split := w.Split.Number
	r.Training = share.Whole.Splits[split].Train
	trains := make([]bool, share.Types[0].Count)
	for _, row := range share.Types[0].Splits[split].Train {
		trains[row] = true
	}
	for i := range share.Edges.Relations {
		relation := &share.Edges.Relations[i]
		in := slices.Contains(along, gnn.Along{Relation: relation.Name})
		out := slices.Contains(along, gnn.Along{Relation: relation.Name, Reversed: true})
		r.Reads = r.Reads || in && relation.Target == 0 && readsInto(trains, relation, &share.Edges) ||
			out && relation.Source == 0 && readsOut(trains, relation, &share.Edges)
	}
	return r
}

// readsInto reports whether an edge, self loops aside, leads to one of the training rows.
func readsInto(trains []bool, r *partition.Relation, edges *partition.PartEdges) bool {
	return anyEdge(r, &r.In, edges, func(row, _ int) bool { return trains[row] })
}

// readsOut reports whether an edge, self loops aside, leads from one of the training rows.
func readsOut(trains []bool, r *partition.Relation, edges *partition.PartEdges) bool {
	if edges.Partitions() == 1 { // the share has only the edges into its own rows
		return anyEdge(r, &r.In, edges, func(_, source int) bool { return trains[source] })
	}
	return anyEdge(r, &r.Out, edges, func(row, _ int) bool { return trains[row] })
}

// anyEdge reports whether asked holds for one of a list's edges. Its arguments are the edge's row and the
// position of its other end. Self loops are left out.
func anyEdge(r *partition.Relation, list *graph.Relation, edges *partition.PartEdges,
	asked func(row, position int) bool,
) bool {
	first := edges.Types[r.Target].Starts[edges.P]
	for row := range len(list.Indptr) - 1 {
		for _, position := range list.Sources[list.Indptr[row]:list.Indptr[row+1]] {
			loop := r.Source == r.Target && int(position) == first+row
			if !loop && asked(row, int(position)) {
				return true
			}
		}
	}
	return false
}
