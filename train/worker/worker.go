// Package worker is one worker of a run: the engine that computes the model, its parameters and optimizer,
// the task that is learned, and what the worker counts of memory, messages and time.
//
// A Worker trains one epoch, evaluates, predicts, and lists what a checkpoint holds of it. Package train
// calls it, and decides how many epochs there are, which one is the best, and when to write a checkpoint.
package worker

import (
	"weft/comm"
	"weft/comm/launch"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/task"
)

// member is a worker's place among the workers of a run, with its share of the graph.
type member struct {
	Config
	Team   *kernel.Team
	Groups mesh.Groups
	Share  *partition.Share // with the message-passing edges
}

// model is a member's part of the model.
type model struct {
	member
	Blocks    []gnn.BlockSpec     // of the whole model
	Stage     engine.StageOptions // zero if the mesh has one stage
	Inference engine.Inference
	Params    *nn.Params
}

// Worker is one worker of a run. All workers call its methods together.
type Worker struct {
	model

	// For training.
	Task      task.Task
	Optimizer *optim.Optimizer
	// validates is the model on the validation graph; nil: it is the graph on which the model is trained.
	validates *Worker
	later     *later         // outputs over another graph; nil: there are none
	Rate      optim.Schedule // of the optimizer's learning rate
	engine    engine.Engine
	epoch     int   // the last epoch that was trained, from 1; 0: none
	read      *read // what the training pass under way reads; nil: nothing

	account
	spent engine.StageReport // of the last training pass, if the mesh has several stages
}

// New makes one of the workers that world connects, for training: its engine, its task and the optimizer's
// state. share is the share of its partition, with all edges. Without other the graph's own vertices
// validate.
func New(c Config, team *kernel.Team, world *comm.Comm, share *partition.Share,
	other *Validation,
) (w *Worker, err error) {
	w, e, err := begin(c, team, world, share)
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
		Team: team, World: w.Groups.World, Share: share, Vertices: w.engine.Vertices(), Params: w.Params,
		Fetches: c.Fetches, Loss: w.ownLoss(), Edges: w.edgeNumbers, EdgeUnits: c.Program.Program == nil,
		Passing: w.Share,
	})
	if err != nil {
		return nil, err
	}
	if err := w.infersLater(world, share); err != nil {
		return nil, err
	}
	if other != nil {
		if w.validates, err = w.onOther(other, world); err != nil {
			return nil, err
		}
	}
	team.Memory.SetAllReadOnly(tensor.Graph)
	team.Memory.SetAllReadOnly(tensor.Features)
	w.Rate = optim.Schedule{
		Name: c.Schedule, Epochs: c.Epochs, Warmup: c.Warmup, Factors: c.Factors(),
		Plateau: optim.Plateau{
			Factor: c.PlateauFactor, Patience: c.PlateauPatience,
			Highest: c.Select == setting.SelectMetric && !metric.SmallerIsBetter(w.Task.Metric()),
		},
	}
	validation := w.validation()
	if c.Select == setting.SelectLoss && validation.Validates() && !validation.HasValidationLoss() {
		return nil, &launch.Common{Err: refusal.Errorf("--select %s: there is no validation loss, as the "+
			"classes of all validation vertices weigh 0; take --select %s, or other class weights "+
			"(--class-weights)", c.Select, setting.SelectMetric)}
	}
	if c.Schedule == optim.PlateauSchedule && !validation.Validates() {
		return nil, refusal.Errorf("--schedule %s: nothing is held out for validation; give another split, "+
			"or take --schedule %s", c.Schedule, optim.Schedules[0])
	}
	w.Program.Fit(w.Params.List)
	if w.Optimizer, err = optim.New(c.Settings, team, w.Params.List); err != nil {
		return nil, err
	}
	w.Optimizer.Squares = w.squares
	return w, nil
}

// edgeNumbers are the numbers of the edges of this worker's outputs, as in task.Env.
func (w *model) edgeNumbers(relation *graph.Relation) []int64 {
	return w.Inference.EdgeNumbers(relation)
}

// ownLoss is the loss of the caller, or of the file that the settings name; nil: the loss is known by name.
func (w *model) ownLoss() nn.OwnLoss {
	world := w.Groups.World
	switch loss := w.LossFile(); {
	case w.OwnLoss != nil:
		return w.OwnLoss
	case loss != nil:
		return nn.WholeLoss{Function: loss.For(), Peers: exchange.PeersOf(world), First: world.Rank() == 0}
	}
	return nil
}

// NewInference makes a worker for inference alone, along all edges.
func NewInference(c Config, team *kernel.Team, world *comm.Comm,
	share *partition.Share,
) (w *Worker, err error) {
	w, e, err := begin(c, team, world, share)
	if err != nil {
		return nil, err
	}
	var i engine.Inference
	switch {
	case c.Vertices != nil:
		i, err = engine.NewMFG(e, c.Vertices, c.Loaded)
	case c.Engine != nil:
		i, err = c.Engine(e)
	default:
		i, err = engine.New(e)
	}
	if err != nil {
		return nil, err
	}
	if err := w.infers(i); err != nil {
		return nil, err
	}
	return w, w.infersLater(world, share)
}

// begin makes a worker without its engine, and the engine's Config.
func begin(c Config, team *kernel.Team, world *comm.Comm,
	share *partition.Share,
) (w *Worker, e engine.Config, err error) {
	team.Untiled, team.Storage, team.TF32 = c.Savings.Untiled, c.Storage, c.TF32
	world = world.Recorded(c.Recorder)
	team = recorded(team, c.Recorder)
	w = &Worker{account: newAccount()}
	w.member = member{Config: c, Team: team, Groups: c.Mesh.Join(world), Share: share}
	if err := w.shareEdges(); err != nil {
		return nil, e, err
	}
	if w.Blocks, err = c.BlockSpecs(share, c.Outputs, c.OwnModel); err != nil {
		return nil, e, &launch.Common{Err: err}
	}
	kinds, err := c.outputTypes(share)
	if err != nil {
		return nil, e, &launch.Common{Err: err}
	}
	if c.Passing != nil {
		if w.Share, err = c.Passing.Restrict(share); err != nil {
			return nil, e, err
		}
	}
	if w.Stage, err = w.stageOptions(); err != nil {
		return nil, e, &launch.Common{Err: err}
	}
	if w.Standard == nil {
		if w.Standard, err = w.standard(); err != nil {
			return nil, e, err
		}
	}
	var degrees gnn.Degrees
	if gnn.ReadDegrees(w.Blocks) {
		if degrees, err = w.degrees(); err != nil {
			return nil, e, err
		}
	}
	return w, engine.Config{
		Env: axis.Env{
			Team: team, Groups: w.Groups, Share: w.Share, Epochs: c.Epochs, LargerBy: c.LargerBy,
			Explain: c.Explain, Aggregated: w.aggregated, Redistributed: w.redistributed,
		},
		Resolved: c.Resolved, Recompute: c.Savings.Recompute, Stage: w.Stage, AnyOrder: c.AnyOrder,
		Blocks: w.Blocks, Outputs: kinds, Degrees: degrees, Standard: w.Standard, LabelColumns: c.Outputs,
		Trace: world.Track(), OnLayer: c.OnLayer,
	}, nil
}

// outputTypes are the vertex types of the output, nil for the first.
func (c *Config) outputTypes(share *partition.Share) ([]int, error) {
	kinds, err := c.Kind.Types(share)
	switch {
	case err != nil || kinds == nil:
		return nil, err
	case c.Vertices != nil && !c.Undecoded:
		return nil, refusal.Errorf("--vertices: lists vertices of the first type, and the model computes " +
			"those of the relations that it learns; leave it out, which predicts all")
	case c.OwnModel != nil:
		return nil, refusal.Errorf("--link-relation %s: a model of your own computes the rows of the first "+
			"vertex type, and edges between others are asked for; name a model with --model", c.LinkRelation)
	}
	return kinds, nil
}

// NewLoaded makes the model of inferences for some vertices of the graph, with the weights, in the memory of
// a team.
func NewLoaded(c Config, team *kernel.Team, graph *partition.Share,
	weights nn.State,
) (*engine.Loaded, error) {
	w, e, err := begin(c, team, comm.Alone(), graph)
	if err != nil {
		return nil, err
	}
	l := engine.NewLoaded(e)
	if err := w.holds(l.Params); err != nil {
		return nil, err
	}
	c.Kind.Predicts(l.Params, weights)
	return l, w.Load(weights, nil)
}

// infers sets the worker's engine.
func (w *model) infers(i engine.Inference) error {
	w.Inference = i
	return w.holds(i.Params())
}

// holds sets the worker's parameters.
func (w *model) holds(params *nn.Params) error {
	w.Params = params
	w.eachStandard(func(name string, _ []float32) { w.Params.Allow(name) }) // before there is an engine
	if w.Undecoded {
		w.Params.Allow(gnn.DecoderNames()...)
		if model := w.Program.Program; model != nil {
			w.Params.Allow(model.Names()...)
		}
	}
	return w.allowOthers()
}

// stageOptions returns the options of this worker's stage, zero if there is one stage.
func (w *Worker) stageOptions() (s engine.StageOptions, err error) {
	grid, whole := w.Groups.Mesh, &w.Share.Whole
	if grid.Stages == 1 {
		return s, nil
	}
	if s.Cuts, err = gnn.Cut(w.Blocks, grid.Stages, whole.Vertices, whole.Edges); err != nil {
		return s, err
	}
	s.Report = func(r engine.StageReport) { w.spent = r }
	s.Count, _ = w.ChunksOfPartition(w.Share.Edges.Types[0].Starts, len(w.Share.Edges.Types))
	s.Chunks = w.ChunkOf
	return s, nil
}

// Begin begins the first epoch. From then on what rests is the same in every run, and in its plan.
func (w *Worker) Begin() {
	w.Groups.World.LocalBarrier()
	if w.countsDisk() {
		w.Team.Memory.ResetResidency()
		w.disk()
	}
	if w.later != nil && w.Offload == "" { // its first pass makes what all later passes have
		w.later.Inference.Infer(0).Drop()
	}
	w.onDevice()
}

// sum replaces counts by their sums over all workers.
func (w *member) sum(counts []float64) error {
	return w.Groups.World.SumDoubles(comm.Statistics, counts)
}
