package planner

import (
	"slices"

	"weft/internal/trace"
)

// Steady is Replay for an epoch among others: messages that it starts and does not wait for are those that
// the next epoch waits for, as with a late halo.
func Steady(steps [][]trace.Event, m Machine, seconds Seconds) (work []Work, end float64, err error) {
	before := waitedBefore(steps)
	if len(before) == 0 {
		return Replay(steps, m, seconds)
	}
	// The first epoch waits for nothing of another. Its messages, of which the second waits, were started as
	// early as in any epoch; so the third takes as long as all later ones.
	const epochs = 3
	first, begun, err := Replay(repeated(steps, before, epochs-1), m, seconds)
	if err != nil {
		return nil, 0, err
	}
	if work, end, err = Replay(repeated(steps, before, epochs), m, seconds); err != nil {
		return nil, 0, err
	}
	for rank := range work {
		for i := range work[rank] {
			work[rank][i] -= first[rank][i]
		}
	}
	return work, end - begun, nil
}

// side is one end of a stream of messages.
type side struct {
	worker, peer int
	tag          int
	sends        bool
}

func sideOf(worker int, e *trace.Event) side {
	return side{worker, int(e.Args.Peer), e.Args.Tag, e.Category == trace.Send || e.Category == trace.Wait}
}

// waitedBefore maps, at each side of a stream, the messages of an epoch before that an epoch waits for to
// those that it starts in their place.
func waitedBefore(steps [][]trace.Event) map[side]map[trace.Index]trace.Index {
	started, waited := map[side][]trace.Index{}, map[side][]trace.Index{}
	for worker := range steps {
		for i := range steps[worker] {
			e := &steps[worker][i]
			switch e.Category {
			case trace.Send, trace.Start:
				started[sideOf(worker, e)] = append(started[sideOf(worker, e)], e.Args.Message)
			case trace.Receive, trace.Wait:
				if e.Args.Peer != 0 {
					waited[sideOf(worker, e)] = append(waited[sideOf(worker, e)], e.Args.Message)
				}
			}
		}
	}
	all := map[side]map[trace.Index]trace.Index{}
	for s, list := range waited {
		here := map[trace.Index]bool{}
		for _, number := range started[s] {
			here[number] = true
		}
		before := slices.DeleteFunc(slices.Clone(list), func(n trace.Index) bool { return here[n] })
		if len(before) == 0 {
			continue
		}
		ended := map[trace.Index]bool{}
		for _, number := range list {
			ended[number] = true
		}
		left := slices.DeleteFunc(slices.Clone(started[s]), func(n trace.Index) bool { return ended[n] })
		slices.Sort(before)
		slices.Sort(left)
		all[s] = map[trace.Index]trace.Index{}
		for i, number := range before[:min(len(before), len(left))] {
			all[s][number] = left[i]
		}
	}
	return all
}

// repeated is the steps of so many epochs.
func repeated(steps [][]trace.Event, before map[side]map[trace.Index]trace.Index,
	epochs int,
) [][]trace.Event {
	all := make([][]trace.Event, len(steps))
	apart, points := trace.Index(0), trace.Point(0) // by so much the numbers of two epochs differ
	for _, list := range steps {
		for i := range list {
			apart, points = max(apart, list[i].Args.Message+1), max(points, list[i].Args.Point+1)
		}
	}
	for worker := range steps {
		for epoch := range epochs {
			for _, e := range steps[worker] {
				if e.Category == trace.Receive || e.Category == trace.Wait {
					if number, late := before[sideOf(worker, &e)][e.Args.Message]; late {
						if epoch == 0 {
							continue
						}
						e.Args.Message = number - apart
					}
				}
				if e.Args.Point != 0 {
					e.Args.Point += points * trace.Point(epoch)
				}
				if e.Args.Peer != 0 {
					e.Args.Message += apart * trace.Index(epoch)
				}
				all[worker] = append(all[worker], e)
			}
		}
	}
	return all
}
