package graph

import (
	"errors"
	"path/filepath"
)

// PartWriter writes a part in batches of rows, so that parts larger than memory can be written. Its labels,
// splits and ids come at once. The in-edges of a relation come before its out-edges.
type PartWriter struct {
	s    *staging
	name string       // of the directory
	part *Part        // without what is written: labels, splits, ids
	d    *description // of the part
}

// CreatePart begins a part in a directory of that name. p has the ids, labels and splits of its vertices. Its
// graph has Count, and types and relations without rows. The writer writes ids, labels and splits at once and
// does not keep them. Close completes the part.
func (f *Folder) CreatePart(name string, p *Part) (*PartWriter, error) {
	p.Out = make([]Relation, len(p.Graph.Relations))
	for i := range p.Out {
		p.Out[i].Symmetric = p.Graph.Relations[i].Symmetric
	}
	bare := *p.Graph
	bare.Labels, bare.Splits = Labels{}, nil
	w := &PartWriter{s: f.s, name: name, part: &Part{Graph: &bare, Whole: p.Whole, Out: p.Out}, d: p.describe()}
	w.s.within(name, func() {
		l := p.Graph.layout()
		for i, t := range p.Graph.Types() {
			w.s.within(l.vertices(t.Type), func() {
				if i == 0 {
					w.s.labels(&p.Graph.Labels)
					w.s.splits(p.Graph.Splits)
				}
				w.s.ids(p.IDs[i])
			})
		}
	})
	return w, w.s.failure()
}

// FeatureBatches calls write with the features of consecutive rows, until write fails.
type FeatureBatches func(write func(*Features) error) error

// Features writes the features of vertex type t, of so many columns. Sparse ones have so many stored values;
// −1 stands for dense ones.
func (w *PartWriter) Features(t, columns, stored int, batches FeatureBatches) error {
	v, s := &w.d.Vertices[t], w.s
	rows, ends := 0, []int64{0}
	s.within(w.name, func() {
		s.within(w.part.Graph.layout().vertices(v.Type), func() {
			if stored < 0 {
				v.Features = &featuresDescription{layoutDense, "float32", columns, 0}
				dense := s.array(featuresFile, "<f4", v.Count, columns)
				s.take(batches(func(f *Features) error {
					if err := checkFeatureRows(rows, f.Dense, columns); err != nil {
						return err
					}
					rows += len(f.Dense) / columns
					dense.float32s(f.Dense)
					return s.err
				}))
				dense.close()
				return
			}
			v.Features = &featuresDescription{layoutSparse, "float32", columns, stored}
			indptr := s.array(featuresIndptrFile, "<i8", v.Count+1)
			indices, data := s.array(featuresIndicesFile, "<i4", stored), s.array(featuresDataFile, "<f4", stored)
			indptr.int64s(ends)
			s.take(batches(func(f *Features) error {
				if err := f.check(len(f.Indptr)-1, everything); err != nil || len(f.Indptr) == 1 {
					return err
				}
				ends = shifted(ends, f.Indptr)
				indptr.int64s(ends)
				indices.int32s(f.Indices)
				data.float32s(f.Data)
				return s.err
			}))
			indptr.close()
			indices.close()
			data.close()
		})
	})
	return s.failure()
}

// shifted returns the ends of a batch's rows, of which there is one at least. ends are those of the batch
// before, and their memory is used again.
func shifted(ends, indptr []int64) []int64 {
	before := ends[len(ends)-1]
	ends = ends[:0]
	for _, end := range indptr[1:] {
		ends = append(ends, before+end)
	}
	return ends
}

// RelationBatches calls write with consecutive rows, until write fails. Indptr of each batch begins at 0.
type RelationBatches func(write func(*Relation) error) error

// In writes the in-edges of relation r, of which there are so many. They have weights and edge features if
// like has them.
func (w *PartWriter) In(r int, edges int64, like *Relation, batches RelationBatches) error {
	d := &w.d.Relations[r]
	d.Count, d.Weights, d.FeatureColumns = int(edges), like.Weights != nil, like.EdgeColumns
	return w.edges(r, inEdges, d, batches)
}

// Out writes the out-edges of relation r in the same way, without edge features.
func (w *PartWriter) Out(r int, edges int64, like *Relation, batches RelationBatches) error {
	d := &w.d.Relations[len(w.part.Out)+r]
	d.Count, d.Weights = int(edges), like.Weights != nil
	return w.edges(r, outEdges, d, batches)
}

// ends returns the number of rows of a relation in those files, and of the vertices at the other ends.
func (w *PartWriter) ends(r int, files relationFiles) (rows, whole int, err error) {
	source, target, err := w.part.Graph.Joins(&w.part.Graph.Relations[r])
	if err != nil {
		return 0, 0, err
	}
	if files == outEdges {
		source, target = target, source
	}
	return w.d.Vertices[target].Count, w.part.Whole[source], nil
}

func (w *PartWriter) edges(r int, files relationFiles, d *relationDescription, batches RelationBatches) error {
	rows, whole, err := w.ends(r, files)
	if err != nil {
		return err
	}
	s := w.s
	s.within(w.name, func() {
		s.within(w.part.Graph.layout().edges(w.part.Graph.Relations[r].Ends()), func() {
			indptr, indices := s.array(files.indptr, "<i8", rows+1), s.array(files.indices, "<i4", d.Count)
			var weights, features *arrayFile
			if d.Weights {
				weights = s.array(files.weights, "<f4", d.Count)
			}
			if d.FeatureColumns > 0 {
				features = s.array(files.features, "<f4", d.Count, d.FeatureColumns)
			}
			ends := []int64{0}
			indptr.int64s(ends)
			s.take(batches(func(b *Relation) error {
				if err := b.check(files, b.rows(), whole, everything, func() {}); err != nil || b.rows() == 0 {
					return err
				}
				ends = shifted(ends, b.Indptr)
				indptr.int64s(ends)
				indices.int32s(b.Sources)
				weights.float32s(b.Weights)
				features.float32s(b.EdgeFeatures)
				return s.err
			}))
			for _, a := range []*arrayFile{indptr, indices, weights, features} {
				a.close()
			}
		})
	})
	return s.failure()
}

// Written maps the in-edges of relation r that In has written. Closing the graph, which has nothing else,
// gives them back.
func (w *PartWriter) Written(r int) (*Graph, error) {
	rows, _, err := w.ends(r, inEdges)
	if err != nil {
		return nil, err
	}
	m := &mappings{wayOut: partitionAgain}
	g := &Graph{Relations: make([]Relation, 1), path: filepath.Join(w.s.dir.Name(), w.name), mapped: m}
	dir := filepath.Join(g.path, w.part.Graph.layout().edges(w.part.Graph.Relations[r].Ends()))
	if err := g.Relations[0].read(m, dir, inEdges, &w.d.Relations[r], rows); err != nil {
		return nil, errors.Join(err, g.Close())
	}
	return g, nil
}

// Close writes the description of the part.
func (w *PartWriter) Close() error {
	w.s.within(w.name, func() { w.s.description(w.d, symmetric(w.part.Graph.Relations, w.part.Out)) })
	return w.s.failure()
}
