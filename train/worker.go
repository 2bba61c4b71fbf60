package train

import (
	"math"
	"slices"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
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

	task task
}

// newWorker makes one of the workers that c connects, who call it together, for a model of so many outputs:
// its engine, of e with what follows from the job, and for training what else that needs.
func newWorker(j *Job, c *comm.Comm, outputs int, e engine.Config) (w *worker, err error) {
	o, whole := &j.Options, &e.Share.Whole
	if err := checkWhole(whole, outputs); err != nil {
		return nil, &Common{Err: err}
	}
	grid, err := j.mesh()
	if err != nil {
		return nil, &Common{Err: err}
	}
	if err := o.checkFeatures(grid, whole); err != nil {
		return nil, &Common{Err: err}
	}
	if e.Blocks, err = j.blocks(e.Share, outputs); err != nil {
		return nil, &Common{Err: err}
	}
	full := e.Share
	if e.Training {
		if e.Share, err = o.task().message(j, full); err != nil {
			return nil, err
		}
	}
	e.Groups = grid.Join(c)
	w = &worker{
		team: e.Team, groups: e.Groups, share: e.Share, blocks: e.Blocks, o: o, processes: j.peers().Size() > 1,
		edgeColumns: bySite{}, layoutBytes: bySite{},
	}
	e.Seed, e.Trace = o.Seed, c.Track()
	e.Loss = func(output *autograd.Var) (float64, *tensor.Matrix) { return w.task.loss(output) }
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
	return w, w.prepareTraining(j, full)
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
func (j *Job) blocks(s *partition.Share, outputs int) (blocks []gnn.BlockSpec, err error) {
	whole := &s.Whole
	if j.Model != nil {
		blocks = slices.Clone(j.Model(whole.FeatureColumns, outputs))
	} else if blocks, err = j.Options.model().Blocks(sar.SchemaOf(s), outputs); err != nil {
		return nil, err
	}
	if whole.FeatureValues > 0 && len(blocks) > 0 {
		share := float64(whole.FeatureValues) / (float64(whole.Own()) * float64(whole.FeatureColumns))
		blocks[0].Cost.Vertex = int(math.Ceil(share * float64(blocks[0].Cost.Vertex)))
	}
	return blocks, nil
}

// checkWhole refuses a graph with nothing to learn from.
func checkWhole(whole *partition.Whole, outputs int) error {
	switch {
	case whole.Vertices == 0:
		return refusal.Graph.Errorf("the graph has no vertices; import one that has some")
	case outputs < 1:
		return refusal.Graph.Errorf("the graph has no labels to learn; import it from a source that has labels, or with the flags of its format "+
			"that name some, as the help of weft import FORMAT lists them; or learn edges with %s %s", refusal.Setting("task"), LinkTask)
	}
	return nil
}

// prepareTraining adds what training needs besides the engine: what is learned, and the optimizer's state.
func (w *worker) prepareTraining(j *Job, full *partition.Share) (err error) {
	if w.task, err = w.o.task().begin(j, w, full); err != nil {
		return err
	}
	w.optimizer, err = optim.New(optim.Settings{
		Name: w.o.Optimizer, Rate: w.o.LR, WeightDecay: w.o.WeightDecay, ConvWeightDecay: w.o.ConvWeightDecay,
		DecayFirstLayerOnly: w.o.DecayFirstLayerOnly, Clip: w.o.Clip, Squares: w.squares,
	}, w.team, w.params.List)
	return err
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
