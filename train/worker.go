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
	"weft/train/engine"
)

// worker is one worker's share of a run: its engine, and what it learns from.
type worker struct {
	team      *kernel.Team
	comm      *comm.Comm // all workers
	processes bool       // the others are processes, of other machines maybe, and not goroutines of this one
	mesh      mesh.Mesh
	groups    mesh.Groups
	share     *partition.Share
	o         *Options
	engine    engine.Engine
	params    *nn.Params
	optimizer *optim.Optimizer
	metric    string
	epoch     int // that was trained last, from 1; 0: none

	labels           graph.Labels // of the vertices whose logits come here
	targets          nn.Targets
	train, val, test vertexSet
}

// vertexSet is a list of rows, for Go and for kernels.
type vertexSet struct {
	ids   []int64
	rows  *tensor.Matrix // Int32, 1 × n
	total int            // how many vertices all workers' lists have
}

// newWorker makes the engine of one of the workers that c connects, who call it together.
func newWorker(team *kernel.Team, c *comm.Comm, share *partition.Share, j *Job, classes int, training bool) (*worker, error) {
	o := &j.Options
	if err := checkWhole(&share.Whole, classes); err != nil {
		return nil, &Common{Err: err}
	}
	grid, err := j.mesh()
	if err != nil {
		return nil, &Common{Err: err}
	}
	w := &worker{team: team, comm: c, processes: j.peers() != nil, mesh: grid, groups: grid.Join(c), share: share, o: o}
	blocks, err := j.blocks(share.Whole.FeatureColumns, classes)
	if err != nil {
		return nil, &Common{Err: err}
	}
	w.engine, err = j.engine(engine.Config{
		Team: team, Mesh: grid, Groups: w.groups, Share: share, Blocks: blocks, Loss: w.loss, Seed: o.Seed,
		NormalizeRows: o.NormalizeFeatures == "row", VaryingInput: o.InputDropout > 0, Training: training,
	})
	if err != nil {
		return nil, err
	}
	w.params = w.engine.Params()
	return w, w.allowOthers()
}

// engine is the job's own, or that of its mesh.
func (j *Job) engine(c engine.Config) (engine.Engine, error) {
	if j.Engine != nil {
		return j.Engine(c)
	}
	g, err := sar.New(c.Team, c.Groups.Halo, c.Share, sar.Options{Prefetch: j.Options.Prefetch, KeepHalo: j.Options.KeepHalo})
	if err != nil {
		return nil, err
	}
	return engine.NewWhole(c, g), nil
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
	grid, err := o.Mesh()
	if err != nil {
		return err
	}
	if grid.Partitions > whole.Vertices {
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

// Widths are the numbers of features and classes of the model that the weights are of, as in gnn.Spec.
func (o *Options) Widths(weights nn.State) (features, classes int) { return o.model().Widths(weights) }

// prepareTraining adds what training needs besides the engine: labels, splits, the metric and the optimizer's
// state.
func (w *worker) prepareTraining() (err error) {
	if err := w.loadTargets(); err != nil {
		return err
	}
	if w.metric, err = chooseMetric(w.o.Metric, &w.share.Whole, &w.labels); err != nil {
		return err
	}
	w.optimizer, err = optim.New(optim.Settings{
		Name: w.o.Optimizer, Rate: w.o.LR, WeightDecay: w.o.WeightDecay,
		DecayFirstLayerOnly: w.o.DecayFirstLayerOnly, Clip: w.o.Clip, Squares: w.squares,
	}, w.team, w.params.List)
	return err
}

func (w *worker) loadTargets() error {
	if err := w.o.checkSplit(&w.share.Whole); err != nil {
		return err
	}
	labels, splits := w.share.Values.Targets(w.engine.Vertices())
	w.labels = labels
	all, s := &w.share.Whole.Splits[w.o.Split], &splits[w.o.Split]
	w.train, w.val, w.test = w.vertexSet(s.Train, all.Train), w.vertexSet(s.Val, all.Val), w.vertexSet(s.Test, all.Test)
	l, mem := &w.labels, w.team.Memory
	w.targets.Classes = l.Classes
	if l.MultiLabel() {
		w.targets.Multi = mem.New(tensor.Buffers, len(l.Multi)/l.Classes, l.Classes)
		if !w.team.Planning() {
			copy(w.targets.Multi.Floats(), l.Multi)
		}
		return nil
	}
	w.targets.Class = mem.NewElement(tensor.Buffers, tensor.Int32, 1, len(l.Class))
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

// loss is this worker's part of the training loss, and its gradient.
func (w *worker) loss(logits *autograd.Var) (float64, *tensor.Matrix) {
	return nn.Loss(logits, w.targets, w.train.rows, w.train.total, true)
}

// infer is the engine's. What the worker waits for afterwards is no layer's.
func (w *worker) infer(without int) *autograd.Var {
	v := w.engine.Infer(without)
	w.comm.At(w.epoch, "")
	return v
}

// scores are the metric on each part of the split, and the validation loss: NaN where there are no such
// vertices, and where something is not finite, which fault then names.
type scores struct {
	train, val, test, valLoss float64
	fault                     string
}

// evaluate measures the model as it is, without dropout. All workers come to the same scores.
func (w *worker) evaluate() (s scores, err error) {
	logits := w.infer(0)
	defer logits.Drop()
	loss, _ := nn.Loss(logits, w.targets, w.val.rows, w.val.total, false)
	if w.team.Planning() {
		return s, nil
	}
	sums := []float64{loss, 0, 0} // and how many workers have weights, and logits, that are not finite
	if !w.params.Finite() {
		sums[1] = 1
	}
	if !tensor.Finite(logits.Value().Floats()) {
		sums[2] = 1
	}
	if err := sum(w.comm, sums); err != nil {
		return s, err
	}
	nan := math.NaN()
	switch {
	case sums[1] > 0:
		return scores{nan, nan, nan, nan, "the weights are not finite"}, nil
	case sums[2] > 0:
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
		if *part.to, err = metrics[w.metric](logits.Value().Floats(), &w.labels, part.set.ids, w.comm); err != nil {
			return s, err
		}
	}
	return s, nil
}

// eachLogits passes on the logits of all vertices, in the graph's order, unless goOn, which is given this
// worker's, fails.
func (w *worker) eachLogits(goOn func(*tensor.Matrix) error, use func(Rows) error) error {
	return w.eachRow(w.infer(0), goOn, use)
}

// eachEmbedding is eachLogits for the input of the last block. A model of one layer has its features there.
func (w *worker) eachEmbedding(goOn func(*tensor.Matrix) error, use func(Rows) error) error {
	return w.eachRow(w.infer(1), goOn, use)
}

// eachRow passes on the rows of a result, which it drops.
func (w *worker) eachRow(v *autograd.Var, goOn func(*tensor.Matrix) error, use func(Rows) error) error {
	defer v.Drop()
	d := autograd.Dense(v)
	defer d.Drop()
	if err := goOn(d.Value()); err != nil {
		return err
	}
	return w.inOrder(d.Value(), use)
}
