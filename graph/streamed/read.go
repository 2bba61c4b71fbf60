package streamed

import (
	"fmt"

	"weft/graph"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// These functions read a whole graph into memory.

// Read reads the graph into memory. It returns the errors of Write, and an error if there is too little
// memory.
func (g *Graph) Read() (*graph.Graph, error) {
	made, err := g.read()
	if err != nil {
		return nil, err
	}
	if g.Symmetrize {
		if err := checkSymmetrize(made); err != nil {
			return nil, err
		}
		if made, err = made.Symmetrize(); err != nil {
			return nil, g.refuse(err)
		}
	}
	if g.FromEdges != nil {
		made.Types[0].Features.Columns = made.Relations[0].Features.Columns
		made.Types[0].Features.Dense, err = g.FromEdges(&made.Relations[0])
	}
	if err == nil {
		err = made.Check()
	}
	if err != nil {
		return nil, g.refuse(err)
	}
	return made, nil
}

// read is Read, for the parts of the graph in its source.
func (g *Graph) read() (*graph.Graph, error) {
	if g.whole {
		return g.InMemory, nil
	}
	lists := make([]graph.Edges, len(g.Relations))
	for i := range g.Relations {
		var err error
		if lists[i], err = g.Relations[i].Read(g.Progress); err != nil {
			return nil, err
		}
	}
	if err := g.complete(); err != nil {
		return nil, err
	}
	made := g.InMemory.Copy()
	for i, t := range g.Types {
		if err := t.read(&made.Types[i]); err != nil {
			return nil, err
		}
	}
	made.Relations = g.announced()
	for i := range made.Relations {
		r := &made.Relations[i]
		source, target, err := made.Joins(r)
		if err != nil {
			return nil, g.refuse(refusal.Errorf("%w", err))
		}
		sorted, err := graph.NewBipartite(made.Types[source].Count, made.Types[target].Count, lists[i])
		if err != nil {
			return nil, g.Relations[i].Refuse(err)
		}
		if err := g.checkGraphs(&lists[i]); err != nil {
			return nil, err
		}
		sorted.Source, sorted.Name, sorted.Target, sorted.EdgeSplit = r.Source, r.Name, r.Target, r.EdgeSplit
		sorted.EndColumns, sorted.NumberColumns = r.EndColumns, r.NumberColumns
		if frame := g.Relations[i].Frame; frame != nil {
			frame.take(&sorted.Frame)
			if frame.divides() {
				if err := frame.divide(&sorted.Frame); err != nil {
					return nil, g.refuse(err)
				}
			}
		}
		*r, lists[i] = sorted, graph.Edges{}
	}
	return made, nil
}

// read reads a type's rows and arrays into memory.
func (t *Type) read(to *graph.VertexType) (err error) {
	if t.Rows != nil {
		to.Features.Columns = t.Rows.Columns
		if to.Features.Dense, err = t.Rows.Read(to.Count); err != nil {
			return err
		}
	}
	for _, a := range t.Arrays {
		array, err := a.Read(to.Count)
		if err != nil {
			return err
		}
		to.Arrays = append(to.Arrays, array)
	}
	return nil
}

// Read reads the edges into memory.
func (e *Edges) Read(tell graph.Progress) (all graph.Edges, err error) {
	if e.listed != nil {
		return *e.listed, nil
	}
	count := max(e.Count, 0)
	_, err = e.each(tell, func(batch graph.Edges, _ int64) (err error) {
		if all.Source, err = memory.AppendTo(all.Source, batch.Source, count); err == nil {
			all.Target, err = memory.AppendTo(all.Target, batch.Target, count)
		}
		if err == nil {
			all.Weights, err = memory.AppendTo(all.Weights, batch.Weights, count)
		}
		if err == nil {
			all.Features, err = memory.AppendTo(all.Features, batch.Features, count*int64(e.Columns))
		}
		if err == nil {
			all.Labels, err = memory.AppendTo(all.Labels, batch.Labels, count)
		}
		if err == nil {
			all.SplitBy, err = memory.AppendTo(all.SplitBy, batch.SplitBy, count)
		}
		if err != nil {
			return e.Refuse(err)
		}
		return nil
	})
	all.FeatureColumns = e.Columns
	if e.Weighted && all.Weights == nil {
		all.Weights = []float32{}
	}
	if e.Labelled && all.Labels == nil {
		all.Labels = []int32{}
	}
	if e.Divided && all.SplitBy == nil {
		all.SplitBy = []float64{}
	}
	return all, err
}

// Read reads a row for each of so many vertices into memory.
func (r *RowSource) Read(vertices int) (all []float32, err error) {
	err = r.Each(func(rows []float32) error {
		if all, err = memory.AppendTo(all, rows, int64(vertices)*int64(r.Columns)); err != nil {
			return r.Refuse(err)
		}
		return nil
	})
	return all, err
}

// Read reads the array of so many vertices into memory.
func (a *Array) Read(vertices int) (made graph.Array, err error) {
	refuse := func(err error) error { return fmt.Errorf("array %q: %w", a.Name, err) }
	made.Name, made.Columns = a.Name, a.Columns
	if a.Dtype == graph.Float32 {
		rows := RowSource{a.Columns, a.Each, refuse}
		made.Floats, err = rows.Read(vertices)
		return made, err
	}
	err = a.Each(func(rows []float32) error {
		if made.Ints, err = memory.GrowTo(made.Ints, len(rows),
			int64(vertices)*int64(made.Columns)); err != nil {
			return refuse(err)
		}
		for _, x := range rows {
			made.Ints = append(made.Ints, int64(x))
		}
		return nil
	})
	return made, err
}
