package plan

import (
	"cmp"
	"context"
	"slices"

	"weft/comm"
	"weft/comm/launch"
	"weft/internal/refusal"
	"weft/parallel/turns"
	"weft/tensor"
	"weft/train/setting"
	"weft/train/worker"
)

// own plans for the workers of this process, one after the other.
func (in *Inputs) own(ctx context.Context) ([]Worker, error) {
	if in.Comm.Size() > 1 {
		local, err := in.worker(ctx, in.Comm.Rank())
		return []Worker{local}, err
	}
	first, err := in.worker(ctx, 0)
	if err != nil {
		return nil, err
	}
	by, err := in.represent(&first)
	if err != nil {
		return nil, err
	}
	planned := 0
	for number, representative := range by {
		if number == representative {
			planned++
		}
	}
	if steps := planned * first.Counts.Steps(); in.MostSteps > 0 && steps > in.MostSteps {
		return nil, TooManySteps(steps, in.MostSteps)
	}
	workers := make([]Worker, in.Workers)
	workers[0] = first
	for number, representative := range by {
		if number == representative && number > 0 {
			if workers[number], err = in.worker(ctx, number); err != nil {
				return nil, err
			}
		}
	}
	for number, representative := range by {
		workers[number].Like = representative
	}
	copyPlanned(workers)
	in.setLinks(workers)
	return workers, nil
}

// setLinks sets the embeddings that represented workers send: they depend on the workers' own edges.
func (in *Inputs) setLinks(workers []Worker) {
	if !in.Fetches.Known() || in.TakesTurns() {
		return
	}
	for number := range workers {
		if w := &workers[number]; w.Like != number {
			sent := in.Fetches.Sent(number)
			w.Sent.Links, w.Counts.Traffic[comm.Links] = worker.Traffic(sent), sent
		}
	}
}

// TooManySteps refuses a plan of steps steps if fewer are left.
func TooManySteps(steps, left int) error {
	return refusal.Errorf("an epoch has about %d kernel calls and starts and ends of messages, and "+
		"%d are left of those that are planned for all meshes; take fewer workers or chunks", steps, left)
}

// worker plans a worker.
func (in *Inputs) worker(ctx context.Context, number int) (planned Worker, err error) {
	if in.TakesTurns() {
		planned, err = in.inTurns(ctx, number)
	} else {
		mem := in.meter()
		defer mem.Close()
		if in.Offload != "" {
			mem.Offload(nil, int64(in.MemoryLimit))
		}
		planned, err = in.rank(ctx, comm.New(comm.Plan(ctx, number, in.Workers), 0), mem)
	}
	if err != nil {
		return planned, cmp.Or(context.Cause(ctx), err) // a message of the plan may say why ctx was cancelled
	}
	planned.Like = number
	return planned, nil
}

// meter makes the memory of a planned worker.
func (in *Inputs) meter() *tensor.Meter {
	mem := tensor.NewMeter()
	mem.Plan()
	if in.Cards != nil {
		_ = mem.On(nil, in.Cards.Bytes) // a plan asks no card for memory
		mem.LargerMessages(in.Asks.LargerBy)
		if in.DeviceMessages {
			mem.DirectMessages()
		}
	}
	return mem
}

// inTurns plans a worker that holds several ranks.
//
// Rows of scored edges, and their gradients, come from other workers and go there at any time, in addition to
// what the plan takes. All may be there at a time. If matrices rest and a worker has no room for all rows,
// the rows rest too. They are in memory while a rank sends some, while a link copies some each way, and while
// the rank at work receives some. Small messages stay in memory.
func (in *Inputs) inTurns(ctx context.Context, number int) (all Worker, err error) {
	all, host, err := in.within(ctx, number, turns.Reserve{})
	queued, stay, rest := host.Queued()
	if queued == 0 || err != nil {
		return all, err
	}
	if in.Offload == "" {
		all.Tensors += queued
		return all, nil
	}
	reserves := []turns.Reserve{{Bytes: queued}}
	atOnce := 2*(in.Workers-1) + 2
	if less := stay + int64(atOnce)*host.Largest(); less < queued && in.Offload != setting.RAM {
		reserves = append(reserves, turns.Reserve{Bytes: less, Rests: true})
	}
	for _, reserve := range reserves {
		all, _, err = in.within(ctx, number, reserve)
		if reserve.Rests {
			all.DiskBytes += rest
		}
		if err != nil || all.Tensors+all.Graph <= int64(in.MemoryLimit) {
			break
		}
	}
	return all, err
}

// within plans a worker that holds several ranks. If matrices may rest, it reserves memory for messages of
// other workers.
func (in *Inputs) within(ctx context.Context, number int,
	reserve turns.Reserve,
) (all Worker, host *comm.SharedWorker, err error) {
	mem := in.meter()
	holders := in.Holders()
	defer mem.Close()
	spool := &turns.Spool{
		Memory: mem, Reserve: reserve,
		Plan: true,
	}
	host = comm.PlanSharedWorker(number, holders, spool)
	if in.Offload != "" {
		spool.Offload(host, nil, nil, int64(in.MemoryLimit))
	}
	ranks := make([]Worker, len(holders))
	err = launch.SharedWorkers([]*comm.SharedWorker{host}, 0, func(c *comm.Comm) (err error) {
		rankMem := mem.Another()
		defer rankMem.Close()
		if ranks[c.Rank()], err = in.rank(ctx, c, rankMem); err == nil {
			c.LocalBarrier() // other ranks may be reading this rank's memory
		}
		return err
	})
	first := in.First(number)
	all = ranks[first]
	all.Rows, all.Edges = nil, nil // the worker has several partitions
	for rank, worker := range holders {
		if worker == number && rank > first {
			all.add(&ranks[rank])
		}
	}
	all.Reserve = reserve
	return all, host, err
}

// add adds a rank of the same worker. The worker's memory is the memory of all its ranks.
func (p *Worker) add(rank *Worker) {
	p.Tensors, p.Graph = max(p.Tensors, rank.Tensors), max(p.Graph, rank.Graph)
	p.Sent = worker.SumOf([]worker.Communication{p.Sent, rank.Sent})
	p.EdgeColumns, p.LayoutBytes = p.EdgeColumns.Plus(rank.EdgeColumns), p.LayoutBytes.Plus(rank.LayoutBytes)
	p.Reading.Reads = p.Reading.Reads || rank.Reading.Reads
	p.Work = sumOf(p.Work, rank.Work)
	p.Checkpoint += rank.Checkpoint
	p.Counts.add(&rank.Counts)
	p.Disk = p.Disk.Plus(rank.Disk)
	p.DiskBytes, p.Messages = max(p.DiskBytes, rank.DiskBytes), max(p.Messages, rank.Messages)
}

// sumOf returns the sums of two workers' work.
func sumOf(some, more []LayerWork) []LayerWork {
	sum := slices.Clone(some)
	for k, b := range more {
		sum[k] = sum[k].Plus(b)
	}
	return sum
}
