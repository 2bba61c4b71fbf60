package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	"weft/comm"
	"weft/internal/cores"
	"weft/kernel"
	"weft/parallel/sar"
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
	if j.Graph == nil {
		return nil, errors.New("a job has neither a graph nor partitions")
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

// eachShare calls use with the share of every worker of this process, one after the other.
func (j *Job) eachShare(ctx context.Context, use func(*partition.Share) error) error {
	n, open, err := j.shares(ctx)
	if err != nil {
		return err
	}
	if c := j.peers(); c != nil {
		return open(c.Rank(), use)
	}
	for p := range n {
		if err := open(p, use); err != nil {
			return err
		}
	}
	return nil
}

// eachWorker runs work as every worker of this process: as a goroutine for each of several, with a team and a
// memory of its own.
func (j *Job) eachWorker(ctx context.Context, work func(*kernel.Team, *comm.Comm, *partition.Share) error) error {
	n, open, err := j.shares(ctx)
	if err != nil {
		return err
	}
	one := func(p int, c *comm.Comm, mem *tensor.Meter) error {
		err := open(p, func(s *partition.Share) error {
			team := kernel.NewTeam(j.threads(), mem)
			team.Uncut, team.Watch = j.uncut, j.Watch
			return work(team, c, s)
		})
		if c != nil {
			breakOff(c, err)
		}
		return err
	}
	if c := j.peers(); n == 1 || c != nil {
		mem := tensor.NewMeter()
		defer mem.Close()
		p := 0
		if c != nil {
			p = c.Rank()
		}
		return one(p, c, mem)
	}
	ends, errs, memories := comm.InProcess(n), make([]error, n), make([]*tensor.Meter, n)
	var all sync.WaitGroup
	for p := range n {
		memories[p] = tensor.NewMeter()
		c := comm.New(ends[p], j.Options.CommTimeout)
		all.Go(func() {
			defer func() {
				if fault := recover(); fault != nil { // it would end the program without a word to the user
					errs[p] = fmt.Errorf("internal error on worker %d: %v", p, fault)
					c.Abort(errs[p])
				}
			}()
			errs[p] = one(p, c, memories[p])
		})
	}
	all.Wait()
	for _, m := range memories { // not before all are done: they copy from each other's memory
		m.Close()
	}
	return cause(errs)
}

// peers connects this process to others, nil where there are none: one process that a launcher started is
// alone.
func (j *Job) peers() *comm.Comm {
	if j.Comm == nil || j.Comm.Size() == 1 {
		return nil
	}
	return j.Comm
}

// speaks reports whether the results of a worker are those of the job in this process.
func (j *Job) speaks(c *comm.Comm) bool { return c == nil || c.Rank() == 0 || j.Comm != nil }

// breakOff ends the connection of a worker that has failed, unless all have failed alike.
func breakOff(c *comm.Comm, err error) {
	if common := (*Common)(nil); err != nil && !errors.As(err, &common) {
		c.Abort(err)
	}
}

// cause is the error that the others follow from.
func cause(errs []error) (first error) {
	for _, err := range errs {
		if err != nil && (first == nil || errors.Is(first, comm.ErrAborted) && !errors.Is(err, comm.ErrAborted)) {
			first = err
		}
	}
	return first
}

// shares checks the job. It returns the number of partitions, and a function that opens the share of one of
// them for use, which reads its arrays and allocates tensors.
func (j *Job) shares(ctx context.Context) (n int, open func(p int, use func(*partition.Share) error) error, err error) {
	if err := j.Options.Validate(); err != nil {
		return 0, nil, err
	}
	mesh, err := j.Options.Mesh()
	if err != nil {
		return 0, nil, err
	}
	if mesh.Partitions == 1 {
		share := &partition.Share{Graph: j.Graph, Whole: partition.WholeOf(j.Graph)}
		return 1, func(_ int, use func(*partition.Share) error) error {
			return guarded(share, func() error {
				if err := j.Graph.CheckMade(); err != nil {
					return err
				}
				return use(share)
			})
		}, nil
	}
	parts, err := j.parts(ctx, mesh.Partitions)
	if err != nil {
		return 0, nil, err
	}
	return mesh.Partitions, func(p int, use func(*partition.Share) error) error {
		share, err := parts.Open(p)
		if err != nil {
			return err
		}
		defer share.Close()
		return guarded(share, func() error { return use(share) })
	}, nil
}

// guarded runs f, and turns what can go wrong outside the program into errors: memory that is refused, files
// that are cut, other workers that fail.
func guarded(share *partition.Share, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case tensor.OutOfMemory:
			err = fmt.Errorf("%w; see what the run needs with --explain", p)
		case sar.Failure:
			err = p.Err
		default:
			panic(p)
		}
	}()
	return share.Graph.Guard(f)
}

// threads is the number of threads of a worker: the cores that the process may use are divided among the
// workers that share them.
func (j *Job) threads() int {
	o := &j.Options
	if o.Threads > 0 {
		return o.Threads
	}
	all, _ := o.Workers() // of a job whose options are valid
	return max(1, cores.Count()/cmp.Or(j.CoreSharers, j.LocalWorkers, all))
}
