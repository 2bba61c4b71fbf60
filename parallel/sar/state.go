package sar

import (
	"fmt"
	"strings"

	"weft/checkpoint"
	"weft/gnn"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/tensor"
)

// Key identifies an aggregation of a training pass.
type Key struct {
	Path   string // module path of the layer
	Along  gnn.Along
	Number int // the number of the layer's call on its tape, from 0
}

// Saved has what the aggregations of a worker keep from one epoch to the next (their history), as a
// checkpoint has it, until they take it.
type Saved struct {
	What     string // with which the names begin
	Place    string // names the rows and columns, as PlaceOf returns it
	restored map[string]*tensor.Matrix
}

// Name is the name of matrix m of a part of an aggregation's history.
func (s *Saved) Name(key Key, part string, m int) string {
	direction := "in"
	if key.Along.Reversed {
		direction = "out"
	}
	return fmt.Sprintf("%s/%s/%s.%s.%d/%s/%s.%d", s.What, key.Path, key.Along.Relation, direction,
		key.Number, s.Place, part, m)
}

// PlaceOf names the rows and columns whose history a worker has.
func PlaceOf(g mesh.Groups) string {
	place := fmt.Sprintf("partition-%d", g.Partition)
	if g.Mesh.Slices > 1 {
		place += fmt.Sprintf(".slice-%d-of-%d", g.Slice, g.Mesh.Slices)
	}
	return place
}

// Restore loads the worker's history for module paths that begin with paths.
func (s *Saved) Restore(memory *tensor.Meter, from *checkpoint.Checkpoint, paths string) error {
	if s.restored == nil {
		s.restored = map[string]*tensor.Matrix{}
	}
	for _, name := range from.Names(s.What + "/" + paths) {
		if !strings.Contains(name, "/"+s.Place+"/") {
			continue
		}
		shape := from.Shape(name)
		if len(shape) != 2 {
			return refusal.Damaged("%s: damaged: %s has the shape %v", from.Path, name, shape)
		}
		m := memory.NewElement(tensor.Buffers, from.Element(name), shape[0], shape[1]).Unpin()
		if err := from.Load([]checkpoint.Array{checkpoint.Matrix(name, m)}); err != nil {
			return err
		}
		m.DontNeed()
		s.restored[name] = m
	}
	return nil
}

// Take returns the matrices of a part of an aggregation's history, once; nil: there are none.
func (s *Saved) Take(key Key, part string) (matrices []*tensor.Matrix) {
	for m := 0; ; m++ {
		name := s.Name(key, part, m)
		if s.restored[name] == nil {
			return matrices
		}
		matrices = append(matrices, s.restored[name])
		delete(s.restored, name)
	}
}
