package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"weft/comm"
	"weft/internal/cores"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/nn"
	"weft/parallel/axis"
	"weft/parallel/exchange"
	"weft/parallel/mfg"
	"weft/parallel/turns"
	"weft/partition"
	"weft/tensor"
	"weft/tensor/offload"
	"weft/train/setting"
	"weft/train/task"
	"weft/train/worker"
)

// Parts are a graph's partitions. Each worker opens its own.
type Parts struct {
	Whole   partition.Whole
	ID      string // of a stored partition
	Balance string // what was balanced, "": unknown
	Open    func(p int) (*partition.Share, error)
}

// MakeParts divides the job's graph as its options ask. As Parts they serve several calls.
func (j *Job) MakeParts(ctx context.Context) (*Parts, error) {
	r, err := j.resolve()
	if err != nil {
		return nil, err
	}
	of, err := j.drawn()
	if err != nil {
		return nil, err
	}
	if err := of.Graph.CheckMade(); err != nil {
		return nil, err
	}
	a, err := partition.Assign(ctx, of.Graph, j.Options.Assignment(of.Graph, r.Mesh.Partitions))
	if err != nil {
		return nil, err
	}
	shares, err := partition.Split(of.Graph, a)
	if err != nil {
		return nil, err
	}
	return &Parts{
		Whole: shares[0].Whole, Balance: a.Balance,
		Open: func(p int) (*partition.Share, error) { return shares[p], nil },
	}, nil
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

// shared is what the workers of a job share: their configuration, and how to open their shares.
type shared struct {
	worker.Config
	whole *partition.Whole
	Limit int64        // of a plan: the memory beyond which matrices rest
	Rooms []turns.Room // of a plan, for messages between workers: by worker. nil: as many rest as can
	// open opens the share of a partition for use. Opening reads its arrays and allocates tensors.
	open func(p int, use func(*partition.Share) error) error
	// validate is what the workers share of the graph that the model is validated on. nil: it is the same.
	validate *shared
	dataset  string // how errors name the graph, if the model is validated on it
}

// inMemory makes the settings those of a run whose matrices stay in memory.
func (s *shared) inMemory() {
	without := *s.Resolved
	without.Offload = ""
	s.Resolved = &without
	if s.validate != nil {
		s.validate.inMemory()
	}
}

// begin checks the job, for training, or for a prediction with the weights unless nil. All processes call it
// together. It fails on all if it fails on any.
// alike is plan.Asks'.
func (j *Job) begin(ctx context.Context, weights *nn.State, alike bool) (*shared, error) {
	r, err := j.resolve()
	if err != nil { // before waiting for processes that do not exist
		return nil, err
	}
	s, err := j.share(ctx, r, weights, alike)
	return s, j.ranks().Together(err)
}

// resolve resolves the options on the job's mesh.
func (j *Job) resolve() (*setting.Resolved, error) {
	r, err := j.Options.On(j.Mesh)
	if err != nil {
		return nil, err
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

func (j *Job) share(ctx context.Context, r *setting.Resolved, weights *nn.State,
	alike bool,
) (*shared, error) {
	of, err := j.drawn()
	if err != nil {
		return nil, err
	}
	s, err := of.shareDrawn(ctx, r, weights, alike)
	j.chunks = of.chunks
	return s, err
}

func (j *Job) shareDrawn(ctx context.Context, r *setting.Resolved, weights *nn.State, alike bool,
) (s *shared, err error) {
	k := r.Mesh.Partitions
	if j.Graph == nil && (j.Parts == nil || k == 1) {
		return nil, refusal.Errorf("a job has neither a graph nor, for several partitions, parts")
	}
	s = &shared{Config: worker.Config{
		Resolved: r, OwnModel: j.Model, OwnLoss: j.Loss, Engine: j.Engine,
		Processes: j.peers().Size() > 1, Machines: j.Machines,
	}}
	if j.Appended != nil && (k > 1 || j.Vertices == nil || weights == nil || j.HeldOut) {
		return nil, refusal.Errorf("a graph with vertices and edges appended is for a prediction of some " +
			"vertices, with all edges and on one worker")
	}
	switch {
	case k == 1 && j.Vertices != nil && weights != nil && !j.HeldOut:
		if err := j.openSome(s, &mfg.Room{}); err != nil {
			return nil, err
		}
	case k == 1:
		share := partition.All(j.Graph)
		j.arrange(share)
		s.whole = &share.Whole
		s.open = j.opener(share, func(use func(*partition.Share) error) error { return use(share) })
	default:
		if j.Parts == nil {
			if j.Parts, err = j.MakeParts(ctx); err != nil {
				return nil, err
			}
		}
		whole := j.Whole()
		s.whole, s.open = &whole, j.openPart(k)
	}
	s.Outputs = r.Kind.Outputs(s.whole)
	if weights != nil {
		if _, n := r.Widths(*weights); n > 0 && j.Model == nil {
			s.Outputs = n
		}
	}
	if err := r.CheckCounts(s.whole, s.Outputs); err != nil {
		return nil, err
	}
	if weights == nil {
		err = cmp.Or(j.checkLoss(), r.Kind.Check(s.whole))
		s.Passing = r.Kind.Passing()
	} else {
		err = j.checkVertices(s)
		s.Vertices = j.Vertices
		if j.HeldOut {
			s.Passing = r.Kind.Passing()
		}
	}
	if err != nil {
		return nil, err
	}
	if s.ChunkOf, err = j.divide(ctx, s, alike); err != nil {
		return s, err
	}
	if weights == nil && j.Options.Validate != "" && j.Validate == nil {
		return nil, refusal.Errorf("{validate} %s: a job has that graph as Validate", j.Options.Validate)
	}
	if j.Validate != nil && weights == nil {
		if s.validate, err = j.shareValidation(ctx, s); err != nil {
			return s, err
		}
	}
	return s, j.Checkpoints.check(s)
}

// checkLoss refuses settings that a loss of the job's own takes the place of.
func (j *Job) checkLoss() error {
	o := &j.Options
	if j.Loss == nil {
		return nil
	}
	var given refusal.Setting
	var text string
	switch {
	case o.Task != task.Vertex:
		return refusal.Errorf("{task} %s: a job's own loss is for labels of vertices; leave one of them out",
			o.Task)
	case o.Loss != task.AutoLoss:
		given, text = "loss", o.Loss
	case o.ClassWeights != task.NoClassWeights:
		given, text = "class-weights", o.ClassWeights
	case o.LabelSmoothing > 0:
		given, text = "label-smoothing", fmt.Sprint(o.LabelSmoothing)
	default:
		return nil
	}
	return refusal.Errorf("%s %s: the job has a loss of its own in its place; leave one of them out", given,
		text)
}

// shareValidation is share for the graph that the model is validated on. It refuses one that the model does
// not fit.
func (j *Job) shareValidation(ctx context.Context, s *shared) (*shared, error) {
	o, whole := j.Validate, s.whole
	o.Options, o.Mesh, o.Model, o.Loss, o.Engine, o.Comm, o.Machines = j.Options, j.Mesh, j.Model,
		j.Loss, j.Engine, j.Comm, j.Machines
	if _, err := o.Like(j.Columns()); err != nil {
		return nil, o.named(err)
	}
	v, err := o.share(ctx, s.Resolved, &nn.State{}, false)
	if err == nil {
		err = s.Kind.CheckMeasured(v.whole)
	}
	if err != nil {
		return nil, o.named(err)
	}
	switch w := v.whole; {
	case w.Splits[s.Split.Number].Val == 0:
		err = refusal.Errorf("{split} %v has no validation vertices; import it with {split} val", s.Split)
	case w.FeatureColumns != whole.FeatureColumns:
		err = refusal.Errorf("it has %d features, and the graph that is trained on has %d; give graphs "+
			"with the same features", w.FeatureColumns, whole.FeatureColumns)
	case v.Outputs > s.Outputs || (w.ValueColumns > 0) != (whole.ValueColumns > 0):
		err = refusal.Errorf("its labels are of %d classes or columns, and those of the graph that is "+
			"trained on of %d; give graphs with the same labels", v.Outputs, s.Outputs)
	case w.ValueColumns != whole.ValueColumns:
		err = refusal.Errorf("it has %d values to predict, and the graph that is trained on has %d; give "+
			"graphs with the same labels", w.ValueColumns, whole.ValueColumns)
	}
	v.Outputs, v.dataset = s.Outputs, o.Dataset
	return v, o.named(err)
}

// named puts the setting and the graph before a refusal of the graph that the model is validated on. It is
// then none of the graph that is trained on.
func (j *Job) named(err error) error {
	if err == nil || !refusal.Is(err) {
		return err
	}
	return refusal.Errorf("{validate} %s: %v", j.Dataset, err)
}

// validation opens for use what the worker that has a partition needs of the graph that the model is
// validated on: nil if that is the same graph.
func (s *shared) validation(p int, use func(*worker.Validation) error) error {
	if s.validate == nil {
		return use(nil)
	}
	return s.validate.open(p, func(share *partition.Share) error {
		return use(&worker.Validation{Config: s.validate.Config, Share: share, Dataset: s.validate.dataset})
	})
}

// opener opens what the worker of a graph that has one partition reads of its share.
func (j *Job) opener(share *partition.Share, read func(use func(*partition.Share) error) error) func(p int,
	use func(*partition.Share) error) error {
	return func(_ int, use func(*partition.Share) error) error {
		return j.guarded(share, func() error {
			if err := j.Graph.CheckMade(); err != nil {
				return err
			}
			return read(use)
		})
	}
}

// openPart opens the share of one of k partitions.
func (j *Job) openPart(k int) func(p int, use func(*partition.Share) error) error {
	return func(number int, use func(*partition.Share) error) error {
		share, err := j.Parts.Open(number)
		if err != nil {
			return err
		}
		defer share.Close()
		if n := len(share.Edges.Starts) - 1; n != k {
			return refusal.Errorf("a job on a mesh of %d partitions, whose parts are %d: the numbers must "+
				"be equal", k, n)
		}
		j.arrange(share)
		return j.guarded(share, func() error { return use(share) })
	}
}

// guarded runs f, and turns failures from outside the program into errors: memory that is refused, files that
// are truncated, other workers that fail, and mistakes in the shapes of the caller's model or loss.
func (j *Job) guarded(share *partition.Share, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case tensor.OutOfMemory:
			err = p
		case exchange.Failure:
			err = p.Err
		case tensor.DiskFailure:
			err = p.Err
		case tensor.Mismatch:
			if j.Model == nil && j.Loss == nil {
				panic(p)
			}
			err = refusal.Errorf("%w", p)
		default:
			panic(p)
		}
	}()
	return share.Guard(f)
}

// eachWorker runs work as every worker of this process. Several workers are goroutines, each with its own
// team and memory. A worker that holds several partitions runs work as each of them.
func (j *Job) eachWorker(s *shared, work func(*kernel.Team, *comm.Comm, *partition.Share) error) error {
	n, threads := s.Workers, j.Threads(s.Resolved)
	one := func(rank int, c *comm.Comm, mem *tensor.Meter) error {
		return s.open(s.Mesh.Place(rank).Partition, func(share *partition.Share) error {
			team := kernel.NewTeam(threads, mem)
			team.Watch = j.Watch
			return work(team, c, share)
		})
	}
	if s.TakesTurns() {
		return j.inTurns(s, one)
	}
	if c := j.peers(); n == 1 || c.Size() > 1 {
		mem := tensor.NewMeter()
		defer mem.Close()
		ranks := j.ranks()
		return ranks.Run(func() error { return one(ranks.Rank(), c, mem) })
	}
	memories := make([]*tensor.Meter, n)
	for p := range memories {
		memories[p] = tensor.NewMeter()
		defer memories[p].Close() // after all are done: they copy from each other's memory
	}
	return launch.Workers(n, s.CommTimeout, func(c *comm.Comm) error {
		return one(c.Rank(), c, memories[c.Rank()])
	})
}

// inTurns runs one as every rank that the workers of this process hold.
func (j *Job) inTurns(s *shared, one func(rank int, c *comm.Comm, mem *tensor.Meter) error) (failed error) {
	links := []*comm.Comm{j.peers()} // of this process's workers to all
	if links[0].Size() != s.Workers {
		links = nil
		for _, end := range comm.InProcess(s.Workers) {
			links = append(links, comm.New(end, s.CommTimeout))
		}
	}
	holders, memories := s.Holders(), map[int]*tensor.Meter{}
	const files = 2 // of matrices, and of messages between workers
	disks := make([][files]*offload.File, len(links))
	for i := range disks {
		for k := range files {
			if s.Offload != "" && failed == nil {
				if disks[i][k], failed = offload.Open(s.Offload); failed == nil {
					defer func() { failed = errors.Join(failed, disks[i][k].Close()) }()
				}
			}
		}
	}
	if err := j.ranks().Together(failed); err != nil { // before a host waits for those of other processes
		return err
	}
	var hosts []*comm.Host
	for i, link := range links {
		mem := tensor.NewMeter()
		defer mem.Close()
		spool := &turns.Spool{
			Memory: mem, Room: turns.Room{Rests: true},
			Small: s.WireSchedule != (axis.WireSchedule{}),
		}
		if s.Rooms != nil {
			spool.Room = s.Rooms[link.Rank()]
		}
		host := comm.NewHost(link, holders, spool)
		memories[link.Rank()], hosts = mem, append(hosts, host)
		if s.Offload != "" {
			spool.Offload(host, disks[i][0], disks[i][1], s.Limit)
			defer spool.Messages.Close()
		}
	}
	return launch.Hosts(hosts, s.CommTimeout, func(c *comm.Comm) error {
		mem := memories[holders[c.Rank()]].Another()
		defer mem.Close()
		err := one(c.Rank(), c, mem)
		if err == nil {
			c.Meet() // others may be reading of this one's memory
		}
		return err
	})
}

// peers connects this process to the other workers, if there are any.
func (j *Job) peers() *comm.Comm { return cmp.Or(j.Comm, comm.Alone()) }

// ranks are the processes of the job, for steps that they make together.
func (j *Job) ranks() launch.Ranks { return launch.Ranks{Comm: j.peers()} }

// speaks reports whether the results of a rank are those of the job in this process.
func (j *Job) speaks(s *shared, c *comm.Comm) bool {
	if j.peers().Size() == 1 {
		return c.Rank() == 0
	}
	return c.Rank() == s.First(j.peers().Rank())
}

// Threads is the number of threads of each worker of the job with settings r. Workers that share the
// process's cores divide them.
func (j *Job) Threads(r *setting.Resolved) int {
	return cmp.Or(r.Threads, max(1, cores.Count()/cmp.Or(j.CoreSharers, j.LocalWorkers, r.Workers)))
}
