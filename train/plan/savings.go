package plan

import (
	"context"
	"math"

	"weft/kernel"
	"weft/train/setting"
	"weft/train/worker"
)

// save plans the workers of this process, with the first savings that meet a limit in bytes, or else with
// those that need the least memory. 0 is no limit.
func (p *Plan) save(ctx context.Context, in Inputs, limit int64) error {
	least, needs := int64(math.MaxInt64), int64(0)
	for _, in.Savings = range in.savings() {
		if in.savesNothing(needs) {
			continue
		}
		workers, err := in.own(ctx)
		if err != nil {
			return err
		}
		p.recomputes = p.recomputes || in.Savings.Recompute
		needs = most(workers)
		if needs <= least {
			least, p.Savings, p.Workers = needs, in.Savings, workers
		}
		if limit == 0 || needs <= limit {
			break
		}
	}
	return nil
}

// rest is save for matrices that may rest on disk. It finds Limit and, if Asks.Range is set, Least and All.
// If it fails on one process, it fails on all. A run that fits without a disk takes none: with a disk, slices
// of a partition would hold copies of its edges.
func (p *Plan) rest(ctx context.Context, in Inputs) error {
	limit := int64(in.MemoryLimit)
	memory := in.with(in.MemoryLimit, "")
	memory.Savings = in.savings()[0]
	workers, all, err := memory.known(ctx)
	if err != nil {
		return err
	}
	if in, err = in.limited(ctx); err != nil {
		return err
	}
	p.Limit = int64(in.MemoryLimit)
	needs := all
	if all <= p.Limit {
		p.InMemory, p.Savings, p.Workers = true, memory.Savings, workers
	} else {
		if err := in.ranks().Together(p.save(ctx, in, limit)); err != nil {
			return err
		}
		if needs, err = in.ranks().Largest(most(p.Workers)); err != nil {
			return err
		}
	}
	exceeds := needs > p.Limit
	if !exceeds && !in.Range {
		return nil
	}
	tight, needs, err := in.tightest(ctx)
	if err != nil {
		return err
	}
	without, needsWithout, err := memory.tightest(ctx)
	if err != nil {
		return err
	}
	inMemory := needsWithout < needs
	if inMemory {
		tight, needs = without, needsWithout
	}
	if exceeds {
		p.Limit, p.Savings, p.InMemory = least, tight.Savings, inMemory
		if p.Workers, _, err = tight.largest(ctx); err != nil {
			return err
		}
	}
	if in.Range {
		p.Least, p.All = needs, all
	}
	return nil
}

// least is a memory limit that every plan exceeds. What a plan takes nevertheless is the least.
const least = 1

// limited returns the inputs with a memory limit. If the settings have none, it is the least with which every
// worker can run.
func (in Inputs) limited(ctx context.Context) (Inputs, error) {
	unlimited := int64(0)
	if in.MemoryLimit == 0 {
		unlimited = 1
	}
	if some, err := in.ranks().Largest(unlimited); err != nil || some == 0 {
		return in, err
	}
	in.Savings = in.savings()[0]
	_, needs, err := in.with(least, in.Offload).largest(ctx)
	if in.MemoryLimit == 0 {
		in = in.with(setting.Bytes(needs), in.Offload)
	}
	return in, err
}

// tightest returns the inputs with which the workers need the least memory, and how much that is. All that
// may rest rests, if there is a disk.
func (in Inputs) tightest(ctx context.Context) (tight Inputs, needs int64, err error) {
	needs = math.MaxInt64
	memory := int64(0)
	for _, in.Savings = range in.savings() {
		if in.savesNothing(memory) {
			continue
		}
		resting := in.with(least, in.Offload)
		if _, memory, err = resting.largest(ctx); err != nil {
			return tight, 0, err
		}
		if memory < needs {
			tight, needs = resting, memory
		}
	}
	return tight, needs, nil
}

// with returns the inputs with another memory limit and another folder to offload to.
func (in Inputs) with(limit setting.Bytes, folder string) Inputs {
	settings := *in.Resolved
	settings.MemoryLimit, settings.Offload = limit, folder
	in.Resolved = &settings
	return in
}

// largest plans the workers of this process. memory is the largest memory of a worker of any process.
func (in Inputs) largest(ctx context.Context) (workers []Worker, memory int64, err error) {
	workers, err = in.own(ctx)
	if err := in.ranks().Together(err); err != nil {
		return nil, 0, err
	}
	memory, err = in.ranks().Largest(most(workers))
	return workers, memory, err
}

// known is largest for inputs without a disk, whose plan Asks.InMemory may be.
func (in Inputs) known(ctx context.Context) (workers []Worker, memory int64, err error) {
	if in.InMemory != nil && in.InMemory.EdgeStates == in.KeepEdgeStates {
		return in.InMemory.Workers, most(in.InMemory.Workers), nil
	}
	return in.largest(ctx)
}

// savings lists the savings that the settings allow, the fastest first.
func (in *Inputs) savings() (list []worker.Savings) {
	if in.Saving != nil {
		return []worker.Savings{*in.Saving}
	}
	for _, recompute := range in.Recomputes() {
		list = append(list, worker.Savings{Recompute: recompute},
			worker.Savings{Recompute: recompute, Untiled: true})
	}
	return list
}

// savesNothing reports whether the plan would equal the one before it in savings, where the workers need at
// most so many bytes: too few for a tiled matrix. A card tiles none.
func (in *Inputs) savesNothing(needed int64) bool {
	return in.Savings.Untiled && (needed < kernel.TiledFrom || in.Cards != nil)
}

// most is the largest memory of a worker, for tensors and graph.
func most(workers []Worker) (bytes int64) {
	for _, w := range workers {
		bytes = max(bytes, w.Tensors+w.Graph)
	}
	return bytes
}
