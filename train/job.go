// Package train trains a model: epochs, evaluation, early stopping, and predictions with the weights.
//
// A Job is a graph with settings. It plans a run (package plan), starts its workers (package worker), counts
// epochs until the run ends, and writes checkpoints. The commands train, sweep, predict and serve, and
// programs of one's own, make a Job; package rundir keeps what comes of it.
package train

import (
	"cmp"
	"time"

	"weft/comm"
	"weft/comm/launch"
	"weft/gnn"
	"weft/graph"
	"weft/graph/appended"
	"weft/graph/columns"
	"weft/internal/cores"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/train/engine"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

type (
	// Options are all settings of a run.
	Options = setting.Options
	// Rows is a result for each vertex.
	Rows = worker.Rows
	// Common is an error that all workers return at the same point of their work. Their connection still
	// works.
	Common = launch.Common
)

// Defaults are the default options.
func Defaults() Options { return setting.Defaults() }

// RowsOf are values in rows of so many columns, such as the logits of a Result.
func RowsOf(values []float32, columns int) Rows { return worker.RowsOf(values, columns) }

// Job is the training of a model on a graph. It can run again, with whatever its caller changes:
//
//	job := train.Job{Graph: g, Options: train.Defaults()}
//	job.OnEpoch = func(e train.Epoch) { fmt.Println(e.Epoch, e.Loss) }
//	for seed := range uint64(5) {
//		job.Options.Seed = seed
//		result, err := job.Run(ctx)
//		if err != nil {
//			return err
//		}
//		fmt.Println(seed, result.Metric, result.Test)
//	}
type Job struct {
	Graph   *graph.Graph // nil if Parts holds it
	Parts   *Parts       // the graph's partitions; nil: each call divides Graph, as MakeParts does
	Dataset string       // the graph's name in reports
	Options Options
	// Validate has another graph, whose validation and test vertices select and measure the model in place of
	// those of the job's graph. Only its Graph, Parts and Dataset count. nil: there is none.
	Validate *Job
	// Comm connects this process, which is one worker, to the processes of the others. nil: all workers are
	// goroutines of this process.
	Comm *comm.Comm
	// LocalWorkers is how many workers run on this machine and share its memory; 0: all.
	LocalWorkers int
	// LocalRank is this process's number among those of this machine, from which its card follows.
	LocalRank int
	// Machines has for each worker the number of its machine, whose processes can map each other's memory.
	// nil: goroutines are on one machine, and processes each on its own.
	Machines []int
	// CoreSharers is how many workers share the cores that this process may use; 0: all on this machine.
	CoreSharers int
	// Cards is what a plan takes for the card of each worker, which need not be there. nil: the one that
	// Options name.
	Cards *worker.Cards
	// Started is when the run began, from where MaxTime counts. Zero: when Run is called.
	Started time.Time
	// Checkpoints say where the run keeps its state. nil: nowhere.
	Checkpoints *Checkpoints
	// OnResume is called by worker 0 before the first epoch, with those that a checkpoint has. It may be nil.
	OnResume func([]Epoch) error
	OnEpoch  func(Epoch) // called by worker 0 with every epoch, in order; may be nil
	// OnWeights is called by worker 0 with the weights of the best epoch, before their logits are computed.
	// The other workers wait for it. It may be nil.
	OnWeights func(nn.State) error
	// OnLogits is called by worker 0 with the logits of the best epoch. If it is nil, Result.Logits and
	// Prediction.Logits hold them.
	OnLogits func(Rows) error
	// OnEmbeddings is called by worker 0 with the input of the last layer: of the best epoch, or in a
	// prediction. If it is nil, Run computes none, and Prediction.Embeddings may hold it. All
	// processes have one, or none.
	OnEmbeddings func(Rows) error
	// Query says what Predict computes.
	Query
	// HeldOut has Predict leave out the edges that link prediction holds out, as Run does.
	HeldOut bool
	// Model describes a model of the caller's own, instead of the one that Options name. Its first block
	// takes the graph's features. Its last block gives a logit for each class. It may be nil.
	Model func(features, classes int) []gnn.BlockSpec
	// Loss is a loss of the caller's own for labels of vertices, instead of the one that Options name. The
	// loss of an epoch is the sum over the training vertices of all workers, divided by the number of their
	// labels: the vertices, if each has one class. It may be nil.
	Loss nn.LossFunc
	// Mesh replaces the mesh that Options describe, unless it is zero.
	Mesh mesh.Mesh
	// Engine makes a worker's engine, instead of engine.New. It may be nil.
	Engine func(engine.Config) (engine.Engine, error)

	// Watch is called around each kernel call of this process, as kernel.Team.Watch. On a card run waits
	// until the call is done. It may be nil.
	Watch func(c kernel.Call, run func())
	// Timing is told of each kernel call of this process and how many seconds it takes on a card, as
	// kernel.Team.Timing; it takes the place of Watch there. It may be nil.
	Timing func(c kernel.Call, seconds float64)
	// Trace asks for Result.Trace: what all workers did in the training pass of the last epoch. With several
	// processes worker 0's value counts.
	Trace bool

	chunks chunks    // that divide made last
	kind   task.Kind // in place of the task that the options name; nil: that one
	// columns of features that passes are given, by the number of a vertex type without; nil: none
	given map[int]int

	// Made by Like: the columns that features are brought into, and how, by the number of the vertex type.
	columns      columns.ByType
	arrangements []*columns.Arrangement
}

// Query says what Predict computes, of which graph. The zero value asks for all vertices of the job's graph.
type Query struct {
	// Vertices are the vertices that Predict computes, of the first vertex type, each once, in this order.
	// nil is all. All processes have the same list. The mesh must then have the graph axis alone.
	Vertices []int32
	// Appended is Base with vertices and edges appended. Predict computes Vertices of it. nil: nothing is
	// appended.
	Appended *appended.Graph

	// ends are vertices by type, ascending, whose rows an EdgeScorer reads. They are computed in the place of
	// Vertices where the model is undecoded; nil: all.
	ends      [][]int32
	undecoded bool // the model ends with these rows
}

// peers connects this process to the other workers, if there are any.
func (j *Job) peers() *comm.Comm { return cmp.Or(j.Comm, comm.Alone()) }

// ranks are the processes of the job, for steps that they make together.
func (j *Job) ranks() launch.Ranks { return launch.Ranks{Comm: j.peers()} }

// Threads is the number of threads of each worker of the job with settings r. Workers that share the
// process's cores divide them.
func (j *Job) Threads(r *setting.Resolved) int {
	return cmp.Or(r.Threads, max(1, cores.Count()/cmp.Or(j.CoreSharers, j.LocalWorkers, r.Workers)))
}

// resolve resolves the options on the job's mesh.
func (j *Job) resolve() (*setting.Resolved, error) {
	o := j.Options
	if o.Device == setting.AutoDevice {
		if o.Device = setting.CPU; j.Model == nil && j.Loss == nil {
			o.Device, _ = ChooseDevice(o)
		}
	}
	r, err := o.On(j.Mesh)
	if err != nil {
		return nil, err
	}
	r.Undecoded = j.undecoded
	if j.kind != nil {
		r.Kind = j.kind
	} else if of := r.Program.Program; of != nil && len(of.Others) > 0 {
		return nil, refusal.Errorf("--program %s: it has outputs of several vertex types, which are of passes in a "+
			"loop of one's own: leave out others, or take weft.compile", r.Program.Path)
	} else if of != nil && len(of.EdgeOutputs) > 0 && r.Task != task.Edge {
		return nil, refusal.Errorf("--program %s: it has outputs of edges, which are of --task %s, or of passes in a "+
			"loop of one's own: leave out edge_outputs, or take weft.compile", r.Program.Path, task.Edge)
	}
	if c, n := j.peers(), r.Workers; c.Size() > 1 && c.Size() != n {
		return nil, refusal.Errorf("a job on a mesh of %d workers, whose Comm connects %d: the numbers "+
			"must be equal", n, c.Size())
	}
	if n := len(j.Machines); n > 0 && n != r.Workers {
		return nil, refusal.Errorf("a job on a mesh of %d workers, with the machines of %d: the numbers must "+
			"be equal", r.Workers, n)
	}
	return r, nil
}

// drawn is the job on its graph with the split that the options draw. The caller's graph stays as it is.
func (j *Job) drawn() (*Job, error) {
	of := *j
	if j.Graph != nil && j.Options.Split.Rule != "" {
		g := *j.Graph
		if err := j.Options.Divide(&g); err != nil {
			return nil, err
		}
		of.Graph = &g
	}
	return &of, nil
}
