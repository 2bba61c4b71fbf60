// Package streamed takes graphs from the sources that importers read: into memory, or into a store while they
// are read, so that neither edges nor dense features need to fit in memory.
//
// An importer describes its source once, as a Graph:
//
//   - InMemory has what is small: the vertex types, that with labels first, with their Count, names and
//     sparse features, labels, splits, the graphs of vertices, notes. What the importer has in memory anyway
//     it may leave there, dense features too.
//   - Relations has the names of each relation, and how its edges are read, some at a time. Listed makes that
//     of a list in memory.
//   - Types has, for each type, dense features and arrays that are read some rows at a time.
//
// Where the vertices are known only after the edges, Complete sets what is missing. Of makes a Graph of one
// that is in memory as a whole. Read and Write are the only ways on, and give the same graph, and the same
// refusals.
package streamed

import (
	"fmt"
	"math"
	"slices"

	"weft/graph"
	"weft/graph/columns"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// Graph is a graph whose edges, and perhaps dense features and arrays, lie in its source until they are
// needed. Read puts it into memory, and Write into a store.
type Graph struct {
	// InMemory is what has been read. It has no relations.
	InMemory  *graph.Graph
	Source    string // the path that errors about the graph as a whole name
	Relations []Relation
	Types     []Type // by vertex type; nil: InMemory has all
	// FromEdges makes the dense features of consecutive vertices, Columns of the edges for each, from the
	// rows of the edges into them, in a graph of one type and relation; nil: they are not made so.
	FromEdges func(rows *graph.Relation) ([]float32, error)
	// Complete sets what InMemory, Types and edge splits have; nil: they have it already. It is called once,
	// after the edges of all relations have been read.
	Complete func() error

	// Symmetrize stores each edge in both directions, once, as graph.Symmetrize does.
	Symmetrize bool
	// Prepare is called before Write writes anything, when all but edges and Rows is known. It may change the
	// splits of InMemory. nil: they stay.
	Prepare func() error
	// Add is called by Write before the complete store gets its name, as of graph.WriteWith. nil: nothing is
	// added.
	Add      func(store string) error
	Progress graph.Progress
	// Release closes the source; nil: nothing is open.
	Release func()

	whole bool // InMemory has the relations, too
}

// Relation is the edges from the vertices of one type to those of another.
type Relation struct {
	Source, Name, Target string // empty: those of a graph that has one of each
	Edges
	EndColumns    [2]string        // as graph.Relation's
	NumberColumns columns.List     // the same
	EdgeSplit     *graph.EdgeSplit // nil: there is none
	EdgeLabels    *EdgeLabels      // nil: there are none
}

// EdgeLabels are the labels of the edges of a relation. The last of Edges.Columns has a Code for each edge
// that the labels have a place for, −1 for an edge without a label. Where Of.By is not nil, the one before it
// has the Code of a place in its Values, −1 for an edge that is in no part.
type EdgeLabels struct {
	// Of has the labels by code: classes or values, and the splits, as lists of codes, where each edge has a
	// code of its own. Where Graph.Complete is not nil, it may set it.
	Of graph.EdgeLabels
	// Divide sets the splits of the edges. nil: they are those of Of.
	Divide func(*graph.EdgeLabels) error

	taken []int64 // the codes of the edges in the order of the store, where Of has splits
}

// TellLabelsApart has labels of edges of the same column in several relations named RELATION:COLUMN, with
// SOURCE__NAME__TARGET for RELATION where several of these have its name.
func (g *Graph) TellLabelsApart() {
	counts, named := map[string]int{}, map[[2]string]int{}
	each := func(do func(r *Relation, column *string)) {
		for i := range g.Relations {
			if r := &g.Relations[i]; r.EdgeLabels != nil {
				do(r, &r.EdgeLabels.Of.Column)
			}
		}
	}
	each(func(r *Relation, column *string) {
		counts[*column]++
		named[[2]string{r.Name, *column}]++
	})
	each(func(r *Relation, column *string) {
		relation := r.Name
		if named[[2]string{r.Name, *column}] > 1 {
			of := graph.Relation{Source: r.Source, Name: r.Name, Target: r.Target}
			relation = of.FullName()
		}
		if counts[*column] > 1 {
			*column = relation + ":" + *column
		}
	})
}

// MaxCode is the largest code of a label.
const MaxCode = math.MaxInt32&^(1<<23-1) - 2 // Code of it is finite

// Code is the value that a column of edges has for a code.
func Code(code int64) float32 { return math.Float32frombits(uint32(code + 1)) }

// CodeOf is the code that such a value stands for.
func CodeOf(value float32) int64 { return int64(math.Float32bits(value)) - 1 }

// announced is what is known without rows, nil where there are no labels.
func (l *EdgeLabels) announced() *graph.EdgeLabels {
	if l == nil {
		return nil
	}
	return l.of(nil, nil)
}

// codes is how many columns of codes there are.
func (l *EdgeLabels) codes() int {
	switch {
	case l == nil:
		return 0
	case l.Of.By != nil:
		return 2
	}
	return 1
}

// of are the labels, without splits, of edges by the codes of their labels and of what they are divided by.
func (l *EdgeLabels) of(codes, by []int64) *graph.EdgeLabels {
	of := l.Of
	of.Labels, of.By, of.Splits = of.OfRows(codes), of.By.OfRows(by), nil
	return &of
}

// take takes the column of codes from the edges' features, and gives the edges the labels.
func (l *EdgeLabels) take(r *graph.Relation) {
	if l == nil {
		return
	}
	all, columns := r.EdgeColumns, r.EdgeColumns-l.codes()
	edges := len(r.Sources)
	codes, by, features := make([]int64, edges), make([]int64, edges), make([]float32, 0, edges*columns)
	for k := range edges {
		row := r.EdgeFeatures[k*all : (k+1)*all]
		features = append(features, row[:columns]...)
		by[k] = CodeOf(row[columns])
		codes[k] = CodeOf(row[all-1])
	}
	if len(l.Of.Splits) > 0 {
		l.taken = append(l.taken, codes...)
	}
	r.EdgeLabels, r.EdgeColumns, r.EdgeFeatures = l.of(codes, by), columns, features
	if columns == 0 {
		r.EdgeFeatures = nil
	}
}

// divides reports whether the edges have splits.
func (l *EdgeLabels) divides() bool { return l != nil && (l.Divide != nil || len(l.Of.Splits) > 0) }

// divide sets the splits of all edges, which have been taken.
func (l *EdgeLabels) divide(of *graph.EdgeLabels) error {
	of.Splits = l.Of.SplitsOfRows(l.taken)
	l.taken = nil
	if l.Divide == nil {
		return nil
	}
	return l.Divide(of)
}

// Edges are a list of edges.
type Edges struct {
	Count int64 // how many there are; Unknown where Complete is not nil, perhaps
	About int64 // an estimate of Count where that is unknown
	// they have weights. Where Complete is not nil, it is set when Each has called its argument
	Weighted  bool
	Columns   int  // of features
	Symmetric bool // the reverse of each is there, equally often
	// Each calls do with all edges in their order, some at a time, which are valid until do returns. It can
	// be called again, and then reads them again.
	Each func(do func(graph.Edges) error) error
	// Refuse says of an error which edges it is about.
	Refuse func(error) error

	listed *graph.Edges // nil: they are not in memory
}

// Unknown is the Count of edges that have not been read.
const Unknown = -1

// Type is what a vertex type has that is not in memory.
type Type struct {
	Rows   *Rows // dense features; nil: those in memory, if any
	Arrays []Array
}

// Rows are a matrix with a row for each vertex.
type Rows struct {
	Columns int
	// Each calls do with all rows in their order, some at a time, row-major, which are valid until do
	// returns.
	Each func(do func(rows []float32) error) error
	// Refuse says of an error that it is about the rows.
	Refuse func(error) error
}

// Array is data of the vertices that no model reads, as graph.Array.
type Array struct {
	graph.ArrayShape
	// Each is as that of Rows.
	Each func(do func(rows []float32) error) error
}

// Of is a graph that is in memory as a whole.
func Of(g *graph.Graph, source string) *Graph {
	return &Graph{InMemory: g, Source: source, whole: true}
}

// Listed are edges in memory.
func Listed(e graph.Edges, refuse func(error) error) Edges {
	return Edges{
		Count: int64(e.Len()), Weighted: e.Weights != nil, Columns: e.FeatureColumns,
		Each: func(do func(graph.Edges) error) error { return do(e) }, Refuse: refuse, listed: &e,
	}
}

// Transposed returns the edges with their ends exchanged.
func (e Edges) Transposed() Edges {
	exchanged := func(list graph.Edges) graph.Edges {
		list.Source, list.Target = list.Target, list.Source
		return list
	}
	each := e.Each
	e.Each = func(do func(graph.Edges) error) error {
		return each(func(list graph.Edges) error { return do(exchanged(list)) })
	}
	if e.listed != nil {
		list := exchanged(*e.listed)
		e.listed = &list
	}
	return e
}

// Dense reports whether vertices have dense features. Where Complete is not nil, that is known in Prepare.
func (g *Graph) Dense() bool {
	dense := func(t graph.VertexType) bool { return t.Features.Dense != nil }
	return g.FromEdges != nil || slices.ContainsFunc(g.InMemory.Types, dense) ||
		slices.ContainsFunc(g.Types, func(t Type) bool { return t.Rows != nil })
}

// Close closes the source.
func (g *Graph) Close() {
	if g.Release != nil {
		g.Release()
	}
}

// Numbered returns the edges with one further column, the last, which has Code of each edge's number in their
// order.
func (e Edges) Numbered() Edges {
	each, columns := e.Each, e.Columns
	e.Columns, e.listed = columns+1, nil
	e.Each = func(do func(graph.Edges) error) error {
		at := int64(0)
		var rows []float32
		return each(func(list graph.Edges) error {
			rows = rows[:0]
			for k := range list.Source {
				rows = append(append(rows, list.Features[k*columns:(k+1)*columns]...), Code(at))
				at++
			}
			list.Features, list.FeatureColumns = rows, columns+1
			return do(list)
		})
	}
	return e
}

// Largest reads all edges, and returns the largest ids of a source and of a target, −1 where there is no
// edge.
func (e *Edges) Largest() (source, target int32, err error) {
	source, target = -1, -1
	_, err = e.each(nil, func(batch graph.Edges, _ int64) error {
		for k, u := range batch.Source {
			source, target = max(source, u), max(target, batch.Target[k])
		}
		return nil
	})
	return source, target, err
}

// Read reads the graph into memory. Its errors are those of Write, and that there is too little memory.
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
		made.Types[0].Features.Columns = made.Relations[0].EdgeColumns
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

// read is Read, as far as the graph is in its source.
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
	for i, of := range g.Types {
		if err := of.read(&made.Types[i]); err != nil {
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
		if of := g.Relations[i].EdgeLabels; of != nil {
			of.take(&sorted)
			if of.divides() {
				if err := of.divide(sorted.EdgeLabels); err != nil {
					return nil, g.refuse(err)
				}
			}
		}
		*r, lists[i] = sorted, graph.Edges{}
	}
	return made, nil
}

// announced are the relations, without rows.
func (g *Graph) announced() (all []graph.Relation) {
	for i := range g.Relations {
		r := &g.Relations[i]
		all = append(all, graph.Relation{
			Source: r.Source, Name: r.Name, Target: r.Target, EndColumns: r.EndColumns,
			NumberColumns: r.NumberColumns, EdgeSplit: r.EdgeSplit, Indptr: []int64{0},
			EdgeLabels: r.EdgeLabels.announced(),
			Symmetric:  g.Symmetrize || r.Symmetric,
		})
	}
	return all
}

// read reads what a type has into memory.
func (t *Type) read(to *graph.VertexType) (err error) {
	if t.Rows != nil {
		to.Features.Columns = t.Rows.Columns
		if to.Features.Dense, err = t.Rows.gather(to.Count); err != nil {
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

// checkSymmetrize refuses to make the edges of several types or relations undirected.
func checkSymmetrize(g *graph.Graph) error {
	if err := g.CheckOneType(); err != nil {
		return fmt.Errorf("--symmetrize: %w", err)
	}
	if err := g.CheckUnlabelledEdges(); err != nil {
		return fmt.Errorf("--symmetrize: %w", err)
	}
	return nil
}

// checkGraphs refuses an edge between two graphs before its reverse is added, which the file does not have.
func (g *Graph) checkGraphs(e *graph.Edges) error {
	if g.InMemory.Types[0].GraphOf == nil || !g.Symmetrize {
		return nil // it is checked with the rows
	}
	if err := e.CheckGraphs(g.InMemory.Types[0].GraphOf); err != nil {
		return g.refuse(err)
	}
	return nil
}

// refuse puts the source before an error about it.
func (g *Graph) refuse(err error) error {
	if !refusal.Is(err) {
		return err // as of the store's disk
	}
	return fmt.Errorf("%s: %w", g.Source, err)
}

// complete calls Complete, if it is there.
func (g *Graph) complete() error {
	if g.Complete == nil {
		return nil
	}
	return g.Complete()
}

// each calls do with all edges, and how many were before, and tells how many have been read.
func (e *Edges) each(tell graph.Progress,
	do func(batch graph.Edges, before int64) error,
) (read int64, err error) {
	err = e.Each(func(batch graph.Edges) error {
		if e.Count != Unknown {
			tell.Of("reading edges", read, e.Count)
		}
		before := read
		read += int64(batch.Len())
		return do(batch, before)
	})
	return read, err
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
		if err != nil {
			return e.Refuse(err)
		}
		return nil
	})
	all.FeatureColumns = e.Columns
	if e.Weighted && all.Weights == nil {
		all.Weights = []float32{}
	}
	return all, err
}

// gather reads a row for each of so many vertices into memory.
func (r *Rows) gather(vertices int) (all []float32, err error) {
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
		rows := Rows{a.Columns, a.Each, refuse}
		made.Floats, err = rows.gather(vertices)
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
