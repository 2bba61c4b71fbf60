package chunked

import (
	"fmt"
	"slices"
	"strings"

	"weft/checkpoint"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/tensor"
)

// Arrays lists what the next epoch reads of this one: the snapshot of each aggregation and, with Keep, the
// gradients. Names hold the partition, whose rows these are, and the slice, whose columns, but not the stage.
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

// placeOf names the rows and columns that the history of a worker has.
func placeOf(g mesh.Groups) string {
	place := fmt.Sprintf("partition-%d", g.Partition)
	if g.Mesh.Slices > 1 {
		place += fmt.Sprintf(".slice-%d-of-%d", g.Slice, g.Mesh.Slices)
	}
	return place
}

const historyOf = "history/" // begins the names

// array names a matrix of a history.
func (g *Graph) array(key callKey, part string, m int) string {
	direction := "in"
	if key.along.Reversed {
		direction = "out"
	}
	return fmt.Sprintf("%s%s/%s.%s.%d/%s/%s.%d", historyOf, key.path, key.along.Relation, direction, key.number, g.place, part, m)
}

// Restore loads the history that a checkpoint holds of the stage's modules. The next epoch begins with it.
func (g *Graph) Restore(from *checkpoint.Checkpoint) error {
	g.restored = map[string]*tensor.Matrix{}
	for path := range g.paths {
		for _, name := range from.Names(historyOf + path + "/") {
			if !strings.Contains(name, "/"+g.place+"/") {
				continue
			}
			shape := from.Shape(name)
			if len(shape) != 2 {
				return refusal.Errorf("%s: damaged: %s has the shape %v", from.Path, name, shape)
			}
			m := g.team.Memory.NewElement(tensor.Buffers, from.Element(name), shape[0], shape[1])
			if err := from.Load([]checkpoint.Array{checkpoint.Matrix(name, m)}); err != nil {
				return err
			}
			g.restored[name] = m
		}
	}
	return nil
}

// initial are the first matrices of a part of a history: those of the checkpoint that the run continues from,
// or zeros.
func (g *Graph) initial(key callKey, part string, zeros func() []*tensor.Matrix) (matrices []*tensor.Matrix) {
	for m := 0; g.phase != inference; m++ {
		name := g.array(key, part, m)
		if g.restored[name] == nil {
			break
		}
		matrices = append(matrices, g.restored[name])
		delete(g.restored, name)
	}
	if matrices == nil {
		return zeros()
	}
	return matrices
}
