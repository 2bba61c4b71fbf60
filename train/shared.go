package train

import (
	"cmp"
	"errors"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/parallel/exchange"
	"weft/parallel/turns"
	"weft/partition"
	"weft/tensor"
	"weft/tensor/offload"
	"weft/train/setting"
	"weft/train/worker"
)

// shared is what the workers of a job share: their configuration, and how to open their shares.
type shared struct {
	worker.Config
	whole    *partition.Whole
	Limit    int64           // of a plan: the memory from which on matrices rest
	Reserves []turns.Reserve // of a plan: for messages between workers, by worker; nil: as many rest as can
	Rests    []int64         // of a plan: the bytes that rest at the peak, by worker
	// open opens the share of a partition for use. Opening reads its arrays and allocates tensors.
	open func(p int, use func(*partition.Share) error) error
	// validate is what the workers share of the graph on which the model is validated; nil: it is the same
	// graph.
	validate *shared
	dataset  string // the graph's name in errors, if it is the validation graph
}

// set changes the settings.
func (s *shared) set(change func(*setting.Options)) {
	changed := *s.Resolved
	change(&changed.Options)
	s.Resolved = &changed
	if s.validate != nil {
		s.validate.set(change)
	}
}

// validation opens what the worker of a partition needs of the graph on which the model is validated: nil if
// that is the same graph.
func (s *shared) validation(p int, use func(*worker.Validation) error) error {
	if s.validate == nil {
		return use(nil)
	}
	return s.validate.open(p, func(share *partition.Share) error {
		return use(&worker.Validation{Config: s.validate.Config, Share: share, Dataset: s.validate.dataset})
	})
}

// opener opens what a worker reads of its share, for a graph with one partition.
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
		if n := share.Edges.Partitions(); n != k {
			return refusal.Errorf("a job on a mesh of %d partitions, whose parts are %d: the numbers must "+
				"be equal", k, n)
		}
		j.arrange(share)
		return j.guarded(share, func() error { return use(share) })
	}
}

// guarded runs f, and turns failures from outside the program into errors: refused memory, truncated files,
// failing workers, and wrong shapes in the caller's model or loss.
func (j *Job) guarded(share *partition.Share, f func() error) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case tensor.OutOfMemory:
			err = p
		case exchange.Failure:
			err = p.Err
		case tensor.DiskFailure:
			err = p
		case tensor.DeviceFailure:
			err = p
		case tensor.Mismatch:
			if j.Model == nil && j.Loss == nil {
				panic(p)
			}
			err = refusal.Errorf("%w", p)
		default:
			panic(p)
		}
		var disk tensor.DiskFailure // or a failure of the disk beside the worker's work
		var card tensor.DeviceFailure
		switch {
		case errors.As(err, &disk):
			err = disk.Err
		case errors.As(err, &card):
			err = AboutDevice(j.Options.Device, card.Err)
		}
	}()
	return share.Guard(f)
}

// eachWorker runs work as every worker of this process. Several workers are goroutines, each with its own
// team and memory. A worker that holds several partitions runs work once for each.
func (j *Job) eachWorker(s *shared,
	work func(*kernel.Team, *comm.Comm, *partition.Share) error,
) (failed error) {
	n, threads := s.Workers, j.Threads(s.Resolved)
	runRank := func(rank int, c *comm.Comm, at *seat) error {
		return s.open(s.PartitionOf(rank), func(share *partition.Share) error {
			team := at.team(threads)
			team.Watch, team.Waits = j.Watch, j.Watch != nil
			if j.Timing != nil {
				team.Watch, team.Waits = team.Timing(j.Timing), false
			}
			return work(team, c, share)
		})
	}
	if s.TakesTurns() {
		return j.inTurns(s, runRank)
	}
	c, ranks := j.peers(), j.ranks()
	if n > 1 && c.Size() > 1 {
		n = 1 // the workers of this process
	}
	seats, end, err := s.seats(ranks.Rank(), n)
	// This runs after all are done, as they copy from each other's memory. On a failed card, it fails, too.
	defer func() { failed = cmp.Or(failed, end()) }()
	if err != nil {
		return err
	}
	if s.Offload != "" {
		for i, at := range seats {
			if err := at.memory.OffloadToHost(s.Rests[ranks.Rank()+i], s.Limit); err != nil {
				return AboutDevice(s.Device, err)
			}
		}
	}
	if s.DeviceMessages && CheckMessages(c) == nil { // a prediction may run without MPI
		seats[0].memory.DirectMessages()
		if err := c.Device().UseDevice(seats[0].card.MakeCurrent); err != nil {
			return err
		}
	}
	if n == 1 {
		return ranks.Run(func() error { return runRank(ranks.Rank(), c, seats[0]) })
	}
	return launch.Workers(n, s.CommTimeout, func(c *comm.Comm) error {
		return runRank(c.Rank(), c, seats[c.Rank()])
	})
}

// inTurns calls runRank as every rank that the workers of this process hold.
func (j *Job) inTurns(s *shared,
	runRank func(rank int, c *comm.Comm, at *seat) error,
) (failed error) {
	links := []*comm.Comm{j.peers()} // links of this process's workers to all others
	if links[0].Size() != s.Workers {
		links = nil
		for _, end := range comm.InProcess(s.Workers) {
			links = append(links, comm.New(end, s.CommTimeout))
		}
	}
	holders := s.Holders()
	const files = 2 // two files: for matrices, and for messages between workers
	disks := make([][files]*offload.File, len(links))
	for i := range disks {
		for k := range files {
			if folder := s.OffloadFolder(); folder != "" && failed == nil {
				disks[i][k], failed = offload.Open(folder)
				if failed == nil {
					defer func() { failed = errors.Join(failed, disks[i][k].Close()) }()
				}
			}
		}
	}
	if err := j.ranks().Together(failed); err != nil { // before a worker waits for other processes
		return err
	}
	seats, end, err := s.seats(j.peers().Rank(), len(links))
	defer func() { failed = cmp.Or(failed, end()) }()
	if err != nil {
		return err
	}
	at := map[int]*seat{} // by rank
	var shared []*comm.SharedWorker
	for i, link := range links {
		mem := seats[i].memory
		spool := &turns.Spool{
			Memory: mem, Reserve: turns.Reserve{Rests: true},
		}
		if s.Reserves != nil {
			spool.Reserve = s.Reserves[link.Rank()]
		}
		w := comm.NewSharedWorker(link, holders, spool)
		for rank, holder := range holders {
			if holder == link.Rank() {
				local := *seats[i]
				local.memory = mem.Another()
				defer local.memory.Close() // when all have ended, as they read each other's memory
				at[rank] = &local
			}
		}
		shared = append(shared, w)
		switch {
		case s.OffloadFolder() != "":
			spool.Offload(w, disks[i][0], disks[i][1], s.Limit)
		case s.Offload != "":
			err := spool.OffloadToHost(w, s.Rests[link.Rank()], s.Limit)
			if err != nil {
				return AboutDevice(s.Device, err)
			}
		}
		if spool.Messages != nil {
			defer spool.Messages.Close()
		}
	}
	return launch.SharedWorkers(shared, s.CommTimeout, func(c *comm.Comm) error {
		return runRank(c.Rank(), c, at[c.Rank()])
	})
}

// isReporter reports whether a rank returns the job's results in this process.
func (j *Job) isReporter(s *shared, c *comm.Comm) bool {
	if j.peers().Size() == 1 {
		return c.Rank() == 0
	}
	return c.Rank() == s.First(j.peers().Rank())
}
