package train

import (
	"cmp"
	"context"

	"weft/comm"
	"weft/internal/cores"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/parallel/mesh"
	"weft/partition"
	"weft/tensor"
)

// Parts are a graph's partitions, of which each worker opens its own.
type Parts struct {
	Whole partition.Whole
	Open  func(p int) (*partition.Share, error)
}

// parts are the graph's partitions, cut now if nobody has done so.
func (j *Job) parts(ctx context.Context, n int) (*Parts, error) {
	if j.Parts != nil {
		return j.Parts, nil
	}
	if err := j.Graph.CheckMade(); err != nil {
		return nil, err
	}
	a, err := partition.Assign(ctx, j.Graph, j.Options.Assignment(n))
	if err != nil {
		return nil, err
	}
	shares, err := partition.Split(j.Graph, a)
	if err != nil {
		return nil, err
	}
	j.Parts = &Parts{Whole: shares[0].Whole, Open: func(p int) (*partition.Share, error) { return shares[p], nil }}
	return j.Parts, nil
}

// Assignment is how the graph is divided into so many partitions where none are stored.
func (o *Options) Assignment(k int) partition.Options {
	method := o.Partition
	if method == autoPartition {
		method = partition.Metis
	}
	return partition.Options{K: k, Method: method, Seed: o.Seed, Split: o.Split, Timeout: o.CommTimeout}
}

// eachWorker runs work as every worker of this process: as a goroutine for each of several, with a team and a
// memory of its own.
func (j *Job) eachWorker(ctx context.Context, work func(*kernel.Team, *comm.Comm, *partition.Share) error) error {
	n, open, err := j.shares(ctx)
	if err != nil {
		return err
	}
	one := func(p int, c *comm.Comm, mem *tensor.Meter) error {
		return open(p, func(s *partition.Share) error {
			team := kernel.NewTeam(j.threads(), mem)
			team.Uncut, team.Watch = j.uncut, j.Watch
			return work(team, c, s)
		})
	}
	if c := j.peers(); n == 1 || c.Size() > 1 {
		mem := tensor.NewMeter()
		defer mem.Close()
		ranks := launch.Ranks{Comm: c}
		return ranks.Run(func() error { return one(ranks.Rank(), c, mem) })
	}
	memories := make([]*tensor.Meter, n)
	for p := range memories {
		memories[p] = tensor.NewMeter()
		defer memories[p].Close() // not before all are done: they copy from each other's memory
	}
	return launch.Workers(n, j.Options.CommTimeout, func(c *comm.Comm) error { return one(c.Rank(), c, memories[c.Rank()]) })
}

// peers connects this process to those that are the other workers, where there are any.
func (j *Job) peers() *comm.Comm { return cmp.Or(j.Comm, comm.Alone()) }

// speaks reports whether the results of a worker are those of the job in this process.
func (j *Job) speaks(c *comm.Comm) bool { return c.Rank() == 0 || j.peers().Size() > 1 }

// mesh is the job's own, or the one that the options describe.
func (j *Job) mesh() (grid mesh.Mesh, err error) {
	if grid = j.Mesh; grid == (mesh.Mesh{}) {
		grid, err = j.Options.Mesh()
	}
	if c := j.peers(); err == nil && c.Size() > 1 && c.Size() != grid.Workers() {
		err = refusal.Errorf("a job on a mesh of %d workers, whose Comm connects %d: the numbers must be equal", grid.Workers(), c.Size())
	}
	return grid, err
}

// shares checks the job. It returns the number of workers, and a function that opens the share of one of them
// for use, which reads its arrays and allocates tensors.
func (j *Job) shares(ctx context.Context) (n int, open func(rank int, use func(*partition.Share) error) error, err error) {
	if err := j.Options.check(); err != nil {
		return 0, nil, err
	}
	grid, err := j.mesh()
	if err != nil {
		return 0, nil, err
	}
	if err := j.Options.checkMesh(grid); err != nil {
		return 0, nil, err
	}
	if j.Graph == nil && (j.Parts == nil || grid.Partitions == 1) {
		return 0, nil, refusal.Errorf("a job has neither a graph nor, for several partitions, parts")
	}
	passes := j.Options.draw().Passes
	if grid.Partitions == 1 {
		j.kept = partition.Keep(1, nil, passes)
		share := partition.All(j.Graph)
		if err := j.Options.checkTypes(grid, &share.Whole); err != nil {
			return 0, nil, err
		}
		open = func(_ int, use func(*partition.Share) error) error {
			return guarded(share, func() error {
				if err := j.Graph.CheckMade(); err != nil {
					return err
				}
				return use(share)
			})
		}
		return grid.Workers(), open, j.divide(ctx, grid, open)
	}
	parts, err := j.parts(ctx, grid.Partitions)
	if err != nil {
		return 0, nil, err
	}
	j.kept = partition.Keep(grid.Partitions, parts.Open, passes)
	if err := j.Options.checkTypes(grid, &parts.Whole); err != nil {
		return 0, nil, err
	}
	open = func(rank int, use func(*partition.Share) error) error {
		share, err := parts.Open(grid.Place(rank).Partition)
		if err != nil {
			return err
		}
		defer share.Close()
		if k := len(share.Edges.Starts) - 1; k != grid.Partitions {
			return refusal.Errorf("a job on a mesh of %d partitions, whose parts are %d: the numbers must be equal", grid.Partitions, k)
		}
		return guarded(share, func() error { return use(share) })
	}
	return grid.Workers(), open, j.divide(ctx, grid, open)
}

// guarded runs f, and turns what can go wrong outside the program into errors: memory that is refused, files
// that are cut, other workers that fail.
func guarded(share *partition.Share, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case tensor.OutOfMemory:
			err = p
		case exchange.Failure:
			err = p.Err
		default:
			panic(p)
		}
	}()
	return share.Guard(f)
}

// threads is the number of threads of a worker: the cores that the process may use are divided among the
// workers that share them.
func (j *Job) threads() int {
	o := &j.Options
	if o.Threads > 0 {
		return o.Threads
	}
	grid, _ := j.mesh() // of a job whose options are valid
	return max(1, cores.Count()/cmp.Or(j.CoreSharers, j.LocalWorkers, grid.Workers()))
}
