// Package worker is one worker of a run: the engine that computes the model, its parameters and optimizer,
// the task that is learned, and what the worker counts of memory, messages and time.
//
// A Worker trains one epoch, evaluates, predicts, and lists what a checkpoint holds of it. Package train
// calls it: it decides how many epochs there are, which one is the best, and when a checkpoint is written.
package worker

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"weft/autograd"
	"weft/comm"
	"weft/comm/launch"
	"weft/gnn"
	"weft/graph"
	"weft/internal/refusal"
	"weft/internal/trace"
	"weft/kernel"
	"weft/nn"
	"weft/optim"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/links"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/program"
	"weft/tensor"
	"weft/train/engine"
	"weft/train/metric"
	"weft/train/setting"
	"weft/train/task"
)

// Config is the settings of a worker. All workers of a run have the same, but for Recorder, Explain and
// OnLayer.
type Config struct {
	*setting.Resolved
	Outputs int // columns of the last layer
	// OwnModel describes a model of the caller's own, instead of the one that the settings name. It may be
	// nil.
	OwnModel func(features, outputs int) []gnn.BlockSpec
	// OwnLoss is a loss of the caller's own, instead of the one that the settings name. It may be nil.
	OwnLoss nn.LossFunc
	// Engine makes a worker's engine, instead of engine.New. It may be nil.
	Engine func(engine.Config) (engine.Engine, error)
	// Passing is the graph of the message-passing edges of the task. nil is all edges. Later is that of the
	// edges that task.Later names; nil: there are none.
	Passing, Later *partition.Subgraph
	// ChunkOf is the chunk of each vertex, in the order of the partitions, if the mesh has several stages.
	ChunkOf []int32
	// Processes says that the workers are processes, perhaps of several machines, and not goroutines of one
	// process.
	Processes bool
	// Machines has the number of each worker's machine. nil: goroutines are on one, and processes each on its
	// own, as far as is known.
	Machines []int
	// Vertices are the vertices of each type to infer, each once, in any order, as engine.NewMFG has them.
	// nil is all.
	Vertices [][]int32
	// Loaded is the model of an inference for Vertices, with its weights. nil: the worker makes its own.
	Loaded  *engine.Loaded
	Savings Savings
	// Card is what the workers compute on. nil: the CPU.
	Card *Card
	// Standard standardises the columns of dense features, by the number of the vertex type. nil: by the
	// means and deviations of the graph, where the settings ask for it.
	Standard []*engine.Standard
	// Started are the means and deviations that came with weights to start from, by vertex type. nil, and a
	// nil entry, stand for those of the graph.
	Started []*engine.Standard
	// Fetches are what a plan knows of the rows that workers fetch, from task.Fetches. nil: a run.
	Fetches *links.Fetches
	// AnyOrder has a plan of a pipeline take as much memory as any order of the chunks takes.
	AnyOrder bool
	// LargerBy is how many times larger the graph is than the one that a plan takes in its place; 0: as
	// large.
	LargerBy float64
	// Recorder records what the worker does in an epoch. It may be nil.
	Recorder *trace.Recorder
	// Explain is called for each module of the model with what it does. It may be nil.
	Explain func(module, what string)
	// OnLayer is told of each layer before work of it is done, and of trace.NoLayer after it. It may be nil.
	OnLayer func(layer int, part trace.Part)
}

// Savings are what a worker does to take less memory, at the price of time. The results have the same bits.
// Workers may differ in it.
type Savings struct {
	Uncut     bool // products are not cut into tiles (kernel.Team.Uncut)
	Recompute bool // the backward pass computes values again (engine.Config.Recompute)
}

// Card is the cards that the workers of a run compute on.
type Card struct {
	Device  setting.Device
	Name    string // of all: that of each kind, if there are several
	Driver  string // its version of CUDA
	Bytes   int64  // of a card's memory that each worker has
	Free    int64  // that it could have with a higher limit
	Numbers []int  // by worker: which card of its machine; nil: in a plan of cards that need not be there
}

// String is the name, and where there are several workers which cards they are on.
func (c *Card) String() string {
	if len(c.Numbers) < 2 {
		return c.Name
	}
	var numbers []int
	workers := map[int][]string{}
	for worker, number := range c.Numbers {
		if workers[number] == nil {
			numbers = append(numbers, number)
		}
		workers[number] = append(workers[number], strconv.Itoa(worker))
	}
	list := make([]string, len(numbers))
	for k, number := range numbers {
		list[k] = fmt.Sprintf("%s on cuda:%d", strings.Join(workers[number], ", "), number)
	}
	return fmt.Sprintf("%s (workers %s)", c.Name, strings.Join(list, "; "))
}

// Worker is one worker of a run. All workers call its methods together.
type Worker struct {
	Config
	Team      *kernel.Team
	Groups    mesh.Groups
	Share     *partition.Share    // with the message-passing edges
	Blocks    []gnn.BlockSpec     // of the whole model
	Stage     engine.StageOptions // zero if the mesh has one stage
	Inference engine.Inference
	Params    *nn.Params

	// For training.
	Task      task.Task
	Optimizer *optim.Optimizer
	// the model on the graph that it is validated on; nil: the one that it is trained on
	validates *Worker
	later     *later                  // outputs over another graph; nil: there are none
	Rate      optim.Schedule          // of the optimizer's learning rate
	adds      *program.Regularization // to the loss; nil: nothing
	engine    engine.Engine
	epoch     int   // the last one trained, from 1; 0: none
	read      *read // of the training pass under way; nil: nothing is

	account
	spent engine.StageReport // of the last training pass, if the mesh has several stages
}

// Validation is another graph, whose validation and test vertices select and measure the model.
type Validation struct {
	Config                   // the run's, for this graph
	Share   *partition.Share // of this worker's partition
	Dataset string           // how errors name the graph
}

// named puts the setting and the graph before a refusal of the graph.
func (v *Validation) named(err error) error {
	if !refusal.Is(err) {
		return err
	}
	return &launch.Common{Err: refusal.Errorf("--validate %s: %v", v.Dataset, err)}
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
	if w.adds, err = w.Program.NewRegularization(w.Params, w.Groups.Stage == 0); err != nil {
		return nil, &launch.Common{Err: refusal.Errorf("--program %s: %w", c.Program, err)}
	}
	if w.Optimizer, err = optim.New(c.Settings, team, w.Params.List); err != nil {
		return nil, err
	}
	w.Optimizer.Squares = w.squares
	return w, nil
}

// edgeNumbers are those of the edges of this worker's outputs, as task.Env has them.
func (w *Worker) edgeNumbers(of *graph.Relation) []int64 {
	return w.Inference.EdgeNumbers(of)
}

// ownLoss is the loss of the caller, or of the file that the settings name; nil: it is one known by name.
func (w *Worker) ownLoss() nn.OwnLoss {
	world := w.Groups.World
	switch of := w.LossFile(); {
	case w.OwnLoss != nil:
		return w.OwnLoss
	case of != nil:
		return nn.WholeLoss{Of: of.For(), Peers: exchange.PeersOf(world), First: world.Rank() == 0}
	}
	return nil
}

// onOther makes the worker of the model on another graph.
func (w *Worker) onOther(other *Validation, world *comm.Comm) (*Worker, error) {
	c := other.Config
	c.Savings, c.Resolved = w.Savings, c.Keeping(w.KeepEdgeStates)
	for kind := range other.Share.Whole.Types {
		c.Standard = append(c.Standard, w.Standard[w.Share.Whole.TypeLike(&other.Share.Whole, kind)])
	}
	v, err := NewInference(c, w.Team, world, other.Share)
	if err != nil {
		return nil, other.named(err)
	}
	v.Task, err = c.Kind.Begin(task.Env{
		Team: w.Team, World: v.Groups.World, Share: other.Share, Vertices: v.Inference.Vertices(),
		Params: v.Params, Trained: w.Task, Loss: v.ownLoss(),
	})
	if err != nil {
		return nil, other.named(err)
	}
	if err := v.Params.Like(w.Params); err != nil {
		return nil, other.named(err)
	}
	return v, nil
}

// Validates reports whether any worker has something to validate on, as far as this worker knows.
func (w *Worker) Validates() bool { return w.validation().Validates() }

// validation is the task on the graph that the model is validated on.
func (w *Worker) validation() task.Task {
	if w.validates != nil {
		return w.validates.Task
	}
	return w.Task
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
	team.Uncut, team.Storage, team.TF32 = c.Savings.Uncut, c.Storage, c.TF32
	world = world.Recorded(c.Recorder)
	team = recorded(team, c.Recorder)
	w = &Worker{Config: c, Team: team, Groups: c.Mesh.Join(world), Share: share, account: newAccount()}
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
		if w.Share, err = c.Passing.Of(share); err != nil {
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
func (w *Worker) infers(i engine.Inference) error {
	w.Inference = i
	return w.holds(i.Params())
}

// holds sets the worker's parameters.
func (w *Worker) holds(params *nn.Params) error {
	w.Params = params
	w.eachStandard(func(name string, _ []float32) { w.Params.Allow(name) }) // known before the engine
	if w.Undecoded {
		w.Params.Allow(gnn.DecoderNames()...)
		if of := w.Program.Program; of != nil {
			w.Params.Allow(of.Names()...)
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
	s.Of = w.ChunkOf
	return s, nil
}

// Begin begins the first epoch: what rests then is the same in every run, and in its plan.
func (w *Worker) Begin() {
	w.Groups.World.LocalBarrier()
	if w.countsDisk() {
		w.Team.Memory.Level()
		w.disk()
	}
	if w.later != nil && w.Offload == "" { // what its first pass makes is there in every epoch
		w.later.Inference.Infer(0).Drop()
	}
	w.onDevice()
}

// TrainEpoch makes one step on the whole graph. It returns the training loss before the step, and what the
// workers ask for. asks, which may be nil, is called after the step. So is ends before it, with the scores of
// the weights until then, where Reads allows that: if it reports that the run has ended there is no step.
func (w *Worker) TrainEpoch(epoch int, ends func(Scores) bool,
	asks func() Asks,
) (loss float64, asked Asks, err error) {
	w.epoch = epoch
	w.Recorder.Start(epoch)
	defer w.Recorder.Stop()
	whole := w.phase("training pass")
	defer whole.End()
	start := time.Now()
	before := w.done()
	w.beginProfile(epoch)
	if ends != nil {
		w.read = &read{}
	}
	call := engine.Training(w.Seed, epoch)
	loss = engine.Train(w.engine, call, func(output *autograd.Var) (float64, *tensor.Matrix) {
		w.readScores(output)
		defer w.phase("loss").End()
		return w.Task.Loss(epoch, output)
	})
	found := w.read
	w.read = nil
	w.Groups.World.At(epoch, "")
	if found != nil {
		began := time.Now()
		if ends(found.Scores) {
			w.epoch--
			w.endPass()
			return 0, 0, nil
		}
		start = start.Add(time.Since(began) + found.took) // others are told meanwhile
	}
	if w.adds != nil {
		if added := w.adds.AddGradient(w.Team); w.Groups.Replicas.Rank() == 0 {
			loss += added
		}
	}
	step := w.phase("optimizer step")
	w.Params.Keep()
	w.Params.Commit()
	w.Optimizer.Step(w.Rate.Factor(epoch))
	w.Params.ZeroGrad()
	step.End()
	waited := w.Groups.World.Waited()
	if asks != nil {
		asked = asks()
	}
	loss, asked, err = w.agree(epoch, loss, asked)
	// the last stages wait here until the pipeline has drained
	w.spent.Bubble += w.Groups.World.Waited() - waited
	w.endPass()
	w.Pass = w.done().since(before)
	if found != nil {
		w.Pass = w.Pass.since(found.sent)
	}
	w.Pass.Seconds, w.Pass.Disk = time.Since(start).Seconds(), w.disk()
	w.Pass.Device = w.onDevice()
	return loss, asked, err
}

// Infer runs the engine's Infer. Later errors name no layer.
func (w *Worker) Infer(without int) *autograd.Var {
	v := w.Inference.Infer(without)
	if w.later != nil && without == 0 {
		w.later.replace(v, w.Params)
	}
	w.Groups.World.At(w.epoch, "")
	return v
}

// Scores are those of the current model. All are NaN if a value is not finite; Fault then names it.
type Scores struct {
	metric.Scores
	Fault string
}

// Evaluate measures the current model without dropout. All workers get the same scores. Validation and test
// vertices are those of the graph that the model is validated on.
func (w *Worker) Evaluate() (s Scores, err error) {
	w.Recorder.Work().Layer(trace.NoLayer, trace.Evaluation)
	s, err = w.evaluate()
	if w.validates == nil || s.Fault != "" || err != nil {
		return s, err
	}
	w.validates.Params.Copy(w.Params)
	v, err := w.validates.evaluate()
	if v.Fault == "" {
		v.Train = s.Train
	}
	return v, err
}

// evaluate measures the model on the worker's own graph.
func (w *Worker) evaluate() (s Scores, err error) {
	output := w.Infer(0)
	defer output.Drop()
	return w.scores(output)
}

// read is what a training pass reads of the weights before its step.
type read struct {
	Scores
	sent Tally         // by the workers to each other for that
	took time.Duration // to measure
}

// Reads reports whether the weights after an epoch are evaluated by the forward pass of the next one.
func (w *Worker) Reads() bool {
	another := w.validates != nil || w.later != nil
	return w.EvalEvery == setting.AutoEvery && w.OwnModel == nil && !another && w.OwnPass() == ""
}

// EvaluatesAfter reports whether a pass of its own evaluates the weights after an epoch, whether or not the
// run ends with it.
func (w *Worker) EvaluatesAfter(epoch int) bool { return w.EvaluatesWithin(epoch-1, epoch) }

// EvaluatesWithin reports it for any of the epochs after one and up to another.
func (w *Worker) EvaluatesWithin(after, until int) bool {
	return !w.Reads() && w.EvalEvery.Due(after, until)
}

// readScores measures the weights before the step by the output of the training pass, if TrainEpoch asks for
// that.
func (w *Worker) readScores(output *autograd.Var) {
	if w.read == nil {
		return
	}
	before := w.done()
	scores, err := w.scores(output)
	exchange.Must(err)
	w.read.Scores = scores
	w.read.sent = w.done().since(before)
	w.read.sent.Waited = 0 // for the others' forward passes
	w.Groups.Replicas.LocalBarrier()
}

// scores measures the model by its output, which stays as it is.
func (w *Worker) scores(output *autograd.Var) (s Scores, err error) {
	loss := w.Task.ValidationLoss(output)
	// the loss, and the numbers of workers whose weights and whose results are not finite
	sums := []float64{loss, 0, 0}
	if !w.Params.Finite() {
		sums[1] = 1
	}
	if !w.Team.Finite(output.Value()) {
		sums[2] = 1
	}
	if err := w.sum(sums); err != nil {
		return s, err
	}
	if w.read != nil { // from now on no worker is in its forward pass
		defer func(began time.Time) { w.read.took = time.Since(began) }(time.Now())
	}
	switch {
	case sums[1] > 0:
		return Scores{metric.Unmeasured(), "the weights are not finite"}, nil
	case sums[2] > 0:
		return Scores{metric.Unmeasured(), "the logits are not finite"}, nil
	}
	s.Scores, err = w.Task.Measure(output.Value())
	s.ValLoss = math.NaN()
	if w.Task.HasValidationLoss() {
		s.ValLoss = sums[0]
	}
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
	return ofInit(w.Init, w.Load(nn.ReadState(w.Init)))
}

// ReadInit reads the file of weights that training starts from.
func ReadInit(path string) (nn.State, error) {
	weights, err := nn.ReadState(path)
	return weights, ofInit(path, err)
}

// ofInit names the file in an error about the weights that training starts from.
func ofInit(path string, err error) error {
	if refusal.Weights.In(err) {
		return refusal.Errorf("--init %s: %w", path, err)
	}
	return err
}
