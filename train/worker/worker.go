// Package worker is one worker of a run: its engine and parameters, what it learns, and what it came to. It
// knows an epoch, and nothing of the course of a run.
package worker

import (
	"context"
	"math"
	"time"

	"weft/autograd"
	"weft/comm"
	"weft/gnn"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/parallel/mesh"
	"weft/parallel/order"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/setting"
	"weft/train/task"
)

// Config is what a worker is told. All workers of a run are told alike, but for Recorder and Explain.
type Config struct {
	*setting.Resolved
	Outputs int // columns of the last layer
	// OwnModel describes a model of the caller's own in place of the one that the settings name; nil: not.
	OwnModel func(features, outputs int) []gnn.BlockSpec
	// Engine makes a worker's engine in place of the one that belongs to the mesh; nil: not.
	Engine func(engine.Config) (engine.Engine, error)
	// Kept are the edges that pass messages, as from task.Kind.Keep; nil: all.
	Kept *partition.Kept
	// ChunkOf is the chunk of each vertex, in the order of the partitions, where the mesh has several stages.
	ChunkOf []int32
	// Processes says that the workers are processes, of several machines maybe, and not goroutines of one.
	Processes bool
	// Vertices are those that an inference computes, as for engine.NewMFG; nil: all.
	Vertices []int32
	// Recorder takes what the worker does in an epoch; nil: nobody asks.
	Recorder *trace.Recorder
	// Explain takes what each site of the model does; nil: nobody asks.
	Explain func(site, what string)
}

// Worker is one worker of a run. All workers call its methods together.
type Worker struct {
	Config
	Team      *kernel.Team
	Groups    mesh.Groups
	Share     *partition.Share    // with the edges that pass messages
	Blocks    []gnn.BlockSpec     // of the whole model
	Stage     engine.StageOptions // zero where the mesh has one stage
	Inference engine.Inference
	Params    *nn.Params

	// For training.
	Task      task.Task
	Optimizer *optim.Optimizer
	engine    engine.Engine
	epoch     int // that was trained last, from 1; 0: none

	account
	spent engine.StageReport // the last training pass, where the mesh has several stages
}

// New makes one of the workers that comm connects, for training: its engine, what it learns and the
// optimizer's state. share is that of its partition, with all edges.
func New(c Config, team *kernel.Team, comm *comm.Comm, share *partition.Share) (w *Worker, err error) {
	w, e, err := begin(c, team, comm, share)
	if err != nil {
		return nil, err
	}
	e.Training = true
	newEngine := engine.New
	if c.Engine != nil {
		newEngine = c.Engine
	}
	if w.engine, err = newEngine(e); err != nil {
		return nil, err
	}
	if err := w.infers(w.engine); err != nil {
		return nil, err
	}
	w.Task, err = c.Kind.Begin(task.Env{
		Team: team, World: w.Groups.World, Share: share, Kept: c.Kept, Vertices: w.engine.Vertices(), Params: w.Params,
	})
	if err != nil {
		return nil, err
	}
	w.Optimizer, err = optim.New(optim.Settings{
		Name: c.Optimizer, Rate: c.LR, WeightDecay: c.WeightDecay, ConvWeightDecay: c.ConvWeightDecay,
		DecayFirstLayerOnly: c.DecayFirstLayerOnly, Clip: c.Clip, Squares: w.squares,
	}, team, w.Params.List)
	return w, err
}

// NewInference is New for inference alone, along all edges.
func NewInference(c Config, team *kernel.Team, comm *comm.Comm, share *partition.Share) (w *Worker, err error) {
	w, e, err := begin(c, team, comm, share)
	if err != nil {
		return nil, err
	}
	var i engine.Inference
	switch {
	case c.Vertices != nil:
		i, err = engine.NewMFG(e, c.Vertices)
	case c.Engine != nil:
		i, err = c.Engine(e)
	default:
		i, err = engine.New(e)
	}
	if err != nil {
		return nil, err
	}
	return w, w.infers(i)
}

// begin makes a worker without its engine, and what that is made of.
func begin(c Config, team *kernel.Team, world *comm.Comm, share *partition.Share) (w *Worker, e engine.Config, err error) {
	world, team = world.Recorded(c.Recorder), recorded(team, c.Recorder)
	w = &Worker{Config: c, Team: team, Groups: c.Mesh.Join(world), Share: share, account: newAccount()}
	if w.Blocks, err = c.BlockSpecs(share, c.Outputs, c.OwnModel); err != nil {
		return nil, e, &launch.Common{Err: err}
	}
	if c.Kept != nil {
		if w.Share, err = c.Kept.Of(share); err != nil {
			return nil, e, err
		}
	}
	if w.Stage, err = w.stageOptions(); err != nil {
		return nil, e, &launch.Common{Err: err}
	}
	return w, engine.Config{
		Team: team, Groups: w.Groups, Share: w.Share, Blocks: w.Blocks, Seed: c.Seed, Trace: world.Track(),
		Loss:          func(output *autograd.Var) (float64, *tensor.Matrix) { return w.Task.Loss(w.epoch, output) },
		NormalizeRows: c.NormalizeFeatures == "row", VaryingInput: c.InputDropout > 0,
		Aggregated: w.aggregated, Redistributed: w.redistributed,
		Order:    order.Options{Choice: c.Order, Explain: c.Explain},
		Prefetch: c.Prefetch, KeepHalo: c.KeepHalo,
		AggregationChunks: int(c.AggregationChunks),
		Stage:             w.Stage,
	}, nil
}

// infers gives the worker its engine.
func (w *Worker) infers(i engine.Inference) error {
	w.Inference, w.Params = i, i.Params()
	return w.allowOthers()
}

// stageOptions are what this worker's stage is told, zero where there is one stage.
func (w *Worker) stageOptions() (s engine.StageOptions, err error) {
	grid, whole := w.Groups.Mesh, &w.Share.Whole
	if grid.Stages == 1 {
		return s, nil
	}
	if s.Cuts, err = gnn.Cut(w.Blocks, grid.Stages, whole.Vertices, whole.Edges); err != nil {
		return s, err
	}
	s.Stale, s.Period, s.Recompute = w.Stale, w.HistoryPeriod, w.Recompute
	s.Warm, s.Fixed = w.HistoryStart == setting.HistoryWarm, w.ChunkOrder == setting.OrderFixed
	s.Report = func(r engine.StageReport) { w.spent = r }
	s.Count, _ = w.ChunksOfPartition(w.Share.Edges.Starts)
	s.Chunks = w.ChunkOf
	return s, nil
}

// TrainEpoch makes one step on the whole graph and returns the training loss before it, and whether any
// worker's context is cancelled.
func (w *Worker) TrainEpoch(ctx context.Context, epoch int) (loss float64, stopped bool, err error) {
	w.epoch = epoch
	w.Recorder.Start(epoch)
	defer w.Recorder.Stop()
	whole := w.phase("training pass")
	defer whole.End()
	start, before := time.Now(), w.done()
	loss = w.engine.Train(epoch)
	w.Groups.World.At(epoch, "")
	step := w.phase("optimizer step")
	w.Params.Commit()
	w.Optimizer.Step(optim.Schedule(w.Schedule, epoch, w.Epochs))
	w.Params.ZeroGrad()
	step.End()
	waited := w.Groups.World.Waited()
	loss, stopped, err = w.agree(epoch, loss, ctx.Err() != nil)
	w.spent.Bubble += w.Groups.World.Waited() - waited // for stages that the pipeline drains through
	w.Pass = w.done().since(before)
	w.Pass.Seconds = time.Since(start).Seconds()
	return loss, stopped, err
}

// Infer is the engine's. What the worker waits for afterwards is no layer's.
func (w *Worker) Infer(without int) *autograd.Var {
	v := w.Inference.Infer(without)
	w.Groups.World.At(w.epoch, "")
	return v
}

// Scores are the metric on each part of the split, and the validation loss: NaN where there are no such
// vertices, and where something is not finite, which Fault then names.
type Scores struct {
	task.Scores
	ValLoss float64
	Fault   string
}

// Evaluate measures the model as it is, without dropout. All workers come to the same scores.
func (w *Worker) Evaluate() (s Scores, err error) {
	output := w.Infer(0)
	defer output.Drop()
	loss := w.Task.ValidationLoss(output)
	if w.Team.Planning() {
		s.Scores, err = w.Task.Measure(output.Value())
		return s, err
	}
	sums := []float64{loss, 0, 0} // and how many workers have weights, and results, that are not finite
	if !w.Params.Finite() {
		sums[1] = 1
	}
	if !tensor.Finite(output.Value().Floats()) {
		sums[2] = 1
	}
	if err := w.sum(sums); err != nil {
		return s, err
	}
	nan := math.NaN()
	s = Scores{task.Scores{Train: nan, Val: nan, Test: nan}, nan, ""}
	switch {
	case sums[1] > 0:
		s.Fault = "the weights are not finite"
		return s, nil
	case sums[2] > 0:
		s.Fault = "the logits are not finite"
		return s, nil
	case w.Task.Validates():
		s.ValLoss = sums[0]
	}
	s.Scores, err = w.Task.Measure(output.Value())
	return s, err
}

// sum replaces counts by their sums over all workers.
func (w *Worker) sum(counts []float64) error {
	return w.Groups.World.SumDoubles(comm.Statistics, counts)
}

// LoadInit sets the parameters to those of the file that training starts from, if there is one.
func (w *Worker) LoadInit() error {
	if w.Init == "" {
		return nil
	}
	err := w.Load(nn.ReadState(w.Init))
	if refusal.Weights.In(err) {
		return refusal.Errorf("%s %s: %w", refusal.Setting("init"), w.Init, err)
	}
	return err
}
