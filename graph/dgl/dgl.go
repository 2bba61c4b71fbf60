// Package dgl reads what DGL, the Deep Graph Library, writes: files of graphs (dgl.save_graphs; .bin and
// .dgl, from DGL 0.5 to 2.x), and graphs that it has divided into partitions
// (dgl.distributed.partition_graph, tools/distpartitioning), which a JSON file describes.
//
// A DGL file is a header, then the graphs one after another: edges as coordinates or as compressed rows, and
// tensors by name for the vertices and edges of each type. Files are untrusted: every length in them is
// compared with the bytes that are left, and nothing is executed.
//
// The command import dgl reads files by it.
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
	"weft/graph/streamed"
	"weft/internal/foreign"
	"weft/internal/refusal"
	"weft/internal/regular"
)

// AllGraphs is the Options.Graph that takes all graphs of a file, as one block-diagonal graph.
const AllGraphs = -1

// graphBoltFile is the name of a partition's graph for GraphBolt.
const graphBoltFile = "fused_csc_sampling_graph.pt"

// Options say what is read of a file. An empty name stands for a column that is found by the names that DGL
// users give: feat or features, label or labels, train_mask, val_mask and test_mask. None leaves it out.
type Options struct {
	// Graph is the number of the graph in the file, from 0, or AllGraphs.
	Graph int
	// Features, Labels, Train, Val and Test name columns (tensors of ndata). In a graph of several types,
	// NAME is a column of each type that has it, and TYPE/NAME a column of one. Features may have any
	// dimensions: those of a vertex become one row. Labels are class ids, integers or whole floats, or a 0/1
	// matrix. The others are masks: a truth value for each vertex, or one for each split.
	Features, Labels, Train, Val, Test string
	// EdgeWeights and EdgeFeatures name columns of edges (edata). Weights are never found by a name.
	EdgeWeights, EdgeFeatures string
	// EdgeSplit is Masks to read train_mask, val_mask and test_mask of edges as a split for link prediction,
	// or None for no split of edges. By default they are read if no vertices of the graph have labels.
	// Validation and test edges then pass no messages, and neither do those of relations that are named as
	// the reverse of theirs. The lists that AsLinkPredDataset stores beside its training graph are read
	// unless EdgeSplit is None.
	EdgeSplit string
	// DivideEdges is Divide of streamed.Frame, for labels of edges.
	DivideEdges func(*graph.Frame) error
	// DenseFeatures stores features dense even if most values are zero. By default such features become
	// sparse rows.
	DenseFeatures bool
}

// Division is DGL's assignment of vertices to partitions.
type Division struct {
	K     int     // number of partitions
	Parts []int32 // the partition of each vertex
}

// Open opens a graph, to be read or written in a stream, until it is closed. path is a file of graphs, the
// JSON file of a graph that DGL divided, or a folder with one such file. The Division is nil for a file of
// graphs, and for one partition. If there are several vertex types, the one with labels comes first.
//
// Vertices have the ids that they have in DGL. For a divided graph these are the ids before it was divided,
// if the partitions hold them (DGL up to 0.9 and tools/distpartitioning write them), or else DGL's ids of the
// divided graph. The Notes say which. Edges with equal ends keep the order of their ids. Complaints about a
// file are refusals that name it.
//
// Edges and dense features are read when they are needed. Held in memory are several graphs as one, a graph
// whose edges are split, and edges that do not lie in the order of their ids.
func Open(path string, o Options) (*streamed.Graph, *Division, error) {
	path, err := inFolder(path)
	if err != nil {
		return nil, nil, err
	}
	start, err := head(path)
	if err != nil {
		return nil, nil, err
	}
	switch kind := foreign.Recognize(start); {
	case kind == foreign.DGLGraph:
		g, err := openFile(path, &o)
		return g, nil, err
	case filepath.Base(path) == graphBoltFile:
		return nil, nil, refusal.Errorf("%s: a graph of GraphBolt, a pickle, which is never read: divide "+
			"the graph with use_graphbolt=False and give the JSON file", path)
	case kind == foreign.DGLData:
		return nil, nil, refusal.Errorf("%s: tensors saved by DGL, without a graph: give the file of the "+
			"graph, or the JSON file of a divided graph", path)
	case kind != foreign.Unknown:
		return nil, nil, kind.Refuse(path, "a file of dgl.save_graphs, or the JSON file of a divided graph")
	case bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(start, []byte(foreign.ByteOrderMark)), " \t\r\n"),
		[]byte("{")):
		return openDivided(path, &o)
	}
	return nil, nil, refusal.Errorf("%s: neither a graph saved by DGL nor the JSON file of one that "+
		"DGL divided", path)
}

// inFolder returns the only JSON file in a folder, and any other path itself.
func inFolder(path string) (string, error) {
	entries, err := os.ReadDir(path)
	if err != nil {
		return path, nil //nolint:nilerr // it is no folder, or the error comes again
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() && strings.HasSuffix(e.Name(), ".json") {
			files = append(files, e.Name())
		}
	}
	switch len(files) {
	case 0:
		return "", refusal.Errorf("%s: is a directory without a JSON file: give the JSON file of a "+
			"divided graph, or a file of dgl.save_graphs", path)
	case 1:
		return filepath.Join(path, files[0]), nil
	}
	return "", refusal.Errorf("%s: is a directory with the JSON files %s: give the one of the divided graph",
		path, arrays.Listed(files))
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

// openFile opens a graph of a file of graphs, or all of them as one.
func openFile(path string, o *Options) (*streamed.Graph, error) {
	c, err := open(path)
	if err != nil {
		return nil, err
	}
	open := func() (*streamed.Graph, error) { return c.open(path, o) }
	return streamed.Opened(open, func() { _ = c.Close() })
}

func (c *cursor) open(path string, o *Options) (*streamed.Graph, error) {
	chosen, err := c.choose(o.Graph)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	vertices := 0 // of all graphs, which have the same classes
	for _, s := range chosen {
		for _, tensors := range s.edgeTensors {
			if _, there := tensors[ownEdges]; there {
				return nil, refusal.Errorf("%s: one partition of a graph that DGL divided: give the JSON "+
					"file that lists all of them", path)
			}
		}
		for _, n := range s.counts {
			vertices += n
		}
	}
	if len(chosen) > 1 {
		return c.several(path, chosen, vertices, o)
	}
	content := chosen[0].contents(path, vertices)
	content.labelled = o.EdgeSplit != Masks
	g, _, err := content.open(o)
	if err == nil && c.hasLists(o) {
		g, err = c.splitByLists(g)
	}
	if err != nil {
		return nil, err
	}
	c.sayOrigin(g.InMemory, path)
	return g, nil
}

// several reads graphs with vertices vertices in all, as one.
func (c *cursor) several(path string, chosen []*structure, vertices int,
	o *Options,
) (*streamed.Graph, error) {
	graphs := make([]*graph.Graph, len(chosen))
	for k, s := range chosen {
		opened, _, err := s.contents(fmt.Sprintf("%s: graph %d", path, k), vertices).open(o)
		if err == nil {
			graphs[k], err = opened.Read()
		}
		if err != nil {
			return nil, err
		}
	}
	if slices.ContainsFunc(graphs, hasEdgeSplit) {
		return nil, refusal.Errorf("%s: masks of edges in several graphs, where a split of edges is of "+
			"one; --graph takes one graph by its number, and --edge-split %s leaves masks out", path, None)
	}
	all, err := graph.Merge(graphs)
	if err != nil {
		return nil, refusal.Errorf("%s: %w; --graph takes one graph by its number", path, err)
	}
	if c.hasLists(o) {
		return nil, fmt.Errorf("%s: %w", path, listsOfSeveral())
	}
	all.Notes = append(all.Notes, fmt.Sprintf("%d graphs as one; --graph takes one of them", all.Graphs))
	c.sayOrigin(all, path)
	return streamed.Of(all, path), nil
}

// sayOrigin notes where a graph comes from, and what was left out.
func (c *cursor) sayOrigin(g *graph.Graph, path string) {
	g.Provenance = "dgl " + path
	if len(c.labels) > 0 {
		g.Notes = append(g.Notes, "labels of whole graphs left out: "+
			arrays.Listed(slices.Sorted(maps.Keys(c.labels))))
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
		return nil, refusal.Errorf("--graph %d: the file holds %d, counted from 0", graph, n)
	}
	return all[graph : graph+1], nil
}

// contents are the vertices and edges of a graph, by type. The graph is in a file of graphs or in partitions.
type contents struct {
	types     []*table // of vertices
	relations []*relation
	notes     []string
	source    string // with which errors begin
	vertices  int    // vertices of all graphs with the same classes; 0: of this one
	labelled  bool   // labels of edges are read, because this is one whole graph
}

// relation is the edges of one type.
type relation struct {
	*table
	source, target int // vertex types
	open           func() (arrays.EndsReader, error)
	refuse         func(error) error // adds to an error of open that it is about the relation
}

// contents returns the contents of one graph of a file.
func (s *structure) contents(source string, vertices int) *contents {
	c := &contents{source: source, vertices: vertices}
	for t, name := range s.vertexTypes {
		c.types = append(c.types, newTable(source, name, s.counts[t], s.vertexTensors[t]))
	}
	for k, name := range s.relationTypes {
		m := &s.relations[k]
		r := &relation{
			table: newTable(source, name, m.second.elements(), s.edgeTensors[k]), source: s.ends[k][0],
			target: s.ends[k][1], open: m.open,
		}
		r.refuse = r.refuseEdges
		c.relations = append(c.relations, r)
	}
	return c
}

// refuseEdges adds to an error that it is about the edges.
func (r *relation) refuseEdges(err error) error {
	return refusal.Errorf("%s: relation %.40q: %w", r.table.source, r.name, err)
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

// chosen are the names of the columns that are read, by type of vertices or by relation.
type chosen struct {
	first                                   int // the type that has labels
	labels, features, weights, edgeFeatures []string
	splits                                  [3][]string
	masks                                   bool // masks of edges make a split
}

// choose chooses what is read.
func (c *contents) choose(o *Options) (*chosen, error) {
	if err := c.checkCounts(); err != nil {
		return nil, err
	}
	val, test := o.Val, o.Test
	if o.Train == None {
		val, test = cmp.Or(val, None), cmp.Or(test, None)
	}
	k := &chosen{}
	edges := c.edgeTables()
	for _, p := range []struct {
		to       *[]string
		tables   []*table
		flag     string
		asked    string
		defaults names
	}{
		{&k.labels, c.types, "--labels", o.Labels, labelNames.unless(o.Labels)},
		{&k.splits[0], c.types, "--train", o.Train, trainNames.unless(o.Train)},
		{&k.splits[1], c.types, "--val", val, valNames.unless(val)},
		{&k.splits[2], c.types, "--test", test, testNames.unless(test)},
		{&k.features, c.types, "--features", o.Features, featureNames},
		{&k.weights, edges, "--edge-weights", o.EdgeWeights, nil},
		{&k.edgeFeatures, edges, "--edge-features", o.EdgeFeatures, featureNames},
	} {
		var err error
		if *p.to, err = pick(p.tables, p.flag, p.asked, p.defaults); err != nil {
			return nil, err
		}
	}
	var err error
	if k.masks, err = c.readsMasks(o, k.labels); err == nil {
		k.first, err = c.first(k.labels, k.splits)
	}
	return k, err
}

func (c *contents) edgeTables() (tables []*table) {
	for _, r := range c.relations {
		tables = append(tables, r.table)
	}
	return tables
}

// open opens the graph. The type that has labels comes first; order lists all types as they come in it.
func (c *contents) open(o *Options) (g *streamed.Graph, order []int, err error) {
	k, err := c.choose(o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", c.source, err)
	}
	order = []int{k.first}
	for t := range c.types {
		if t != k.first {
			order = append(order, t)
		}
	}
	own := c.types[k.first]
	all := &graph.Graph{Notes: c.notes}
	for _, t := range order {
		made := graph.VertexType{Type: typeName(c.types[t].name), Frame: graph.Frame{Count: c.types[t].rows}}
		all.Types = append(all.Types, made)
	}
	g = &streamed.Graph{InMemory: all, Source: c.source, Types: make([]streamed.Type, len(order))}
	for i, r := range c.relations {
		made, err := c.relation(r, k.weights[i], k.edgeFeatures[i], k.masks)
		if err == nil {
			err = c.labelEdges(r, &made, o.DivideEdges)
		}
		if err != nil {
			return nil, nil, err
		}
		g.Relations = append(g.Relations, made)
	}
	g.TellLabelsApart()
	if k.masks {
		heldOut, reverses, err := withoutReverses(g)
		if err != nil {
			return nil, nil, err
		}
		all.Notes = append(all.Notes, fmt.Sprintf("%d validation and test edges of masks pass no messages, "+
			"nor do %d of reverse relations", heldOut, reverses))
	}
	for i, t := range order {
		m, err := c.types[t].features(k.features[t], o.DenseFeatures)
		if err != nil {
			return nil, nil, err
		}
		m.Give(g, i)
	}
	if all.Types[0].Labels, err = own.labels(k.labels[k.first], cmp.Or(c.vertices, own.rows)); err != nil {
		return nil, nil, err
	}
	masks := [3]string{k.splits[0][k.first], k.splits[1][k.first], k.splits[2][k.first]}
	if all.Types[0].Splits, err = own.splits(masks, &all.Types[0].Labels); err != nil {
		return nil, nil, err
	}
	for _, left := range []struct {
		kind   string
		tables []*table
	}{{"vertices", c.types}, {"edges", c.edgeTables()}} {
		if names := namesOf(left.tables, (*table).left); len(names) > 0 {
			all.Notes = append(all.Notes, fmt.Sprintf("columns of %s left out: %s", left.kind,
				arrays.Listed(names)))
		}
	}
	return g, order, nil
}

// first returns the type whose labels are learned: the one that has labels or, of several, the one that also
// has masks.
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
		return 0, refusal.Errorf("the vertex types %.40q and %.40q have labels: choose by --labels TYPE/NAME",
			c.types[with[0]].name, c.types[with[1]].name)
	}
	return max(slices.IndexFunc(splits[0], func(name string) bool { return name != "" }), 0), nil
}

// checkCounts refuses vertex counts that the rest of the file does not confirm. A vertex takes memory in each
// relation that joins its type, and counts once if none does. Edges confirm vertices, and so does a row for
// each vertex of a type that has a column.
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
		return refusal.Errorf("%d vertices, counted once for each relation, with only %d edges and %d "+
			"rows of columns: give the vertices a column", taken, edges, rows)
	}
	return nil
}

// relation opens the edges of a relation. The edges of a split are held in memory.
func (c *contents) relation(r *relation, weights, features string, masks bool) (streamed.Relation, error) {
	made := streamed.Relation{
		Source: typeName(c.types[r.source].name), Name: typeName(r.name),
		Target: typeName(c.types[r.target].name),
	}
	list := arrays.EdgeArrays{Open: r.open, Refuse: r.refuse}
	var err error
	if list.Weights, err = r.edgeColumn(weights); err != nil {
		return made, err
	}
	if list.Weights != nil && list.Weights.Columns > 1 {
		return made, refusal.Errorf("%s: --edge-weights %.40q: has %d columns, where an edge has one weight",
			c.source, weights, list.Weights.Columns)
	}
	if list.Features, err = r.edgeColumn(features); err != nil {
		return made, err
	}
	made.Count, made.Weighted, made.Each = int64(r.rows), list.Weights != nil, list.Each
	if list.Features != nil {
		made.Columns = list.Features.Columns
	}
	made.Refuse = r.refuseEdges
	if !masks || !r.hasMasks() || c.label(r) != "" {
		return made, nil
	}
	all, err := made.Read(nil)
	if err != nil {
		return made, err
	}
	split, heldOut, err := r.split(&all)
	if err != nil {
		return made, err
	}
	made.Edges = streamed.Listed(without(all, heldOut), made.Refuse)
	made.EdgeSplit = split
	return made, nil
}
