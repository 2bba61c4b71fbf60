package train

import (
	"math"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/parallel/mesh"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
)

// worker is one worker's share of a run: its rows of the graph and the model in its memory.
type worker struct {
	team      *kernel.Team
	comm      *comm.Comm  // nil with one worker
	groups    mesh.Groups // with several workers
	share     *partition.Share
	g         *graph.Graph // the share's rows
	o         *Options
	graph     *sar.Graph
	rows      *autograd.RowSet
	features  *tensor.Matrix   // rows × F, or nil
	sparse    *autograd.Sparse // or nil
	params    *nn.Params
	model     *gnn.Model
	optimizer *optim.Optimizer
	reducer   *reducer // nil with one worker
	metric    string

	targets          nn.Targets
	train, val, test vertexSet
}

// vertexSet is a list of rows, for Go and for kernels.
type vertexSet struct {
	ids   []int64
	rows  *tensor.Matrix // Int32, 1 × n
	total int            // how many vertices all workers' lists have
}

// newWorker copies features and structure into the team's memory and builds the model. With several workers
// all must call it.
func newWorker(team *kernel.Team, c *comm.Comm, share *partition.Share, j *Job, classes int) (w *worker, err error) {
	o := &j.Options
	if err := checkWhole(&share.Whole, classes); err != nil {
		return nil, err
	}
	w = &worker{team: team, comm: c, share: share, g: share.Graph, o: o}
	w.loadFeatures()
	if len(share.Starts) > 0 {
		grid, err := o.Mesh()
		if err != nil {
			return nil, err
		}
		w.groups = grid.Join(c)
		w.graph, err = sar.NewPartition(team, w.groups.Halo, share, sar.Options{Prefetch: o.Prefetch, KeepHalo: o.KeepHalo})
		if err != nil {
			return nil, err
		}
	} else {
		w.graph = sar.NewWhole(team, &w.g.Relation, w.g.Unload)
	}
	w.rows = w.graph.Rows()
	w.params = nn.NewParams(team, o.Seed)
	blocks, err := j.blocks(share.Whole.FeatureColumns, classes)
	if err != nil {
		return nil, err
	}
	w.model = gnn.Build(blocks, 0, len(blocks), gnn.Env{Params: w.params, Propagators: w.graph.Propagator})
	return w, nil
}

// blocks are those of the job's model.
func (j *Job) blocks(features, classes int) ([]gnn.BlockSpec, error) {
	if j.Model != nil {
		return j.Model(features, classes), nil
	}
	return j.Options.model().Blocks(features, classes)
}

// checkWhole refuses a graph with nothing to learn from.
func checkWhole(whole *partition.Whole, classes int) error {
	switch {
	case whole.Vertices == 0:
		return refusal.Graph.Errorf("the graph has no vertices")
	case whole.FeatureColumns == 0:
		return refusal.Graph.Errorf("the graph has no features; import it with %s N, or with features of its own",
			refusal.Setting("random-features"))
	case classes < 1:
		return refusal.Graph.Errorf("the graph has no labels to learn")
	}
	return nil
}

// CheckGraph refuses what cannot be trained on with these options, before any work.
func (o *Options) CheckGraph(g *graph.Graph) error {
	whole := partition.WholeOf(g)
	if err := checkWhole(&whole, whole.Classes); err != nil {
		return err
	}
	if err := o.checkSplit(&whole); err != nil {
		return err
	}
	mesh, err := o.Mesh()
	if err != nil {
		return err
	}
	if mesh.Partitions > whole.Vertices {
		return refusal.Errorf("%s %s: the graph has only %d vertices to divide",
			refusal.Setting("parallel"), o.Parallel, whole.Vertices)
	}
	_, err = chooseMetric(o.Metric, &whole, &g.Labels)
	return err
}

// checkSplit refuses a split that is not there, or has nothing to train on.
func (o *Options) checkSplit(whole *partition.Whole) error {
	switch splits := whole.Splits; {
	case len(splits) == 0:
		return refusal.Graph.Errorf("the graph has no split into training, validation and test vertices; import it with %s",
			refusal.Setting("split"))
	case o.Split >= len(splits):
		return refusal.Errorf("%s %d: the number of splits that the graph has is %d, and they count from 0",
			refusal.Setting("split"), o.Split, len(splits))
	case splits[o.Split].Train == 0:
		return refusal.Errorf("%s %d has no training vertices", refusal.Setting("split"), o.Split)
	}
	return nil
}

// model is the named model.
func (o *Options) model() gnn.Spec {
	return gnn.Spec{
		Model: o.Model, Layers: o.Layers, Hidden: o.Hidden, Heads: o.Heads, OutputHeads: o.OutputHeads, Norm: o.Norm,
		Activation: o.Activation, Residual: o.Residual, Direction: o.Direction, Dropout: o.Dropout, InputDropout: o.InputDropout,
		TransformDropout: o.TransformDropout, AttentionDropout: o.AttentionDropout,
	}
}

// prepareTraining adds what training needs besides the model: labels, splits, the metric and the optimizer's
// state.
func (w *worker) prepareTraining() (err error) {
	if err := w.loadTargets(); err != nil {
		return err
	}
	if w.metric, err = chooseMetric(w.o.Metric, &w.share.Whole, &w.g.Labels); err != nil {
		return err
	}
	w.optimizer, err = optim.New(optim.Settings{
		Name: w.o.Optimizer, Rate: w.o.LR, WeightDecay: w.o.WeightDecay,
		DecayFirstLayerOnly: w.o.DecayFirstLayerOnly, Clip: w.o.Clip,
	}, w.team, w.params.List)
	if len(w.share.Starts) > 0 {
		w.reducer = newReducer(w.team, w.groups.Replicas, w.params.List)
	}
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
	if err := w.o.checkSplit(&w.share.Whole); err != nil {
		return err
	}
	all, s := &w.share.Whole.Splits[w.o.Split], &w.g.Splits[w.o.Split]
	w.train, w.val, w.test = w.vertexSet(s.Train, all.Train), w.vertexSet(s.Val, all.Val), w.vertexSet(s.Test, all.Test)
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

func (w *worker) vertexSet(ids []int64, total int) vertexSet {
	s := vertexSet{ids, w.team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(ids)), total}
	if !w.team.Planning() {
		for i, v := range ids {
			s.rows.Int32s()[i] = int32(v)
		}
	}
	return s
}

// input puts the features on a tape.
func (w *worker) input(t *autograd.Tape) *autograd.Var {
	switch {
	case w.sparse != nil:
		return t.SparseConstant(w.sparse, w.rows)
	case w.o.InputDropout == 0:
		return t.Fixed(w.features, w.rows)
	}
	return t.Constant(w.features, w.rows)
}

// gradients runs the training pass of an epoch: it adds to the parameters' gradients, of all workers
// together, and returns this worker's part of the loss.
func (w *worker) gradients(epoch int) (float64, error) {
	t := autograd.NewTrainingTape(w.team, autograd.Random{Seed: w.o.Seed, Epoch: epoch})
	if w.reducer != nil {
		w.reducer.begin()
		defer w.reducer.abandon()
		t.Ledger = autograd.NewLedger(w.reducer.add)
	}
	logits := w.model.Logits(w.input(t))
	loss, g := nn.Loss(logits, w.targets, w.train.rows, w.train.total, true)
	t.Backward(autograd.Root{Var: logits, Grad: g})
	if w.reducer != nil {
		return loss, w.reducer.finish()
	}
	return loss, nil
}

// scores are the metric on each part of the split, and the validation loss: NaN where there are no such
// vertices, and where something is not finite, which fault then names.
type scores struct {
	train, val, test, valLoss float64
	fault                     string
}

// evaluate measures the model as it is, without dropout. All workers come to the same scores.
func (w *worker) evaluate() (s scores, err error) {
	t := autograd.NewTape(w.team)
	logits := w.model.Logits(w.input(t))
	defer logits.Drop()
	loss, _ := nn.Loss(logits, w.targets, w.val.rows, w.val.total, false)
	if w.team.Planning() {
		return s, nil
	}
	weights, infinite := w.params.Finite(), 0.0
	if !tensor.Finite(logits.Value().Floats()) {
		infinite = 1
	}
	sums := []float64{loss, infinite}
	if err := sum(w.comm, sums); err != nil {
		return s, err
	}
	nan := math.NaN()
	switch {
	case !weights: // which are the same on all workers
		return scores{nan, nan, nan, nan, "the weights are not finite"}, nil
	case sums[1] > 0:
		return scores{nan, nan, nan, nan, "the logits are not finite"}, nil
	}
	s.valLoss = sums[0]
	if w.val.total == 0 {
		s.valLoss = nan
	}
	for _, part := range []struct {
		to  *float64
		set vertexSet
	}{{&s.train, w.train}, {&s.val, w.val}, {&s.test, w.test}} {
		if *part.to, err = metrics[w.metric](logits.Value().Floats(), &w.g.Labels, part.set.ids, w.comm); err != nil {
			return s, err
		}
	}
	return s, nil
}

// eachLogits passes on the logits of all vertices, in the graph's order, unless goOn, which is given this
// worker's, fails.
func (w *worker) eachLogits(goOn func(*tensor.Matrix) error, use func(Rows) error) error {
	t := autograd.NewTape(w.team)
	z := w.model.Logits(w.input(t))
	defer z.Drop()
	if err := goOn(z.Value()); err != nil {
		return err
	}
	return w.inOrder(z.Value(), use)
}

// eachEmbedding is eachLogits for the input of the last layer. A model of one layer has its features there.
func (w *worker) eachEmbedding(goOn func(*tensor.Matrix) error, use func(Rows) error) error {
	t := autograd.NewTape(w.team)
	h := w.model.Hidden(w.input(t))
	d := autograd.Dense(h)
	defer h.Drop()
	defer d.Drop()
	if err := goOn(d.Value()); err != nil {
		return err
	}
	return w.inOrder(d.Value(), use)
}
