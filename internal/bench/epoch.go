package bench

import (
	"cmp"
	"context"
	"fmt"
	"runtime/debug"
	"slices"

	"weft/graph"
	"weft/graph/generate"
	"weft/train"
)

// Model is an epoch of a model on a graph beside the sum of its kernels.
type Model struct {
	Model         string  `json:"model"`
	Graph         string  `json:"graph"`
	EpochSeconds  float64 `json:"epoch_seconds"`  // the median without the first
	KernelSeconds float64 `json:"kernel_seconds"` // each kernel call of the epoch alone, at its median, added up
	Fraction      float64 `json:"fraction"`       // of the epoch that is in kernels
	Calls         []Call  `json:"-"`              // the kernels, the longest first
}

// Call is a kernel call that an epoch makes so many times with one shape.
type Call struct {
	Name, Shape string
	Times       int
	Seconds     float64 // of one, alone
}

// Total is the seconds of the epoch that the call should take.
func (c Call) Total() float64 { return float64(c.Times) * c.Seconds }

// EpochReport is what Epoch found.
type EpochReport struct {
	Models []Model `json:"models"`
}

// trained is a model whose epochs are measured: the options that train it, and the calls that one of its epochs makes.
type trained struct {
	name    string
	options func(o *train.Options)
	calls   func(l *ledger, layers []layer)
}

var models = []trained{
	{"sage 3×256 batch norm", func(o *train.Options) { o.Model, o.Hidden, o.Norm = "sage", 256, "batch" }, (*ledger).sage},
	{"gat 3×(4×32)", func(o *train.Options) { o.Model, o.Hidden, o.Heads = "gat", 128, 4 }, (*ledger).gat},
	{"gcn 3×256", func(o *train.Options) { o.Model, o.Hidden = "gcn", 256 }, (*ledger).gcn},
}

// Epoch trains each model that the options want for a few epochs on each graph, then runs the kernels of an epoch alone, and tells
// each result as it is known. When ctx ends it stops after the work under way and returns the context's error.
func Epoch(ctx context.Context, o Options, result func(Model)) (EpochReport, error) {
	b := newBench(o)
	defer b.close()
	vertices, epochs := 1<<20, 4
	if b.Quick {
		vertices, epochs = 1<<11, 3
	}
	var r EpochReport
	for _, kind := range []string{rmat, uniform} {
		k := graphKey{kind, vertices, 16}
		name := fmt.Sprintf("%s V=%d E=%d", kind, vertices, 16*vertices)
		wanted := slices.DeleteFunc(slices.Clone(models), func(m trained) bool { return !b.wants(m.name, name) })
		if len(wanted) == 0 {
			continue
		}
		options := k.options()
		options.Features, options.Classes = 128, 16
		g, err := generate.Graph(options)
		if err != nil {
			return r, err
		}
		for _, m := range wanted {
			if ctx.Err() != nil {
				return r, context.Cause(ctx)
			}
			row, err := b.epoch(ctx, g, m, epochs)
			if err != nil {
				return r, err
			}
			row.Graph = name
			r.Models = append(r.Models, row)
			result(row)
		}
	}
	if len(r.Models) == 0 {
		return r, b.nothing(models[0].name + " " + rmat)
	}
	return r, nil
}

func (b *bench) epoch(ctx context.Context, g *graph.Graph, m trained, epochs int) (Model, error) {
	o := train.Defaults()
	m.options(&o)
	o.Layers, o.Epochs, o.EvalEvery, o.Threads, o.LR = 3, epochs, epochs, b.Threads, 0.001
	if err := o.Validate(); err != nil {
		return Model{}, err
	}
	job := &train.Job{Graph: g, Options: o}
	result, err := job.Run(ctx)
	if err != nil {
		return Model{}, err
	}
	if result.Interrupted {
		return Model{}, context.Cause(ctx)
	}
	row := Model{Model: m.name, EpochSeconds: median(result.EpochSeconds[1:])} // the first takes fresh memory, and aggregates the features
	debug.FreeOSMemory()                                                       // the job's predictions, which nothing refers to any more

	l := newLedger(b, g)
	defer l.close()
	m.calls(l, layers(o.Layers, g.Features.Columns, o.Hidden, g.Labels.Classes, o.Heads))
	for _, c := range l.calls {
		row.KernelSeconds += c.Total()
	}
	slices.SortStableFunc(l.calls, func(a, b Call) int { return cmp.Compare(b.Total(), a.Total()) })
	row.Calls, row.Fraction = l.calls, row.KernelSeconds/row.EpochSeconds
	return row, nil
}

// layer is a layer's widths; the last has no norm, activation or dropout after it.
type layer struct {
	in, out, heads int
	first, last    bool
}

func layers(n, features, hidden, classes, heads int) (list []layer) {
	in := features
	for i := range n {
		l := layer{in: in, out: hidden, heads: heads, first: i == 0, last: i == n-1}
		if l.last {
			l.out, l.heads = classes, 1
		}
		list = append(list, l)
		in = l.out
	}
	return list
}

// sage are the calls of an epoch of GraphSAGE with mean aggregation and batch norm. The features are aggregated before the first
// epoch; in the other layers rows are transformed before they are aggregated, as they do not get wider.
func (l *ledger) sage(layers []layer) {
	for _, y := range layers {
		l.product(y.in, y.out) // of the neighbours
		if !y.first {
			l.aggregate(y.out, mean)
		}
		l.addProduct(y.in, y.out) // of the vertex itself
		if y.last {
			l.finishLast(y.out, inPlace)
			break
		}
		l.normalize(y.out)
	}
	l.loss(layers)
	for _, y := range slices.Backward(layers) {
		if y.last {
			l.columnSums(y.out)
		} else {
			l.normalizeBackward(y.out)
		}
		l.weightGradient(y.in, y.out)
		if !y.first {
			l.inputGradient(y.in, y.out, false)
			l.aggregateBackward(y.out, mean)
		}
		l.weightGradient(y.in, y.out)
		if !y.first {
			l.inputGradient(y.in, y.out, true)
		}
	}
	for _, y := range layers {
		l.step(y.in*y.out, 2)
		if y.last {
			l.step(y.out, 1) // the bias
		} else {
			l.step(y.out, 2) // the norm
		}
	}
}

// gcn are the calls of an epoch of a GCN, in the same order of work.
func (l *ledger) gcn(layers []layer) {
	for _, y := range layers {
		l.product(y.in, y.out)
		if !y.first {
			l.aggregate(y.out, symmetric)
		}
		l.finishLayer(y, inPlace)
	}
	l.loss(layers)
	for _, y := range slices.Backward(layers) {
		l.finishLayerBackward(y)
		if !y.first {
			l.aggregateBackward(y.out, symmetric)
		}
		l.weightGradient(y.in, y.out)
		if !y.first {
			l.inputGradient(y.in, y.out, false)
		}
	}
	for _, y := range layers {
		l.step(y.in*y.out, 1)
		l.step(y.out, 1)
	}
}

// gat are the calls of an epoch of a GAT. The attention's output is kept for its backward pass, so that what follows it does not
// work in place.
func (l *ledger) gat(layers []layer) {
	for _, y := range layers {
		l.product(y.in, y.out)
		l.attend(y.heads, y.out)
		l.finishLayer(y, copied)
	}
	l.loss(layers)
	for _, y := range slices.Backward(layers) {
		l.finishLayerBackward(y)
		l.attendBackward(y.heads, y.out)
		l.weightGradient(y.in, y.out)
		if !y.first {
			l.inputGradient(y.in, y.out, false)
		}
	}
	for _, y := range layers {
		l.step(y.in*y.out, 1)
		l.step(y.out, 3) // both attention vectors, and the bias
	}
}

// finishLayer is what follows a convolution without norm: bias, and but for the last layer the activation.
func (l *ledger) finishLayer(y layer, p place) {
	if y.last {
		l.finishLast(y.out, p)
	} else {
		l.finish(y.out, p)
	}
}

func (l *ledger) finishLayerBackward(y layer) {
	if !y.last {
		l.finishBackward(y.out)
	}
	l.columnSums(y.out)
}
