// Package dgl reads what DGL, the Deep Graph Library, writes: files of graphs (dgl.save_graphs; .bin and
// .dgl, from DGL 0.5 to 2.x), and graphs that it has divided into partitions
// (dgl.distributed.partition_graph, tools/distpartitioning), which a JSON file describes.
//
// A DGL file is a header, then the graphs one after another: edges as coordinates or as compressed rows, and
// tensors by name for the vertices and edges of each type. Files are untrusted: they are mapped, every length
// in them is compared with the bytes that are left, and nothing is executed. Arrays are taken out of the
// mapped file in blocks, so that none is in memory twice.
package dgl

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"weft/graph"
	"weft/graph/internal/arrays"
	"weft/internal/foreign"
	"weft/internal/memory"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// AllGraphs as Options.Graph is all graphs of a file, as one block-diagonal graph.
const AllGraphs = -1

// graphBoltFile is the name of a partition's graph for GraphBolt.
const graphBoltFile = "fused_csc_sampling_graph.pt"

// Options say what is read of a file. A name that is empty stands for a column found by the names that DGL
// users give: feat or features, label or labels, train_mask, val_mask and test_mask. None goes without.
type Options struct {
	// Graph is the number of the graph in the file, from 0, or AllGraphs.
	Graph int
	// Features, Labels, Train, Val and Test name columns (tensors of ndata), in a graph of several types as
	// NAME of each type that has it or as TYPE/NAME. Features have any dimensions: those of a vertex become
	// one row. Labels are class ids, integers or whole floats, or a 0/1 matrix. The others are masks: a truth
	// value for each vertex, or one for each split.
	Features, Labels, Train, Val, Test string
	// EdgeWeights and EdgeFeatures name columns of edges (edata). Weights are never found by a name.
	EdgeWeights, EdgeFeatures string
	// EdgeSplit is Masks to read train_mask, val_mask and test_mask of edges as a split for link prediction,
	// or None for no split of edges. By default they are read of a graph whose vertices have no labels.
	// Validation and test edges then pass no messages, and neither do those of relations that are named as
	// the reverse of theirs. The lists that AsLinkPredDataset stores beside its training graph are read but
	// for None.
	EdgeSplit string
	// DenseFeatures stores features dense even if most values are zero. By default such features become
	// sparse rows.
	DenseFeatures bool
}

// Division is DGL's assignment of vertices to partitions.
type Division struct {
	K  int     // number of partitions
	Of []int32 // the partition of each vertex
}

// Read reads a graph: from a file of graphs, or from the JSON file of a graph that DGL divided, or from the
// folder of the only one, with the division; that of others, and of one partition, is nil. Of several vertex
// types the one with labels comes first.
//
// Vertices have the ids that they have in DGL. Those of a divided graph are of the graph before it was
// divided where the partitions hold these ids (as DGL up to 0.9 and tools/distpartitioning write them), or
// else DGL's ids of the divided graph; the Notes say which. Edges with equal ends keep the order of their
// ids. Complaints about a file are refusals that name it.
func Read(path string, o Options) (g *graph.Graph, d *Division, err error) {
	if path, err = inFolder(path); err != nil {
		return nil, nil, err
	}
	start, err := head(path)
	if err != nil {
		return nil, nil, err
	}
	read := readFile
	switch kind := foreign.Recognize(start); {
	case kind == foreign.DGLGraph:
	case filepath.Base(path) == graphBoltFile:
		return nil, nil, refusal.Errorf("%s: a graph of GraphBolt, a pickle, which is never read: divide the graph with use_graphbolt=False and give the JSON file", path)
	case kind == foreign.DGLData:
		return nil, nil, refusal.Errorf("%s: tensors saved by DGL, without a graph: give the file of the graph, or the JSON file of a divided graph", path)
	case kind != foreign.Unknown:
		return nil, nil, kind.Refuse(path, "a file of dgl.save_graphs, or the JSON file of a divided graph")
	case bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(start, []byte(foreign.ByteOrderMark)), " \t\r\n"), []byte("{")):
		read = readDivided
	default:
		return nil, nil, refusal.Errorf("%s: neither a graph saved by DGL nor the JSON file of one that DGL divided", path)
	}
	err = graph.Guard(path, func() (err error) {
		g, d, err = read(path, &o)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return g, d, nil
}

// inFolder returns the only JSON file in a folder, and any other path itself.
func inFolder(path string) (string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return path, nil //nolint:nilerr // no folder, or the error comes again
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".json") {
			files = append(files, e.Name())
		}
	}
	switch len(files) {
	case 0:
		return "", refusal.Errorf("%s: is a directory without a JSON file: give the JSON file of a divided graph, or a file of dgl.save_graphs", path)
	case 1:
		return filepath.Join(path, files[0]), nil
	}
	return "", refusal.Errorf("%s: is a directory with the JSON files %s: give the one of the divided graph", path, arrays.Listed(files))
}

// head returns the first bytes of the file of that name.
func head(path string) ([]byte, error) {
	f, size, err := regular.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	start := make([]byte, min(size, foreign.Head))
	_, err = f.ReadAt(start, 0)
	return start, err
}

// readFile reads a graph of a file of graphs, or all of them as one.
func readFile(path string, o *Options) (*graph.Graph, *Division, error) {
	c, err := open(path)
	if err != nil {
		return nil, nil, err
	}
	defer c.Close()
	chosen, err := c.choose(o.Graph)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	vertices := 0 // of all, which have the same classes
	for _, s := range chosen {
		for _, tensors := range s.edgeTensors {
			if _, there := tensors[ownEdges]; there {
				return nil, nil, refusal.Errorf("%s: one partition of a graph that DGL divided: give the JSON file that lists all of them", path)
			}
		}
		for _, n := range s.counts {
			vertices += n
		}
	}
	graphs := make([]*graph.Graph, len(chosen))
	for k, s := range chosen {
		contents := s.contents()
		contents.vertices = vertices
		if graphs[k], _, err = contents.graph(o); err != nil && len(chosen) > 1 {
			err = fmt.Errorf("graph %d: %w", k, err)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	g := graphs[0]
	if len(graphs) > 1 {
		if slices.ContainsFunc(graphs, hasEdgeSplit) {
			return nil, nil, refusal.Errorf("%s: masks of edges in several graphs, where a split of edges is of one; %s takes one graph by its number, and %s %s leaves masks out",
				path, refusal.Setting("graph"), refusal.Setting("edge-split"), None)
		}
		if g, err = graph.Merge(graphs); err != nil {
			return nil, nil, refusal.Errorf("%s: %w; %s takes one graph by its number", path, err, refusal.Setting("graph"))
		}
		g.Notes = append(g.Notes, fmt.Sprintf("%d graphs as one; %s takes one of them", g.Graphs, refusal.Setting("graph")))
	}
	if err := c.splitByLists(g, o); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	c.sayOrigin(g, path)
	return g, nil, nil
}

// sayOrigin notes where a graph comes from, and what was left out of that.
func (c *cursor) sayOrigin(g *graph.Graph, path string) {
	g.Provenance = "dgl " + path
	if len(c.labels) > 0 {
		g.Notes = append(g.Notes, "labels of whole graphs left out: "+arrays.Listed(slices.Sorted(maps.Keys(c.labels))))
	}
}

// choose returns the graph of that number, or all of them.
func (c *cursor) choose(graph int) ([]*structure, error) {
	all, err := c.readGraphs()
	if err != nil {
		return nil, err
	}
	switch n := len(all); {
	case n == 0:
		return nil, refusal.Errorf("holds no graph")
	case graph == AllGraphs:
		return all, nil
	case graph >= n:
		return nil, refusal.Errorf("%s %d: the file holds %d, counted from 0", refusal.Setting("graph"), graph, n)
	}
	return all[graph : graph+1], nil
}

// contents are the vertices and edges of a graph by type, of a file of graphs or of partitions.
type contents struct {
	types     []*table // of vertices
	relations []*relation
	notes     []string
	vertices  int     // of all graphs that have the same classes; 0: of this one
	stream    *stream // takes edges and dense features; nil: they are read
}

// relation is the edges of one type.
type relation struct {
	*table
	source, target int // vertex types
	ends           func() (source, target []int32, err error)
	matrix         *matrix // of a file of graphs
}

// contents returns the contents of one graph of a file.
func (s *structure) contents() *contents {
	c := &contents{}
	for t, name := range s.vertexTypes {
		c.types = append(c.types, newTable(name, s.counts[t], s.vertexTensors[t]))
	}
	for k, name := range s.relationTypes {
		m := &s.relations[k]
		c.relations = append(c.relations, &relation{newTable(name, m.second.elements(), s.edgeTensors[k]), s.ends[k][0], s.ends[k][1], m.edges, m})
	}
	return c
}

// typeName returns the name of a type of vertices or edges: weft's own if DGL's name stands for the only
// type.
func typeName(name string) string {
	switch name {
	case oneType:
		return graph.VertexName
	case oneTypes:
		return graph.RelationName
	}
	return name
}

// graph makes the graph. The type that has labels comes first; order lists all types as they come in it. The
// graph is nil if it cannot be read in a stream, as it should be.
func (c *contents) graph(o *Options) (g *graph.Graph, order []int, err error) {
	if err := c.checkCounts(); err != nil {
		return nil, nil, err
	}
	edges := make([]*table, len(c.relations))
	for k, r := range c.relations {
		edges[k] = r.table
	}
	labels, splits, err := c.pickLabels(o)
	if err != nil {
		return nil, nil, err
	}
	features, err := pick(c.types, "features", o.Features, featureNames)
	if err != nil {
		return nil, nil, err
	}
	weights, err := pick(edges, "edge-weights", o.EdgeWeights, nil)
	if err != nil {
		return nil, nil, err
	}
	edgeFeatures, err := pick(edges, "edge-features", o.EdgeFeatures, featureNames)
	if err != nil {
		return nil, nil, err
	}
	masks, err := c.readsMasks(o, labels)
	if err != nil || masks && c.stream != nil {
		return nil, nil, err
	}
	first, err := c.first(labels, splits)
	if err != nil {
		return nil, nil, err
	}
	order = []int{first}
	for k := range c.types {
		if k != first {
			order = append(order, k)
		}
	}
	g = &graph.Graph{Type: typeName(c.types[first].name), Count: c.types[first].rows, Notes: c.notes}
	for k, r := range c.relations {
		if c.stream != nil {
			if err := c.stream.takeEdges(r, weights[k], edgeFeatures[k]); err != nil {
				return nil, nil, err
			}
			continue
		}
		made, err := c.relation(r, weights[k], edgeFeatures[k], masks)
		if err != nil {
			return nil, nil, err
		}
		g.Relations = append(g.Relations, made)
	}
	if masks {
		held, reverses, err := withoutReverses(g)
		if err != nil {
			return nil, nil, err
		}
		g.Notes = append(g.Notes, fmt.Sprintf("%d validation and test edges of masks pass no messages, nor do %d of reverse relations", held, reverses))
	}
	for i, k := range order {
		t := c.types[k]
		if taken, err := c.stream.takeFeatures(t, features[k], o.DenseFeatures); taken || err != nil {
			if err != nil {
				return nil, nil, err
			}
			continue
		}
		m, err := t.features(features[k], arrays.MatrixOptions{Backed: true, KeepDense: o.DenseFeatures})
		if err != nil {
			return nil, nil, err
		}
		if m.Note != "" {
			g.Notes = append(g.Notes, m.Note)
		}
		if i == 0 {
			g.Features = m.Features
		} else {
			g.Others = append(g.Others, graph.VertexType{Type: typeName(t.name), Count: t.rows, Features: m.Features})
		}
	}
	t := c.types[first]
	if g.Labels, err = t.labels(labels[first], cmp.Or(c.vertices, t.rows)); err != nil {
		return nil, nil, err
	}
	if g.Splits, err = t.splits([3]string{splits[0][first], splits[1][first], splits[2][first]}, &g.Labels); err != nil {
		return nil, nil, err
	}
	for _, left := range []struct {
		of     string
		tables []*table
	}{{"vertices", c.types}, {"edges", edges}} {
		if names := namesOf(left.tables, (*table).left); len(names) > 0 {
			g.Notes = append(g.Notes, fmt.Sprintf("columns of %s left out: %s", left.of, arrays.Listed(names)))
		}
	}
	if c.stream != nil {
		return g, order, nil
	}
	return g, order, g.Check()
}

// pickLabels names the columns of labels and of the three masks for each vertex type.
func (c *contents) pickLabels(o *Options) (labels []string, splits [3][]string, err error) {
	if labels, err = pick(c.types, "labels", o.Labels, labelNames.unless(o.Labels)); err != nil {
		return nil, splits, err
	}
	for k, s := range []struct {
		setting  refusal.Setting
		asked    string
		defaults names
	}{{"train", o.Train, trainNames}, {"val", o.Val, valNames}, {"test", o.Test, testNames}} {
		if s.asked == "" && o.Train == None {
			s.asked = None
		}
		if splits[k], err = pick(c.types, s.setting, s.asked, s.defaults.unless(s.asked)); err != nil {
			return nil, splits, err
		}
	}
	return labels, splits, nil
}

// first returns the type whose labels are learned: the one that has some, or of several the one that also has
// masks.
func (c *contents) first(labels []string, splits [3][]string) (int, error) {
	var with []int
	for _, masks := range []bool{false, true} {
		kept := []int{}
		for k := range c.types {
			if labels[k] != "" && (!masks || splits[0][k] != "") {
				kept = append(kept, k)
			}
		}
		if len(kept) == 1 {
			return kept[0], nil
		}
		if !masks {
			with = kept
		}
	}
	if len(with) > 0 {
		return 0, refusal.Errorf("the vertex types %.40q and %.40q have labels: choose by %s TYPE/NAME", c.types[with[0]].name, c.types[with[1]].name, refusal.Setting("labels"))
	}
	return max(slices.IndexFunc(splits[0], func(name string) bool { return name != "" }), 0), nil
}

// checkCounts refuses vertex counts that the rest of the file does not confirm. A vertex takes memory in
// each relation that joins its type, and counts once where none does. What is there in the file is edges,
// and a row for each vertex of a type that has a column.
func (c *contents) checkCounts() error {
	taken, edges, rows := 0, 0, 0
	joined := make([]bool, len(c.types))
	for _, r := range c.relations {
		taken += max(c.types[r.source].rows, c.types[r.target].rows)
		edges += r.rows
		joined[r.source], joined[r.target] = true, true
	}
	for k, t := range c.types {
		if !joined[k] {
			taken += t.rows
		}
		for _, column := range t.columns {
			if column.size > 0 && len(column.Shape) > 0 && column.Shape[0] == t.rows {
				rows += t.rows
				break
			}
		}
	}
	if int64(taken) > arrays.MaxClaims(edges+rows) {
		return refusal.Errorf("%d vertices, counted once for each relation, with only %d edges and %d rows of columns: give the vertices a column",
			taken, edges, rows)
	}
	return nil
}

// checkWeights refuses a column of weights that has several.
func checkWeights(name string, columns int) error {
	if columns > 1 {
		return refusal.Errorf("%s %.40q: has %d columns, where an edge has one weight", refusal.Setting("edge-weights"), name, columns)
	}
	return nil
}

// relation sorts a relation's edges into in-neighbour lists.
func (c *contents) relation(r *relation, weights, features string, masks bool) (made graph.Relation, err error) {
	source, target := c.types[r.source], c.types[r.target]
	const bound = 8 // of a vertex's edges
	if err := memory.Need(bound * int64(target.rows)); err != nil {
		return made, err
	}
	dense := arrays.MatrixOptions{Backed: true, KeepDense: true}
	w, err := r.features(weights, dense)
	if err != nil {
		return made, err
	}
	if err := checkWeights(weights, w.Columns); err != nil {
		return made, err
	}
	f, err := r.features(features, dense)
	if err != nil {
		return made, err
	}
	var split *graph.EdgeSplit
	e := graph.Edges{Weights: w.Dense, Features: f.Dense, FeatureColumns: f.Columns}
	if e.Source, e.Target, err = r.ends(); err == nil && masks {
		var held []bool
		if split, held, err = r.split(&e); split != nil {
			e = without(e, held)
		}
	}
	if err == nil {
		made, err = graph.NewBipartite(source.rows, target.rows, e)
	}
	if err != nil {
		return made, refusal.Errorf("relation %.40q: %w", r.name, err)
	}
	made.Source, made.Name, made.Target, made.EdgeSplit = typeName(source.name), typeName(r.name), typeName(target.name), split
	return made, nil
}
