package generate

import (
	"os"
	"unsafe"

	"weft/graph"
	"weft/internal/cores"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// Write generates a graph and writes it to a new store. It writes edges, features and labels in batches,
// within the memory that Go's runtime may use (debug.SetMemoryLimit, GOMEMLIMIT). It needs eight bytes for
// each vertex for the split and, for sbm, the features of the class centres. It refuses a graph if there is
// no memory for these. If it fails, it leaves nothing behind.
func Write(dir string, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	vertices, _ := o.size()
	needs := 8 * int64(vertices)
	if o.Kind == SBM {
		needs += 4 * int64(o.Classes) * int64(o.Features)
	}
	if err := memory.Need(needs); err != nil {
		return refusal.Errorf("%s: a graph of %d vertices and %d classes %w", dir, vertices, o.Classes, err)
	}
	g := o.announced()
	g.Types[0].Features.Columns = o.Features
	g.Relations[0].Symmetric = o.both()
	w, err := graph.Create(dir, g)
	if err != nil {
		return err
	}
	defer w.Abort() // nothing to do after Close
	scratch := func() (*os.File, error) { return graph.Scratch(dir) }
	if err := produce(&o, edgeBudget(), w, scratch); err != nil {
		return err
	}
	return w.Close()
}

// Graph generates a graph in memory: the arrays that Write stores.
func Graph(o Options) (*graph.Graph, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return hold(&o, edgeBudget(), nil)
}

// hold is produce into memory.
func hold(o *Options, budget int64, scratch func() (*os.File, error)) (*graph.Graph, error) {
	g := o.announced()
	if err := produce(o, budget, graph.Hold(&graph.Part{Graph: g}), scratch); err != nil {
		return nil, err
	}
	return g, nil
}

// metric is the metric of generated graphs, whose classes are balanced.
const metric = "accuracy"

// announced is the graph without the parts that come in batches.
func (o *Options) announced() *graph.Graph {
	vertices, _ := o.size()
	return &graph.Graph{
		Types: []graph.VertexType{
			{Frame: graph.Frame{Count: vertices, Labels: graph.Labels{Classes: o.Classes}}},
		},
		Relations: []graph.Relation{{Indptr: []int64{0}}}, Metric: metric, Provenance: o.command(),
	}
}

// produce makes a graph. scratch makes a file for edges beyond the budget; nil: edges are drawn again
// instead.
func produce(o *Options, budget int64, to graph.Sink, scratch func() (*os.File, error)) error {
	vertices, edges := o.size()
	classes := newClasses(o)
	rows := rowMaker{
		edges: newEdges(o, classes), draws: uint64(edges), vertices: vertices, budget: budget,
		progress: o.Progress, scratch: scratch,
	}
	if o.both() {
		rows.draws, rows.both = rows.draws/2, true
	}
	if err := to.In(0, edges, &graph.Relation{}, rows.run); err != nil {
		return err
	}
	memory.Free() // the split may need the memory that the edges took
	if o.Features > 0 {
		fill := newFeatures(o, classes)
		made := int64(0)
		err := to.Features(0, o.Features, -1, func(write func(*graph.Features) error) error {
			return inBatches(vertices, o.Features, fill, func(rows []float32) error {
				made += int64(len(rows) / o.Features)
				err := write(&graph.Features{Columns: o.Features, Dense: rows})
				o.Progress.Report("making features", made, int64(vertices))
				return err
			})
		})
		if err != nil {
			return err
		}
	}
	class := func(row []int64, vertex int) { row[0] = int64(classes.class(uint64(vertex))) }
	err := to.Classes(func(write func([]int64) error) error { return inBatches(vertices, 1, class, write) })
	if err != nil {
		return err
	}
	return to.Splits([]graph.Split{newSplit(o)})
}

// batchBytes is the size of a batch of features or labels, in bytes.
const batchBytes = 4 << 20

// inBatches has write write a row for each vertex. fill fills the rows on all cores.
func inBatches[T float32 | int64](
	vertices, columns int, fill func(row []T, vertex int), write func(rows []T) error,
) error {
	batch := make([]T, max(1, batchBytes/int(unsafe.Sizeof(T(0)))/columns)*columns)
	for first := 0; first < vertices; {
		rows := min(len(batch)/columns, vertices-first)
		cores.Divide(rows, func(from, to int) {
			for r := from; r < to; r++ {
				fill(batch[r*columns:(r+1)*columns], first+r)
			}
		})
		if err := write(batch[:rows*columns]); err != nil {
			return err
		}
		first += rows
	}
	return nil
}
