package chunked

import (
	"fmt"
	"slices"

	"weft/checkpoint"
	"weft/parallel/exchange"
	"weft/tensor"
)

// Arrays lists what the next epoch reads of this one: the snapshot of each aggregation and, with Keep, the
// gradients. Names hold the partition, whose rows these are, and not the stage.
func (g *Graph) Arrays() (all []checkpoint.Array) {
	for key, r := range g.training {
		for part, matrices := range r.parts() {
			for m, matrix := range matrices {
				a := checkpoint.Matrix(g.array(key, part, m), matrix)
				a.Own = true
				all = append(all, a)
			}
		}
	}
	return all
}

// parts are the matrices of a history, by name.
func (r *history) parts() map[string][]*tensor.Matrix {
	all := map[string][]*tensor.Matrix{"rows": r.rows, "gradients": r.grads}
	for sources, matrices := range r.returned {
		all[r.st.returnedBy(sources)] = matrices
	}
	return all
}

// returnedBy names the last gradients from the remote block with these sources.
func (st *structure) returnedBy(sources *tensor.Matrix) string {
	chunk := slices.IndexFunc(st.sources, func(blocks []*tensor.Matrix) bool { return slices.Contains(blocks, sources) })
	return fmt.Sprintf("returned.%d.%d", chunk, slices.Index(st.sources[chunk], sources))
}

// array names a matrix of a history.
func (g *Graph) array(key callKey, part string, m int) string {
	direction := "in"
	if key.along.Reversed {
		direction = "out"
	}
	return fmt.Sprintf("history/%s/%s.%s.%d/partition-%d/%s.%d", key.path, key.along.Relation, direction, key.number, g.me, part, m)
}

// Restore makes the next epoch begin with the history that a checkpoint holds. The checkpoint stays open
// until then.
func (g *Graph) Restore(from *checkpoint.Checkpoint) { g.from = from }

// restore loads matrices that this epoch has made from the checkpoint, if the run continues from one that
// holds them.
func (g *Graph) restore(key callKey, part string, matrices []*tensor.Matrix) {
	for m, matrix := range matrices {
		if name := g.array(key, part, m); g.from != nil && g.from.Holds(name) {
			exchange.Must(g.from.Load([]checkpoint.Array{checkpoint.Matrix(name, matrix)}))
		}
	}
}
