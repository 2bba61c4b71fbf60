package chunked

import (
	"fmt"
	"maps"
	"slices"

	"weft/checkpoint"
	"weft/parallel/sar"
	"weft/tensor"
)

// Arrays lists what the next epoch reads from this one: the snapshot of each aggregation and, with Keep, the
// gradients. Names hold the partition, to which the rows belong, and the slice, to which the columns belong.
// They do not hold the stage.
func (g *Graph) Arrays() (all []checkpoint.Array) {
	for _, r := range g.ordered(g.lasting) {
		parts := r.parts()
		for _, part := range slices.Sorted(maps.Keys(parts)) {
			for m, matrix := range parts[part] {
				a := checkpoint.Matrix(g.saved.Name(r.key, part, m), matrix)
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
	chunk := slices.IndexFunc(st.sources, func(blocks []*tensor.Matrix) bool {
		return slices.Contains(blocks, sources)
	})
	return fmt.Sprintf("returned.%d.%d", chunk, slices.Index(st.sources[chunk], sources))
}

// Restore loads the history that a checkpoint holds of the stage's modules. The next epoch begins with it.
func (g *Graph) Restore(from *checkpoint.Checkpoint) error {
	for path := range g.paths {
		if err := g.saved.Restore(g.team.Memory, from, path+"/"); err != nil {
			return err
		}
	}
	return nil
}

// initial are the first matrices of a part of a history: from the checkpoint from which the run continues, or
// else zeros.
func (g *Graph) initial(key sar.Key, part string, zeros func() []*tensor.Matrix) (matrices []*tensor.Matrix) {
	if g.phase != inference {
		matrices = g.saved.Take(key, part)
	}
	if matrices == nil {
		matrices = zeros()
	}
	return resting(matrices)
}
