package train

import (
	"math"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/parallel/sar"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
)

// worker is one worker's share of a run: its engine, and what it learns from.
type worker struct {
	team      *kernel.Team
	processes bool // the others are processes, of other machines maybe, and not goroutines of this one
	groups    mesh.Groups
	share     *partition.Share
	o         *Options
	blocks    []gnn.BlockSpec // of the whole model
	engine    engine.Engine   // nil where flow is there
	flow      *engine.Flow    // where only some vertices are asked for; else nil
	params    *nn.Params
	optimizer *optim.Optimizer
	metric    string
	epoch     int // that was trained last, from 1; 0: none
	recorder  *trace.Recorder

	edgeColumns bySite // edges × columns that were aggregated so far, forward and backward
	layoutBytes bySite // that this worker has sent in switches between layouts
	switches    int64  // that it has made

	stage engine.StageOptions
	spent engine.StageReport // the last training pass, where the mesh has several stages

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

// newWorker makes one of the workers that c connects, who call it together, for a model of so many classes:
// its engine, of e with what follows from the job, and for training what else that needs.
func newWorker(j *Job, c *comm.Comm, classes int, e engine.Config) (w *worker, err error) {
	o, whole := &j.Options, &e.Share.Whole
	if err := checkWhole(whole, classes); err != nil {
		return nil, &Common{Err: err}
	}
	grid, err := j.mesh()
	if err != nil {
		return nil, &Common{Err: err}
	}
	if err := o.checkFeatures(grid, whole); err != nil {
		return nil, &Common{Err: err}
	}
	if e.Blocks, err = j.blocks(e.Share, classes); err != nil {
		return nil, &Common{Err: err}
	}
	e.Groups = grid.Join(c)
	w = &worker{
		team: e.Team, groups: e.Groups, share: e.Share, blocks: e.Blocks, o: o, processes: j.peers().Size() > 1,
		edgeColumns: bySite{}, layoutBytes: bySite{},
	}
	e.Loss, e.Seed, e.Trace = w.loss, o.Seed, c.Track()
	e.Aggregated = func(site string, n int64) { w.edgeColumns[site] += n }
	e.Switched = func(site string, bytes int64) {
		w.layoutBytes[site] += bytes
		w.switches++
	}
	e.NormalizeRows, e.VaryingInput = o.NormalizeFeatures == "row", o.InputDropout > 0
	if e.Order.Choice, err = order.Parse(o.AggregationOrder); err != nil {
		return nil, &Common{Err: err}
	}
	e.Prefetch, e.KeepHalo = o.Prefetch, o.KeepHalo
	e.AggregationChunks = int(o.AggregationChunks)
	if w.stage, err = w.stageOptions(j); err != nil {
		return nil, err
	}
	e.Stage = w.stage
	if err := w.makeEngine(j, e); err != nil {
		return nil, err
	}
	if err := w.allowOthers(); err != nil || !e.Training {
		return w, err
	}
	return w, w.prepareTraining()
}

// makeEngine makes the engine, or where only some vertices are asked for what infers these.
func (w *worker) makeEngine(j *Job, e engine.Config) (err error) {
	if j.Vertices != nil && !e.Training {
		if w.flow, err = engine.NewFlow(e, j.Vertices); err == nil {
			w.params = w.flow.Params()
		}
		return err
	}
	newEngine := engine.New
	if j.Engine != nil {
		newEngine = j.Engine
	}
	if w.engine, err = newEngine(e); err == nil {
		w.params = w.engine.Params()
	}
	return err
}

// blocks are those of the job's model. The first costs as much less as sparse features have fewer values.
func (j *Job) blocks(s *partition.Share, classes int) (blocks []gnn.BlockSpec, err error) {
	whole := &s.Whole
	if j.Model != nil {
		blocks = slices.Clone(j.Model(whole.FeatureColumns, classes))
	} else if blocks, err = j.Options.model().Blocks(sar.SchemaOf(s), classes); err != nil {
		return nil, err
	}
	if whole.FeatureValues > 0 && len(blocks) > 0 {
		share := float64(whole.FeatureValues) / (float64(whole.Own()) * float64(whole.FeatureColumns))
		blocks[0].Cost.Vertex = int(math.Ceil(share * float64(blocks[0].Cost.Vertex)))
	}
	return blocks, nil
}

// checkWhole refuses a graph with nothing to learn from.
func checkWhole(whole *partition.Whole, classes int) error {
	switch {
	case whole.Vertices == 0:
		return refusal.Graph.Errorf("the graph has no vertices; import one that has some")
	case classes < 1:
		return refusal.Graph.Errorf("the graph has no labels to learn; import it from a source that has labels, or with the flags of its format " +
			"that name some, as weft import FORMAT --help lists them")
	}
	return nil
}

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
		Name: w.o.Optimizer, Rate: w.o.LR, WeightDecay: w.o.WeightDecay, ConvWeightDecay: w.o.ConvWeightDecay,
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
	l := &w.labels
	w.targets.Classes = l.Classes
	if l.MultiLabel() {
		w.targets.Multi = w.team.Memory.New(tensor.Buffers, len(l.Multi)/l.Classes, l.Classes)
		if !w.team.Planning() {
			copy(w.targets.Multi.Floats(), l.Multi)
		}
		return nil
	}
	w.targets.Class = w.int32s(l.Class)
	return nil
}

func (w *worker) vertexSet(ids []int64, total int) vertexSet {
	return vertexSet{ids, w.int32s(ids), total}
}

// int32s are numbers for kernels: 1 × n.
func (w *worker) int32s(numbers []int64) *tensor.Matrix {
	m := w.team.Memory.NewElement(tensor.Buffers, tensor.Int32, 1, len(numbers))
	if !w.team.Planning() {
		for i, n := range numbers {
			m.Int32s()[i] = int32(n)
		}
	}
	return m
}

// loss is this worker's part of the training loss, and its gradient.
func (w *worker) loss(logits *autograd.Var) (float64, *tensor.Matrix) {
	return nn.LossGradient(logits, w.targets, w.train.rows, w.train.total)
}

// infer is the engine's. What the worker waits for afterwards is no layer's.
func (w *worker) infer(without int) *autograd.Var {
	var v *autograd.Var
	if w.flow != nil {
		v = w.flow.Infer(without)
	} else {
		v = w.engine.Infer(without)
	}
	w.groups.World.At(w.epoch, "")
	return v
}
