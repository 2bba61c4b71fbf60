package train

import (
	"math"

	"weft/autograd"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/parallel"
	"weft/tensor"
)

// worker is one worker's share of a run: the graph and the model in its memory.
type worker struct {
	team      *kernel.Team
	g         *graph.Graph
	o         *Options
	whole     *parallel.Graph
	rows      autograd.Rows
	features  *tensor.Matrix   // V × F, or nil
	sparse    *autograd.Sparse // or nil
	params    *nn.Params
	model     *gnn.Model
	optimizer *optim.Optimizer
	metric    string

	targets          nn.Targets
	train, val, test vertexSet
}

// vertexSet is a list of vertices, for Go and for kernels.
type vertexSet struct {
	ids  []int64
	rows *tensor.Matrix // Int32, 1 × n
}

// newWorker copies features and structure into the team's memory and builds the model.
func newWorker(team *kernel.Team, j *Job, classes int) (*worker, error) {
	g, o := j.Graph, &j.Options
	if g.Vertices() == 0 {
		return nil, refusal.Errorf("the graph has no vertices")
	}
	if g.Features.Columns == 0 {
		return nil, refusal.Errorf("the graph has no features; import it with --random-features N, or with features of its own")
	}
	if classes < 1 {
		return nil, refusal.Errorf("the graph has no labels to learn")
	}
	w := &worker{team: team, g: g, o: o}
	w.loadFeatures()
	w.whole = parallel.NewWhole(team, &g.Relation, g.Unload)
	w.rows = w.whole.Rows()
	w.params = nn.NewParams(team, o.Seed)
	build := j.Model
	if build == nil {
		build = o.model
	}
	var err error
	w.model, err = build(gnn.Env{
		Params: w.params, Propagators: w.whole.Propagator, Features: g.Features.Columns,
		Classes: classes,
	})
	return w, err
}

// model builds the named model.
func (o *Options) model(e gnn.Env) (*gnn.Model, error) {
	return gnn.New(gnn.Spec{
		Model: o.Model, Layers: o.Layers, Hidden: o.Hidden, Heads: o.Heads, OutputHeads: o.OutputHeads, Norm: o.Norm,
		Activation: o.Activation, Residual: o.Residual, Direction: o.Direction, Dropout: o.Dropout, InputDropout: o.InputDropout,
		TransformDropout: o.TransformDropout, AttentionDropout: o.AttentionDropout,
	}, e)
}

// prepareTraining adds what training needs besides the model: labels, splits, the metric and the optimizer's state.
func (w *worker) prepareTraining() (err error) {
	if err := w.loadTargets(); err != nil {
		return err
	}
	if w.metric, err = chooseMetric(w.o.Metric, w.g); err != nil {
		return err
	}
	w.optimizer, err = optim.New(optim.Settings{
		Name: w.o.Optimizer, Rate: w.o.LR, WeightDecay: w.o.WeightDecay,
		DecayFirstLayerOnly: w.o.DecayFirstLayerOnly, Clip: w.o.Clip,
	}, w.team, w.params.List)
	return err
}

func (w *worker) loadFeatures() {
	f, n, mem := &w.g.Features, w.g.Vertices(), w.team.Memory
	scale := func(int) float32 { return 1 }
	if w.o.NormalizeFeatures == "row" {
		scale = func(v int) float32 {
			sum := 0.0
			for _, x := range rowOf(f, v) {
				sum += float64(x)
			}
			if s := float32(1 / sum); !math.IsInf(float64(s), 0) {
				return s
			}
			return 1 // a row without a sum stays as it is
		}
	}
	if !f.Sparse() {
		w.features = mem.New(tensor.Features, n, f.Columns)
		w.fillRows(w.features.Floats, scale)
		return
	}
	a := &kernel.CSR{
		Rows: n, Cols: f.Columns, Indptr: mem.NewElement(tensor.Features, tensor.Int64, 1, n+1),
		Indices: mem.NewElement(tensor.Features, tensor.Int32, 1, len(f.Indices)), Values: mem.New(tensor.Features, 1, len(f.Data)),
	}
	if !w.team.Planning() {
		copy(a.Indptr.Int64s(), f.Indptr)
		copy(a.Indices.Int32s(), f.Indices)
	}
	w.fillRows(a.Values.Floats, scale)
	w.sparse = &autograd.Sparse{Rows: a, Columns: w.team.Transpose(a, tensor.Features)}
}

// unloadEvery is how many values are copied from a mapped file before its pages are given back.
const unloadEvery = 16 << 20

// fillRows copies the stored feature values, each row times its scale.
func (w *worker) fillRows(to func() []float32, scale func(v int) float32) {
	if w.team.Planning() {
		return
	}
	values, at, kept := to(), 0, 0
	for v := range w.g.Vertices() {
		s := scale(v)
		if at-kept > unloadEvery {
			w.g.Unload()
			kept = at
		}
		for _, x := range rowOf(&w.g.Features, v) {
			values[at] = s * x
			at++
		}
	}
}

// rowOf is the stored values of a vertex's features.
func rowOf(f *graph.Features, v int) []float32 {
	if f.Sparse() {
		return f.Data[f.Indptr[v]:f.Indptr[v+1]]
	}
	return f.Dense[v*f.Columns : (v+1)*f.Columns]
}

func (w *worker) loadTargets() error {
	if w.o.Split >= len(w.g.Splits) {
		if len(w.g.Splits) == 0 {
			return refusal.Errorf("the graph has no split into training, validation and test vertices; import it with --split")
		}
		return refusal.Errorf("--split %d: the graph has %d splits, counted from 0", w.o.Split, len(w.g.Splits))
	}
	s := &w.g.Splits[w.o.Split]
	if len(s.Train) == 0 {
		return refusal.Errorf("--split %d has no training vertices", w.o.Split)
	}
	w.train, w.val, w.test = w.vertexSet(s.Train), w.vertexSet(s.Val), w.vertexSet(s.Test)
	l, mem := &w.g.Labels, w.team.Memory
	w.targets.Classes = l.Classes
	if l.MultiLabel() {
		w.targets.Multi = mem.New(tensor.Buffers, w.g.Vertices(), l.Classes)
		if !w.team.Planning() {
			copy(w.targets.Multi.Floats(), l.Multi)
		}
		return nil
	}
	w.targets.Class = mem.NewElement(tensor.Buffers, tensor.Int32, 1, w.g.Vertices())
	if !w.team.Planning() {
		for v, c := range l.Class {
			w.targets.Class.Int32s()[v] = int32(c)
		}
	}
	return nil
}

func (w *worker) vertexSet(ids []int64) vertexSet {
	s := vertexSet{ids, w.team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(ids))}
	if !w.team.Planning() {
		for i, v := range ids {
			s.rows.Int32s()[i] = int32(v)
		}
	}
	return s
}

// input puts the features on a tape.
func (w *worker) input(t *autograd.Tape) *autograd.Var {
	if w.sparse != nil {
		return t.SparseConstant(w.sparse)
	}
	return t.Constant(w.features, w.o.InputDropout == 0)
}

// gradients runs the training pass of an epoch: it adds to the parameters' gradients and returns the loss.
func (w *worker) gradients(epoch int) float64 {
	t := autograd.NewTrainingTape(w.team, w.rows, autograd.Random{Seed: w.o.Seed, Epoch: epoch})
	logits := w.model.Forward(w.input(t))
	loss, g := nn.Loss(logits, w.targets, w.train.rows, len(w.train.ids), true)
	t.Backward(logits, g)
	return loss
}

// scores are the metric on each part of the split, and the validation loss.
type scores struct {
	train, val, test, valLoss float64
}

// evaluate measures the model as it is, without dropout.
func (w *worker) evaluate() scores {
	t := autograd.NewTape(w.team, w.rows)
	logits := w.model.Forward(w.input(t))
	defer logits.Drop()
	var s scores
	s.valLoss, _ = nn.Loss(logits, w.targets, w.val.rows, len(w.val.ids), false)
	if w.team.Planning() {
		return s
	}
	measure := func(set vertexSet) float64 { return metrics[w.metric](logits.Value().Floats(), &w.g.Labels, set.ids) }
	s.train, s.val, s.test = measure(w.train), measure(w.val), measure(w.test)
	return s
}

// logits computes the logits of all vertices.
func (w *worker) logits() []float32 {
	t := autograd.NewTape(w.team, w.rows)
	z := w.model.Forward(w.input(t))
	defer z.Drop()
	return append([]float32(nil), z.Value().Floats()...)
}

// embeddings computes the input of the last layer for all vertices: rows × columns. A model of one layer has its features there.
func (w *worker) embeddings() (values []float32, columns int) {
	t := autograd.NewTape(w.team, w.rows)
	h := w.model.Hidden(w.input(t))
	d := autograd.Dense(h)
	values = append(values, d.Value().Floats()...)
	d.Drop()
	h.Drop()
	return values, d.Cols()
}
