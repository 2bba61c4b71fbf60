package generate

import (
	"os"
	"runtime/debug"

	"weft/graph"
	"weft/internal/cores"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// sink takes a graph in batches: a graph.Writer or a graph.Held.
type sink interface {
	In(r int, edges int64, like *graph.Relation, batches graph.Batches[*graph.Relation]) error
	Features(t, columns, stored int, batches graph.Batches[*graph.Features]) error
	Classes(batches graph.Batches[[]int64]) error
	Splits([]graph.Split) error
}

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
	g.Features.Columns, g.Relations[0].Symmetric = o.Features, o.both()
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
	g.Count = 0 // there is a row for each vertex
	return g, nil
}

// metric is the metric of generated graphs, whose classes are balanced.
const metric = "accuracy"

// announced is the graph without what comes in batches.
func (o *Options) announced() *graph.Graph {
	vertices, _ := o.size()
	return &graph.Graph{
		Count: vertices, Metric: metric, Provenance: o.command(), Labels: graph.Labels{Classes: o.Classes},
		Relations: []graph.Relation{{Indptr: []int64{0}}},
	}
}

// produce makes a graph. scratch makes a file for edges beyond the budget; nil: they are drawn again.
func produce(o *Options, budget int64, to sink, scratch func() (*os.File, error)) error {
	vertices, edges := o.size()
	classes := newClasses(o)
	rows := rowMaker{
		edges: newEdges(o, classes), draws: uint64(edges), vertices: vertices, budget: budget, progress: o.Progress, scratch: scratch,
	}
	if o.both() {
		rows.draws, rows.both = rows.draws/2, true
	}
	if err := to.In(0, edges, &graph.Relation{}, rows.run); err != nil {
		return err
	}
	debug.FreeOSMemory() // the split may need what the edges took
	if o.Features > 0 {
		fill := newFeatures(o, classes)
		err := to.Features(0, o.Features, -1, func(write func(*graph.Features) error) error { return produceFeatures(o, fill, write) })
		if err != nil {
			return err
		}
	}
	err := to.Classes(func(write func([]int64) error) error { return produceLabels(vertices, classes, write) })
	if err != nil {
		return err
	}
	return to.Splits([]graph.Split{newSplit(o)})
}

// batchBytes is the size of a batch of features or labels, in bytes.
const batchBytes = 4 << 20

func produceFeatures(o *Options, fill featureFunc, write func(*graph.Features) error) error {
	columns := o.Features
	vertices, _ := o.size()
	batch := make([]float32, max(1, batchBytes/4/columns)*columns)
	for first := 0; first < vertices; {
		rows := min(len(batch)/columns, vertices-first)
		cores.Share(rows, func(from, to int) {
			for r := from; r < to; r++ {
				fill(batch[r*columns:(r+1)*columns], first+r)
			}
		})
		if err := write(&graph.Features{Columns: columns, Dense: batch[:rows*columns]}); err != nil {
			return err
		}
		first += rows
		o.Progress.Of("making features", int64(first), int64(vertices))
	}
	return nil
}

func produceLabels(vertices int, classes *classes, write func([]int64) error) error {
	batch := make([]int64, min(vertices, batchBytes/8))
	for first := 0; first < vertices; {
		rows := min(len(batch), vertices-first)
		cores.Share(rows, func(from, to int) {
			for r := from; r < to; r++ {
				batch[r] = int64(classes.of(uint64(first + r)))
			}
		})
		if err := write(batch[:rows]); err != nil {
			return err
		}
		first += rows
	}
	return nil
}
