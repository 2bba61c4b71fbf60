package plan

import (
	"math"
	"slices"

	"weft/comm"
	"weft/train/worker"
)

// Extrapolate returns the plan of a larger graph from the plans a and b of two smaller graphs with the same
// degree, halo and settings. What grows with the graph grows in proportion, as from a to b. Its vertices are
// those of a, plus at times the difference between b's and a's. The plan has Tensors, Graph, Kinds, Rows,
// Edges, Sent, Counts, Checkpoint and the numbers that do not grow.
//
// There are as many kernel calls and messages as in b: their rows grow with the graph, and their number does
// not. Messages between slices on a CPU have a largest size, so their number grows, and so does the number of
// kernel calls that make them.
func Extrapolate(a, b *Plan, at float64) Plan {
	p := *b
	whole := line{at: at}.whole
	p.PeakTensorBytes, p.GraphBytes, p.Sent, p.EdgeColumns = nil, nil, nil, nil
	p.Workers = slices.Clone(b.Workers)
	for i, w := range b.Workers {
		if w.Like != i {
			continue
		}
		from := &a.Workers[i]
		growth := line{at: at, more: b.Cards == nil && w.Sent.Layout.Messages > 0}
		w.Tensors, w.Graph = whole(from.Tensors, w.Tensors), whole(from.Graph, w.Graph)
		w.Checkpoint, w.Messages = whole(from.Checkpoint, w.Checkpoint), whole(from.Messages, w.Messages)
		w.Kinds, w.Rows, w.Edges = slices.Clone(w.Kinds), slices.Clone(w.Rows), slices.Clone(w.Edges)
		for k := range w.Kinds {
			w.Kinds[k] = whole(from.Kinds[k], w.Kinds[k])
		}
		for k := range w.Rows {
			w.Rows[k] = int(whole(int64(from.Rows[k]), int64(w.Rows[k])))
		}
		for k := range w.Edges {
			w.Edges[k] = int(whole(int64(from.Edges[k]), int64(w.Edges[k])))
		}
		w.Costs = slices.Clone(w.Costs)
		for k := range w.Costs {
			w.Costs[k] = line{at: at}.value(from.Costs[k], w.Costs[k])
		}
		w.Sent = growth.communication(&from.Sent, &w.Sent)
		w.Counts = growth.counts(&from.Counts, &w.Counts)
		p.Workers[i] = w
	}
	copyPlanned(p.Workers)
	for i := range p.Workers {
		w := &p.Workers[i]
		p.PeakTensorBytes, p.GraphBytes = append(p.PeakTensorBytes, w.Tensors), append(p.GraphBytes, w.Graph)
		p.Sent = append(p.Sent, w.Sent)
	}
	return p
}

// Resting returns the plan of a graph of which a part rests, from three other plans. all is the plan of the
// graph where nothing rests. small is the same of a graph that is times smaller. rests is of the smaller
// graph, of which as large a part rests.
func Resting(all, small, rests *Plan, times float64) Plan {
	p := *rests
	more := func(bytes int64) int64 { return line{at: times}.whole(0, bytes) }
	scale := func(all, before, after int64) int64 {
		return int64(float64(all) * float64(after) / float64(max(1, before)))
	}
	p.PeakTensorBytes, p.GraphBytes, p.Sent, p.EdgeColumns = nil, nil, all.Sent, all.EdgeColumns
	p.Workers = slices.Clone(all.Workers)
	for i := range p.Workers {
		w, before, after := &p.Workers[i], &small.Workers[i], &rests.Workers[i]
		// the limit is of both
		both := scale(w.Tensors+w.Graph, before.Tensors+before.Graph, after.Tensors+after.Graph)
		w.Graph = min(both, scale(w.Graph, before.Graph, after.Graph))
		w.Tensors = both - w.Graph
		w.Disk.Written, w.Disk.Read = more(after.Disk.Written), more(after.Disk.Read)
		w.DiskBytes, w.Messages = more(after.DiskBytes), more(after.Messages)
		w.Reserve.Bytes = more(after.Reserve.Bytes)
		p.PeakTensorBytes, p.GraphBytes = append(p.PeakTensorBytes, w.Tensors), append(p.GraphBytes, w.Graph)
	}
	return p
}

// MoreChunks returns the plan of a pipeline with more chunks from the plans a and b with fewer chunks. The
// numbers of chunks, and of kernel calls and messages in Counts, grow as from a to b. All else hardly
// changes, and is taken from b. at is as in Extrapolate.
func MoreChunks(a, b *Plan, at float64) Plan {
	p, whole := *b, line{at: at}.whole
	p.Workers = slices.Clone(b.Workers)
	for i := range p.Workers {
		w := &p.Workers[i]
		if w.Like != i {
			continue
		}
		from := &a.Workers[i].Counts
		w.Chunks.Each = int(whole(int64(a.Workers[i].Chunks.Each), int64(w.Chunks.Each)))
		w.Counts.Kernels = Kernels{}
		for k, its := range b.Workers[i].Counts.Kernels {
			its.Number = int(whole(int64(from.Kernels[k].Number), int64(its.Number)))
			w.Counts.Kernels[k] = its
		}
		for k := range w.Counts.Traffic {
			messages := &w.Counts.Traffic[k].Messages
			*messages = whole(from.Traffic[k].Messages, *messages)
		}
	}
	copyPlanned(p.Workers)
	return p
}

// line is the line through a value at 0 and a value at 1.
type line struct {
	at   float64
	more bool // numbers of calls and messages are on the line, too; otherwise they are those at 1
}

// value is the value of the line at l.at, and not below zero.
func (l line) value(a, b float64) float64 { return max(0, a+l.at*(b-a)) }

func (l line) whole(a, b int64) int64 { return int64(math.Round(l.value(float64(a), float64(b)))) }

func (l line) number(a, b int64) int64 {
	if l.more {
		return l.whole(a, b)
	}
	return b
}

func (l line) communication(a, b *worker.Communication) worker.Communication {
	traffic := func(a, b worker.Traffic) worker.Traffic {
		return worker.Traffic{Bytes: l.whole(a.Bytes, b.Bytes), Messages: l.number(a.Messages, b.Messages)}
	}
	return worker.Communication{
		Halo: traffic(a.Halo, b.Halo), Layout: traffic(a.Layout, b.Layout), Stage: traffic(a.Stage, b.Stage),
		Gradient: traffic(a.Gradient, b.Gradient), Links: traffic(a.Links, b.Links),
		Statistics: traffic(a.Statistics, b.Statistics),
	}
}

func (l line) counts(a, b *Counts) Counts {
	c := Counts{
		Kernels: Kernels{}, Rows: int(l.whole(int64(a.Rows), int64(b.Rows))),
		Edges: l.whole(a.Edges, b.Edges), Remote: l.whole(a.Remote, b.Remote),
	}
	for k, calls := range b.Kernels {
		from := a.Kernels[k]
		c.Kernels[k] = Calls{
			int(l.number(int64(from.Number), int64(calls.Number))), l.value(from.Work, calls.Work),
			l.value(from.Bytes, calls.Bytes), l.value(from.Operations, calls.Operations),
		}
	}
	for k := range c.Traffic {
		c.Traffic[k] = comm.Traffic{
			Bytes:    l.whole(a.Traffic[k].Bytes, b.Traffic[k].Bytes),
			Messages: l.number(a.Traffic[k].Messages, b.Traffic[k].Messages),
		}
	}
	return c
}
