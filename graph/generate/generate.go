package generate

import (
	"os"
	"runtime/debug"

	"weft/graph"
	"weft/internal/cores"
	"weft/internal/memory"
	"weft/internal/refusal"
)

// sink receives a graph in batches. A *graph.Writer is a sink. One that has the method Scratch, too, has a
// disk for edges beyond the memory for them.
type sink interface {
	AppendRows(indegree, sources []int32) error
	AppendFeatures(rows []float32) error
	AppendLabels(classes []int64) error
	SetSplits(splits []graph.Split)
}

// Write generates a graph and writes it to a new store. It writes edges, features and labels in batches,
// within the memory that Go's runtime may use (debug.SetMemoryLimit, GOMEMLIMIT). It needs eight bytes for
// each vertex for the split and, for sbm, the features of the class centres. It refuses a graph if there is
// no memory for these. If it fails, it leaves nothing behind.
func Write(dir string, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	vertices, edges := o.size()
	needs := 8 * int64(vertices)
	if o.Kind == SBM {
		needs += 4 * int64(o.Classes) * int64(o.Features)
	}
	if err := memory.Need(needs); err != nil {
		return refusal.Errorf("%s: a graph of %d vertices and %d classes %w", dir, vertices, o.Classes, err)
	}
	w, err := graph.Create(dir, graph.Shape{
		Vertices: vertices, Edges: edges, FeatureColumns: o.Features, Classes: o.Classes,
		Metric: metric, Provenance: o.command(), Symmetric: o.both(),
	})
	if err != nil {
		return err
	}
	defer w.Abort() // nothing to do after Close
	if err := produce(&o, edgeBudget(), w); err != nil {
		return err
	}
	return w.Close()
}

// Graph generates a graph in memory: the arrays that Write stores.
func Graph(o Options) (*graph.Graph, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	m := newArrays(&o)
	if err := produce(&o, edgeBudget(), m); err != nil {
		return nil, err
	}
	return &m.graph, nil
}

// metric is the metric of generated graphs, whose classes are balanced.
const metric = "accuracy"

func produce(o *Options, budget int64, to sink) error {
	vertices, edges := o.size()
	classes := newClasses(o)
	rows := rowMaker{edges: newEdges(o, classes), draws: uint64(edges), vertices: vertices, budget: budget, progress: o.Progress}
	if o.both() {
		rows.draws, rows.both = rows.draws/2, true
	}
	if s, ok := to.(interface{ Scratch() (*os.File, error) }); ok {
		rows.scratch = s.Scratch
	}
	if err := rows.run(to.AppendRows); err != nil {
		return err
	}
	debug.FreeOSMemory() // the split may need what the edges took
	if err := produceFeatures(o, newFeatures(o, classes), to); err != nil {
		return err
	}
	if err := produceLabels(vertices, classes, to); err != nil {
		return err
	}
	to.SetSplits([]graph.Split{newSplit(o)})
	return nil
}

// batchBytes is the size of a batch of features or labels, in bytes.
const batchBytes = 4 << 20

func produceFeatures(o *Options, fill featureFunc, to sink) error {
	columns := o.Features
	if columns == 0 {
		return nil
	}
	vertices, _ := o.size()
	batch := make([]float32, max(1, batchBytes/4/columns)*columns)
	for first := 0; first < vertices; {
		rows := min(len(batch)/columns, vertices-first)
		cores.Share(rows, func(from, to int) {
			for r := from; r < to; r++ {
				fill(batch[r*columns:(r+1)*columns], first+r)
			}
		})
		if err := to.AppendFeatures(batch[:rows*columns]); err != nil {
			return err
		}
		first += rows
		o.Progress.Of("making features", int64(first), int64(vertices))
	}
	return nil
}

func produceLabels(vertices int, classes *classes, to sink) error {
	batch := make([]int64, min(vertices, batchBytes/8))
	for first := 0; first < vertices; {
		rows := min(len(batch), vertices-first)
		cores.Share(rows, func(from, to int) {
			for r := from; r < to; r++ {
				batch[r] = int64(classes.of(uint64(first + r)))
			}
		})
		if err := to.AppendLabels(batch[:rows]); err != nil {
			return err
		}
		first += rows
	}
	return nil
}

// arrays is the sink of Graph.
type arrays struct{ graph graph.Graph }

func newArrays(o *Options) *arrays {
	vertices, edges := o.size()
	m := &arrays{graph.Graph{Metric: metric, Provenance: o.command()}}
	m.graph.Relations = []graph.Relation{{Indptr: append(make([]int64, 0, vertices+1), 0), Sources: make([]int32, 0, edges)}}
	m.graph.Labels = graph.Labels{Classes: o.Classes, Class: make([]int64, 0, vertices)}
	if o.Features > 0 {
		m.graph.Features = graph.Features{Columns: o.Features, Dense: make([]float32, 0, vertices*o.Features)}
	}
	return m
}

func (m *arrays) AppendRows(indegree, sources []int32) error {
	r := &m.graph.Relations[0]
	end := r.Indptr[len(r.Indptr)-1]
	for _, n := range indegree {
		end += int64(n)
		r.Indptr = append(r.Indptr, end)
	}
	r.Sources = append(r.Sources, sources...)
	return nil
}

func (m *arrays) AppendFeatures(rows []float32) error {
	m.graph.Features.Dense = append(m.graph.Features.Dense, rows...)
	return nil
}

func (m *arrays) AppendLabels(classes []int64) error {
	m.graph.Labels.Class = append(m.graph.Labels.Class, classes...)
	return nil
}

func (m *arrays) SetSplits(splits []graph.Split) { m.graph.Splits = splits }
