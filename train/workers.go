package train

import (
	"cmp"
	"errors"

	"weft/comm"
	"weft/comm/launch"
	"weft/kernel"
	"weft/parallel/turns"
	"weft/partition"
	"weft/tensor/offload"
)

// eachWorker runs work as every worker of this process. Several workers are goroutines, each with its own
// team and memory. A worker that holds several partitions runs work once for each.
func (s *session) eachWorker(work func(*kernel.Team, *comm.Comm, *partition.Share) error) (failed error) {
	j, n, threads := s.job, s.Workers, s.job.Threads(s.Resolved)
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
		return s.inTurns(runRank)
	}
	ranks := j.ranks()
	c := ranks.Comm
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
func (s *session) inTurns(runRank func(rank int, c *comm.Comm, at *seat) error) (failed error) {
	ranks := s.job.ranks()
	links := []*comm.Comm{ranks.Comm} // links of this process's workers to all others
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
	if err := ranks.Together(failed); err != nil { // before a worker waits for other processes
		return err
	}
	seats, end, err := s.seats(ranks.Rank(), len(links))
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
func (s *session) isReporter(c *comm.Comm) bool {
	ranks := s.job.ranks()
	if ranks.Comm.Size() == 1 {
		return c.Rank() == 0
	}
	return c.Rank() == s.First(ranks.Rank())
}
