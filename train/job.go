// Package train trains a model: epochs, evaluation, early stopping, and predictions with the weights.
//
// A Job is a graph with settings. It plans a run (package plan), starts its workers (package worker), counts
// epochs until the run ends, and writes checkpoints. The commands train, sweep, predict and serve make a Job,
// and so do users' programs. Package rundir stores the results.
package train

import (
	"cmp"
	"time"

	"weft/comm"
	"weft/comm/launch"
	"weft/gnn"
	"weft/graph"
	"weft/graph/appended"
	"weft/internal/cores"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/mesh"
	"weft/partition"
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

// RowsOf makes Rows of values in rows of so many columns, such as the logits of a Result.
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
	Graph *graph.Graph // nil if Parts holds it
	Parts *Parts       // the graph's partitions; nil: each call divides Graph, as MakeParts does
	// Assignment divides Graph; nil: the options do.
	Assignment *partition.Assignment
	Dataset    string // the graph's name in reports
	Options    Options
	// Validate has another graph, whose validation and test vertices select and measure the model in place of
	// those of the job's graph. Only its Graph, Parts and Dataset count. nil: the job's own graph validates.
	Validate *Job
	// Comm connects this process, which is one worker, to the processes of the other workers. nil: all
	// workers are goroutines of this process.
	Comm *comm.Comm
	// LocalWorkers is how many workers run on this machine and share its memory; 0: all.
	LocalWorkers int
	// LocalRank is this process's number among the processes of this machine. It decides which card the
	// process takes.
	LocalRank int
	// Machines has the number of each worker's machine. Processes of one machine can map each other's memory.
	// nil: goroutines are on one machine, and each process is on its own.
	Machines []int
	// CoreSharers is how many workers share the cores that this process may use; 0: all on this machine.
	CoreSharers int
	// Cards describes the card of each worker for a plan. The cards need not be there. nil: the plan takes
	// the cards that Options name.
	Cards *worker.Cards
	// Memory is where passes on several graphs have their memory. nil: these have their own.
	Memory *PassMemory
	// Started is when the run began. MaxTime counts from there. Zero: from the call of Run.
	Started time.Time
	// Checkpoints say where the run keeps its state. nil: nowhere.
	Checkpoints *Checkpoints
	// OnResume is called by worker 0 before the first epoch, with the epochs of the checkpoint. It may be
	// nil.
	OnResume func([]Epoch) error
	OnEpoch  func(Epoch) // called by worker 0 with every epoch, in order; may be nil
	// OnWeights is called by worker 0 with the weights of the best epoch, before their logits are computed.
	// The other workers wait for it. It may be nil.
	OnWeights func(nn.State) error
	// OnLogits is called by worker 0 with the logits of the best epoch. If it is nil, Result.Logits and
	// Prediction.Logits hold them.
	OnLogits func(Rows) error
	// OnEmbeddings is called by worker 0 with the input of the last layer, of the best epoch or in a
	// prediction. If it is nil, Run computes no embeddings, and Prediction.Embeddings may hold them. Either
	// all processes have one, or none.
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

	// Watch is called around each kernel call of this process, as kernel.Team.Watch. On a card, run returns
	// when the call is done. Watch may be nil.
	Watch func(c kernel.Call, run func())
	// Timing is called with each kernel call of this process and the seconds that it takes on a card, as
	// kernel.Team.Timing. On a card it replaces Watch. It may be nil.
	Timing func(c kernel.Call, seconds float64)
	// Trace asks for Result.Trace: what all workers did in the training pass of the last epoch. Worker 0's
	// value counts for all processes.
	Trace bool

	chunks chunks    // the chunks that a session made last
	kind   task.Kind // replaces the task that the options name, unless nil
	inputs inputs    // the features that the model sees in place of the graph's own
}

// Query says what Predict computes, and of which graph. The zero value asks for all vertices of the job's
// graph.
type Query struct {
	// Vertices are the vertices of the first type that Predict computes, each once, in the order of the
	// results. nil is all. All processes have the same list. The mesh must then have the graph axis alone.
	Vertices []int32
	// Edges are edges between vertices of the graph, of the relation that the model has learned and with as
	// many features, whose logits Predict computes in place of Vertices. They pass messages only if Appended
	// has them. The mesh computes the rows of vertices, and worker 0 alone has the logits of edges.
	Edges *graph.Edges
	// Numbers are the numbers in the graph of those Edges that it has, whose logits are then those of a
	// prediction of all, and −1 for new edges; nil: all are new.
	Numbers []int64
	// Appended is Base with vertices and edges appended, or without some edges. Predict computes rows of it.
	// nil: it is the graph.
	Appended *appended.Graph

	// ends are the vertices whose rows an EdgeScorer reads, by type, ascending; nil: all. If the model is
	// undecoded, Predict computes these rows in place of Vertices.
	ends      [][]int32
	undecoded bool // the model ends with these rows
}

// ranks are the processes of the job, for steps that they make together. Without others this one is alone.
func (j *Job) ranks() launch.Ranks { return launch.Ranks{Comm: cmp.Or(j.Comm, comm.Alone())} }

// Threads is the number of threads of each worker of the job with settings r. Workers that share the
// process's cores divide the threads.
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
	} else if p := r.Program.Program; p != nil && len(p.Others) > 0 {
		return nil, refusal.Errorf("--program %s: it has outputs of several vertex types, which are of passes in a "+
			"loop of one's own: leave out others, or take weft.compile", r.Program.Path)
	} else if p != nil && len(p.EdgeOutputs) > 0 && r.Task != task.Edge {
		return nil, refusal.Errorf("--program %s: it has outputs of edges, which are of --task %s, or of passes in a "+
			"loop of one's own: leave out edge_outputs, or take weft.compile", r.Program.Path, task.Edge)
	}
	if c, n := j.ranks().Comm, r.Workers; c.Size() > 1 && c.Size() != n {
		return nil, refusal.Errorf("a job on a mesh of %d workers, whose Comm connects %d: the numbers "+
			"must be equal", n, c.Size())
	}
	if n := len(j.Machines); n > 0 && n != r.Workers {
		return nil, refusal.Errorf("a job on a mesh of %d workers, with the machines of %d: the numbers must "+
			"be equal", r.Workers, n)
	}
	return r, nil
}

// drawn is the job with the split that the options draw on its graph. It does not change the caller's graph.
func (j *Job) drawn() (*Job, error) {
	job := *j
	if j.Graph != nil && j.Options.Split.Rule != "" {
		job.Graph = j.Graph.Copy()
		if err := j.Options.Divide(job.Graph); err != nil {
			return nil, err
		}
	}
	return &job, nil
}
