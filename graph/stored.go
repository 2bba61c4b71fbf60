package graph

import (
	"slices"

	"weft/internal/npy"
)

// element is an element type of a store's arrays.
type element interface {
	int64 | int32 | float32 | float64
}

// storedArray is an array of a store.
type storedArray struct {
	file  string
	bytes func() int64 // bytes in memory
	write func(*Folder)
	read  func(m *mappings, dir string) error
}

// in describes a slice that is stored in a file, as an array of that shape.
func in[T element](file string, slice *[]T, shape ...int) storedArray {
	return storedArray{
		file:  file,
		bytes: func() int64 { return int64(len(npy.Bytes(*slice))) },
		write: func(s *Folder) { save(s, file, *slice, shape...) },
		read: func(m *mappings, dir string) (err error) {
			*slice, err = load[T](m, dir, file, shape...)
			return err
		},
	}
}

// stored lists the arrays of the features of so many vertices.
func (f *Features) stored(d *featuresDescription, vertices int) []storedArray {
	switch {
	case d == nil:
		return nil
	case d.Layout == layoutDense:
		return []storedArray{in(featuresFile, &f.Dense, vertices, d.Columns)}
	}
	return []storedArray{
		in(featuresIndptrFile, &f.Indptr, vertices+1),
		in(featuresIndicesFile, &f.Indices, d.Stored),
		in(featuresDataFile, &f.Data, d.Stored),
	}
}

// stored lists the array of the labels of so many vertices.
func (l *Labels) stored(d *labelsDescription, vertices int) []storedArray {
	return l.storedIn(labelsFile, d, vertices)
}

// storedIn lists the array of the labels of so many rows, in a file.
func (l *Labels) storedIn(file string, d *labelsDescription, rows int) []storedArray {
	switch {
	case d == nil:
		return nil
	case d.Kind == labelsValues:
		return []storedArray{in(file, &l.Values, rows, d.Columns)}
	case d.Kind == labelsMulti:
		return []storedArray{in(file, &l.Multi, rows, d.Classes)}
	}
	return []storedArray{in(file, &l.Class, rows)}
}

// stored lists the graphs of the type's vertices, if there are several graphs, and its Arrays.
func (t *VertexType) stored(d *vertexDescription, graphs int) (all []storedArray) {
	if graphs > 0 {
		all = append(all, in(graphIDsFile, &t.GraphOf, d.Count))
	}
	for i := range t.Arrays {
		a := &t.Arrays[i]
		array := in(a.Name+".npy", &a.Floats, d.Count, a.Columns)
		if d.Arrays[i].Dtype == Int64 {
			array = in(a.Name+".npy", &a.Ints, d.Count, a.Columns)
		}
		all = append(all, array)
	}
	return all
}

// stored lists the arrays of a relation with so many rows, with those of its edges' labels and of its edge
// split.
func (r *Relation) stored(files relationFiles, d *relationDescription, rows int) []storedArray {
	all := []storedArray{in(files.indptr, &r.Indptr, rows+1), in(files.indices, &r.Sources, d.Count)}
	if d.Weights {
		all = append(all, in(files.weights, &r.Weights, d.Count))
	}
	if d.FeatureColumns > 0 {
		all = append(all, in(files.features, &r.Features.Dense, d.Count, d.FeatureColumns))
	}
	all = append(all, r.storedLabels(d.Frame, d.Count)...)
	return append(all, r.EdgeSplit.stored(d.EdgeSplit)...)
}

// stored lists the arrays of an edge split.
func (s *EdgeSplit) stored(d *edgeSplitDescription) (all []storedArray) {
	if d == nil {
		return nil
	}
	for part, file := range splitEdgeFiles {
		all = append(all, in(file, &s.Edges[part], d.Edges[part], 2))
	}
	for part := 1; part < 3 && d.Negatives != NoNegatives; part++ {
		shape := []int{d.Negative[part], 2}
		if d.Negatives == TargetNegatives {
			shape = []int{d.Edges[part], d.Negative[part]}
		}
		all = append(all, in(splitNegativeFile[part], &s.Negative[part], shape...))
	}
	return all
}

// bytesOf returns the size of arrays in memory.
func bytesOf(lists ...[]storedArray) (n int64) {
	for _, a := range slices.Concat(lists...) {
		n += a.bytes()
	}
	return n
}

// vertexBytes returns the size of the arrays of vertices.
func (g *Graph) vertexBytes() int64 {
	d := describe(g)
	n := bytesOf(g.Types[0].Labels.stored(d.Vertices[0].Labels, 0))
	for i, t := range g.Types {
		v := &d.Vertices[i]
		n += bytesOf(t.Features.stored(v.Features, v.Count), t.stored(v, g.Graphs))
	}
	return n
}

// bytes returns the size of the arrays of a graph, but for splits.
func (g *Graph) bytes() int64 {
	n := g.vertexBytes()
	for i := range g.Relations {
		r := &g.Relations[i]
		d := describeRelation(r)
		n += bytesOf(r.stored(inEdges, &d, r.rows()))
	}
	return n
}

// write writes arrays.
func (s *Folder) write(all []storedArray) {
	for _, a := range all {
		a.write(s)
	}
}

// read maps arrays whose files lie in dir.
func (m *mappings) read(dir string, all []storedArray) error {
	for _, a := range all {
		if err := a.read(m, dir); err != nil {
			return err
		}
	}
	return nil
}
