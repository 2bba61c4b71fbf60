// Package ppi reads the protein interaction graphs of Hamilton et al. 2017 (GraphSAGE) in the folder that
// PyTorch Geometric (PyG) and DGL download: for each of train, valid and test the files PART_graph.json,
// PART_feats.npy, PART_labels.npy and PART_graph_id.npy.
//
// Files are untrusted: memory is bounded by the bytes that are there.
package ppi

import (
	"fmt"
	"os"
	"path/filepath"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// partNames are the beginnings of the names of files, in the order of the parts of a split.
var partNames = [3]string{"train", "valid", "test"}

// The ends of the names of files.
const (
	linksEnd    = "_graph.json"
	featuresEnd = "_feats.npy"
	labelsEnd   = "_labels.npy"
	graphIDsEnd = "_graph_id.npy"
)

// Is reports whether a folder holds such files: those for training.
func Is(dir string) bool {
	for _, end := range []string{linksEnd, featuresEnd, labelsEnd, graphIDsEnd} {
		if info, err := os.Stat(filepath.Join(dir, partNames[0]+end)); err != nil ||
			!info.Mode().IsRegular() {
			return false
		}
	}
	return true
}

// Options say how the folder is read.
type Options struct {
	// DenseFeatures stores features dense even if most values are zero. By default such features become
	// sparse rows.
	DenseFeatures bool
}

// Read reads the folder as one block-diagonal graph. The vertices of the training graphs come first, then
// those of the validation and of the test graphs, each in the order of their files. The split is that of the
// files.
//
// Edges lead both ways or, if the file says that it is directed, as listed, each once. As in PyG, self loops
// and edges between two graphs are left out, and Notes say how many. Every complaint about the files is a
// refusal that names the file.
func Read(dir string, o Options) (*graph.Graph, error) {
	var left left
	parts := make([]*graph.Graph, len(partNames))
	graphOf := []int32{}
	graphs := 0
	for k, name := range partNames {
		g, err := readPart(filepath.Join(dir, name), o, &left)
		if err != nil {
			return nil, err
		}
		all := make([]int64, g.Types[0].Count)
		for v := range all {
			all[v] = int64(v)
		}
		parts[k] = g
		g.Splits = make([]graph.Split, 1)
		*g.Splits[0].Parts()[k] = all
		if graphOf, err = memory.Grow(graphOf, g.Types[0].Count); err != nil {
			return nil, refusal.In(dir, err)
		}
		for _, id := range g.Types[0].GraphOf {
			graphOf = append(graphOf, int32(graphs)+id)
		}
		graphs += g.Graphs
		g.Types[0].GraphOf, g.Graphs = nil, 0
	}
	g, err := graph.Merge(parts)
	if err != nil {
		return nil, refusal.Errorf("%s, where graphs 0, 1 and 2 are those of %v: %w", dir, partNames, err)
	}
	g.Types[0].GraphOf, g.Graphs, g.Provenance = graphOf, graphs, "ppi "+dir
	g.Notes = append(g.Notes, left.notes()...)
	if err := g.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return g, nil
}

// left counts what is left out.
type left struct{ duplicates, loops, between int64 }

func (l *left) notes() (notes []string) {
	for _, n := range []struct {
		count int64
		what  string
	}{
		{l.duplicates, "edges that stand twice"},
		{l.loops, "self loops"},
		{l.between, "edges between two graphs"},
	} {
		if n.count > 0 {
			notes = append(notes, fmt.Sprintf("left out, as by PyTorch Geometric: %d %s", n.count, n.what))
		}
	}
	return notes
}

// readPart reads the files of a part, whose names begin with a path. The graph has no split.
func readPart(path string, o Options, left *left) (*graph.Graph, error) {
	features, err := readFeatures(path+featuresEnd, o.DenseFeatures)
	if err != nil {
		return nil, err
	}
	vertices := features.Rows
	array, err := arrays.ReadFile(path+graphIDsEnd, int64(vertices))
	if err != nil {
		return nil, err
	}
	ids, err := array.Int64s()
	if err != nil || len(array.Shape) != 1 || len(ids) != vertices || vertices == 0 {
		return nil, refusal.Errorf("%s: %s of shape %v: it must be the number of a graph for each of the "+
			"%d rows of %s", path+graphIDsEnd, array.Descr, array.Shape, vertices, path+featuresEnd)
	}
	g := &graph.Graph{Types: []graph.VertexType{{Count: vertices}}}
	features.Of(g)
	if g.Types[0].GraphOf, g.Graphs, err = graph.NumberGraphs(ids); err != nil {
		return nil, refusal.In(path+graphIDsEnd, err)
	}
	if g.Labels, err = readLabels(path+labelsEnd, vertices); err != nil {
		return nil, err
	}
	links, err := readLinks(path+linksEnd, vertices)
	if err != nil {
		return nil, err
	}
	edges, err := links.edges(g.Types[0].GraphOf, left)
	if err != nil {
		return nil, refusal.In(path+linksEnd, err)
	}
	relation, err := graph.NewRelation(vertices, edges)
	if err != nil {
		return nil, refusal.In(path+linksEnd, err)
	}
	g.Relations = []graph.Relation{relation}
	return g, nil
}

// readFeatures reads a row of features for each vertex.
func readFeatures(path string, keepDense bool) (*arrays.Matrix, error) {
	f, err := arrays.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	switch f.Kind {
	case foreign.Array:
	case foreign.Unknown:
		return nil, refusal.Errorf("%s: is no array that numpy.save writes: fetch it again", path)
	default:
		return nil, f.Kind.Refuse(path, "what numpy.save writes")
	}
	m, err := f.Matrix(keepDense)
	if err == nil && (m.Rows == 0 || m.Columns == 0) {
		err = refusal.Errorf("%s: has no values: it must have a row for each vertex", path)
	}
	return m, err
}

// readLabels reads a row of labels for each vertex.
func readLabels(path string, vertices int) (graph.Labels, error) {
	array, err := arrays.ReadFile(path, int64(vertices))
	if err != nil {
		return graph.Labels{}, err
	}
	if len(array.Shape) == 0 || array.Shape[0] != vertices {
		return graph.Labels{}, refusal.Errorf("%s: has shape %v: it must have a row for each of %d vertices",
			path, array.Shape, vertices)
	}
	l, err := arrays.WholeLabels(array, vertices)
	return l, refusal.In(path, err)
}
