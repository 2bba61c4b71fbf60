package plan

import (
	"context"
	"errors"
	"fmt"
	"math"

	"weft/internal/refusal"
	"weft/parallel/axis"
	"weft/train/setting"
)

// Less names, for a message, what would need less memory on as many workers.
func (p *Plan) Less() (text string) {
	if p.fewer {
		text = fmt.Sprintf("--keep-edge-states %s, ", setting.AutoEdgeStates)
	}
	if !p.recomputes {
		text += fmt.Sprintf("--recompute %s, ", setting.RecomputeBlocks)
	}
	return text + "a smaller model"
}

// Resting is Less, preceded by partitions that take turns if the mesh has none.
func (p *Plan) Resting() string {
	if p.Stages != nil || p.Rests || p.Turns {
		return p.Less()
	}
	return p.resting("DIR", "on disk") + p.Less()
}

// Advice says which number of partitions that take turns a refusal for memory advises.
type Advice int

// The advice of a refusal.
const (
	AutoPartitions  Advice = iota // as many as weft train chooses
	TrainPartitions               // the same, by the command train in place of the refused one
	MorePartitions                // a number that the user gives, because no command chooses it
	NoPartitions                  // none, because no number suffices
)

// resting names where matrices of partitions that are not at work can rest, followed by a comma. It is empty
// if that is not advised.
func (p *Plan) resting(offload, where string) string {
	flags := fmt.Sprintf("--partitions %s --offload %s", setting.Auto, offload)
	switch p.Advice {
	case TrainPartitions:
		flags = fmt.Sprintf("weft train --parallel graph=%d %s", len(p.PeakTensorBytes), flags)
	case MorePartitions:
		flags = fmt.Sprintf("--offload %s and more --partitions", offload)
	case NoPartitions:
		return ""
	}
	return fmt.Sprintf("%s, by which partitions take turns and rest %s, ", flags, where)
}

// Exceeds says that a worker would need more memory than it may have, in bytes.
type Exceeds struct {
	error
	Need, Room int64
	plan       Plan
	limit      setting.Bytes
}

func (e Exceeds) Unwrap() error { return e.error }

// WithoutPartitions is the refusal for which no number of partitions suffices. It advises none.
func (e Exceeds) WithoutPartitions() error {
	e.plan.Advice = NoPartitions
	return e.plan.CheckLimit(e.limit)
}

// ExceedsHost says that more would rest in the host's memory than has room there. With more partitions no
// less rests, unless a worker then has room for all.
type ExceedsHost struct {
	error
	all, room int64 // Plan.All, and what a worker may have of its card; all 0: it is not known
}

func (e ExceedsHost) Unwrap() error { return e.error }

// Fewest is the smallest number of a worker's partitions that take turns that try does not refuse: first or a
// power of two times as many, up to most. It is 0 if there is none. It stops where more partitions cannot
// help: when anything but memory is the reason of the refusal. If try fails with an error that is no refusal,
// or ctx is cancelled, it returns that error.
func Fewest(ctx context.Context, first, most int, try func(each int) error) (each int, err error) {
	// What a worker needed with half as many partitions: with a part at rest, and with none.
	resting, all := int64(math.MaxInt64), int64(math.MaxInt64)
	for each := first; each <= most; each *= 2 {
		err := try(each)
		switch {
		case err == nil:
			return each, nil
		case !refusal.Is(err) || ctx.Err() != nil:
			return 0, err
		}
		var exceeds Exceeds
		var host ExceedsHost
		before := &resting
		switch {
		case errors.As(err, &exceeds):
		case errors.As(err, &host) && host.all > 0:
			before, exceeds = &all, Exceeds{Need: host.all, Room: host.room}
		default:
			return 0, nil
		}
		if exceeds.InVain(*before) || exceeds.Beyond(most/each) {
			return 0, nil
		}
		*before = exceeds.Need
	}
	return 0, nil
}

// InVain reports whether more partitions that take turns cannot help, given the bytes that a worker needed
// with half as many. One part of a worker's need does not depend on the number of partitions, and the other
// is halved each time. So as much is left to save as was saved last. InVain allows for twice that. A before
// of math.MaxInt64 says that nothing is known of fewer partitions.
func (e Exceeds) InVain(before int64) bool {
	return before < math.MaxInt64 && e.Need-2*(before-e.Need) > e.Room
}

// Beyond reports whether even times as many partitions that take turns do not suffice. A worker's need falls
// at best in proportion to them, as halos only grow. Beyond allows for twice that.
func (e Exceeds) Beyond(times int) bool { return e.Need/int64(max(1, times))/2 > e.Room }

// Most is the number of the worker that needs most memory for tensors and the graph, and how many bytes it
// needs.
func (p *Plan) Most() (worker int, bytes int64) {
	for i, tensors := range p.PeakTensorBytes {
		if all := tensors + p.GraphBytes[i]; all > bytes {
			worker, bytes = i, all
		}
	}
	return worker, bytes
}

// CheckLimit refuses a plan in which a worker exceeds the limit; 0: no limit. It names the worker that needs
// most. As a limit, the need that it names suffices.
func (p *Plan) CheckLimit(limit setting.Bytes) error {
	worker, need := p.Most()
	requested := limit
	if p.Cards != nil {
		limit = setting.Bytes(p.Cards.Bytes)
	}
	if limit == 0 && p.Cards == nil || need <= int64(limit) {
		return nil
	}
	needs := setting.Bytes(need).RoundedUp()
	if p.Cards != nil {
		at, raise := fmt.Sprintf("--device %s", p.Cards.Device), ""
		if requested > 0 && p.Cards.Bytes < p.Cards.Free {
			at = fmt.Sprintf("--memory-limit %s", requested)
			if need <= p.Cards.Free {
				all := setting.Bytes(need) * (requested / limit) // the need of all workers on a card
				raise = fmt.Sprintf("raise the limit to %s, ", all.RoundedUp())
			}
		}
		try := p.Less()
		if p.halves {
			try = "--precision bf16, " + try
		}
		switch {
		case p.Rests && !p.Turns:
			try = "more --chunks"
		case p.Rests:
			try = "another number of --partitions"
		case p.Turns:
			try = "--offload " + setting.RAM + ", by which matrices rest in the host's memory"
		case p.Stages == nil:
			try = p.resting(setting.RAM, "in the host's memory") + try
		default:
			try = fmt.Sprintf("--offload %s and --chunk-order %s, by which matrices rest in the host's memory",
				setting.RAM, axis.Fixed)
		}
		return Exceeds{
			refusal.Errorf("%s: worker %d would need %s of the card, and may have %s; %stry %s, or "+
				"--device %s", at, worker, needs, limit.Rounded(), raise, try, setting.CPU), need,
			int64(limit), *p, requested,
		}
	}
	during, try := "", p.Less()+" or more workers"
	switch {
	case p.Rests:
		during, try = " while a partition is at work", "another number of --partitions"
	case p.Turns:
		try = "--offload DIR, by which matrices rest on disk"
	case p.Stages == nil:
		try = p.resting("DIR", "on disk") + try
	}
	return Exceeds{refusal.Errorf("--memory-limit %s: worker %d would need %s%s (tensors %s, graph %s); "+
		"raise the limit to %s, or try %s", limit, worker, needs, during,
		setting.Bytes(p.PeakTensorBytes[worker]).Rounded(), setting.Bytes(p.GraphBytes[worker]).Rounded(),
		needs, try), need, int64(limit), *p, requested}
}

// CheckHost refuses a plan of which more rests in a machine's memory than the limit; 0: no limit. here is as
// in HostBytes.
func (p *Plan) CheckHost(limit setting.Bytes, here int) error {
	if needs := setting.Bytes(p.HostBytes(here)); limit > 0 && needs > limit {
		messages, less := "", ""
		if all := p.MessageBytes() + p.WaitingBytes(); all > 0 {
			messages = fmt.Sprintf(", %d %% of that messages", 100*all/p.HostBytes(0))
		}
		if p.DiskBytes() > 0 {
			less = ", or raise --memory-limit, so that less rests"
		}
		return p.exceedsHost(refusal.Errorf("--host-memory-limit %s: %s would rest in the host's memory%s; raise the "+
			"limit to that%s", limit, needs.RoundedUp(), messages, less))
	}
	return nil
}

// CheckMachine refuses a plan of which more rests than a machine has memory, in bytes; 0: unknown. here is as
// in HostBytes.
func (p *Plan) CheckMachine(memory float64, here int) error {
	if needs := p.HostBytes(here); memory > 0 && float64(needs) > memory {
		return p.exceedsHost(refusal.Errorf("%s would rest in the host's memory of a machine, which has %s; take more "+
			"machines", setting.Bytes(needs).RoundedUp(), setting.Bytes(memory).Rounded()))
	}
	return nil
}

func (p *Plan) exceedsHost(err error) error {
	if p.Cards == nil {
		return err
	}
	return ExceedsHost{err, p.All, p.Cards.Bytes}
}
