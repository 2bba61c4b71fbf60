package train

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"time"

	"weft/comm"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/tensor"
	"weft/train/engine"
)

// agree ends an epoch, which all workers do together: it adds up their parts of the loss, tells whether any
// of them is to stop, and makes sure that the replicas' parameters are still the same.
func (w *worker) agree(epoch int, part float64, stop bool) (loss float64, stopped bool, err error) {
	if w.team.Planning() {
		return part, stop, nil
	}
	const words = 3
	flag := 0.0
	if stop {
		flag = 1
	}
	all, err := comm.Gather(w.groups.World, comm.Statistics, part, flag, w.hash())
	if err != nil {
		return 0, false, err
	}
	hashes := make([]float64, w.groups.World.Size())
	for r := range hashes {
		theirs := all[r*words:]
		loss += theirs[0]
		stopped = stopped || theirs[1] != 0
		hashes[r] = theirs[2]
	}
	cause := "a fault of the program, or of this machine"
	if w.processes {
		cause = "the machines do not compute alike: set WEFT_SIMD to one level on all of them"
	}
	return loss, stopped, w.sameParameters(hashes, func(rank, first int) error {
		return fmt.Errorf("after epoch %d the parameters of worker %d differ from those of worker %d: %s", epoch, rank, first, cause)
	})
}

// sameParameters fails on all workers where the checksum of one is not that of the first of its stage, with
// what differ says of the lowest.
func (w *worker) sameParameters(hashes []float64, differ func(rank, first int) error) error {
	for rank, h := range hashes {
		if first := w.groups.Mesh.Rank(mesh.Place{Stage: w.groups.Mesh.Place(rank).Stage}); h != hashes[first] {
			return &Common{Err: differ(rank, first)}
		}
	}
	return nil
}

// loaded ends a step in which each worker has loaded weights from a file by itself, with err: it fails on all
// where it failed on any, or where the files are not the same.
func (w *worker) loaded(err error) error {
	if err := w.ranks().Together(err); err != nil {
		return err
	}
	hashes, err := comm.Gather(w.groups.World, comm.Setup, w.hash())
	if err != nil {
		return err
	}
	return w.sameParameters(hashes, func(rank, first int) error {
		return refusal.Weights.Errorf("worker %d has read other weights than worker %d: all machines need the same file", rank, first)
	})
}

// checkPart fails on all workers where the context of any is cancelled, or its part of a result is not
// finite.
func (w *worker) checkPart(ctx context.Context, part *tensor.Matrix) error {
	counts := []float64{0, 0}
	if ctx.Err() != nil {
		counts[0] = 1
	}
	if !tensor.Finite(part.Floats()) {
		counts[1] = 1
	}
	if err := sum(w.groups.World, counts); err != nil {
		return err
	}
	switch {
	case counts[0] > 0:
		return &Common{Err: context.Canceled}
	case counts[1] > 0:
		return &Common{Err: refusal.Weights.Of(fmt.Errorf("the weights give values that are not finite on this graph; "+
			"were they trained on such features, with the same %s?", refusal.Setting("normalize-features")))}
	}
	return nil
}

// Common is an error that all workers come to at the same point of their work. Their connection is still
// whole.
type Common = launch.Common

// ranks are the workers, for steps that all make together.
func (w *worker) ranks() launch.Ranks { return launch.Ranks{Comm: w.groups.World} }

// hash is a checksum of the parameters and buffers that all replicas hold, as workers tell each other.
func (w *worker) hash() float64 {
	h, table := uint32(0), crc32.MakeTable(crc32.Castagnoli)
	for _, p := range w.params.List {
		if p.Rows != nil {
			continue
		}
		h = crc32.Update(h, table, p.Value.Bytes())
	}
	for _, b := range w.params.Buffers {
		h = crc32.Update(h, table, comm.Bytes(b.Values))
	}
	return float64(h)
}

// gather is what each worker has, by rank.
func gather[T any](c *comm.Comm, mine T) ([]T, error) {
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	texts, err := comm.GatherLists(c, comm.Setup, text)
	all := make([]T, len(texts))
	for rank, text := range texts {
		if err == nil {
			err = json.Unmarshal(text, &all[rank])
		}
	}
	return all, err
}

// tally is what a worker has aggregated and sent, and how long it stood still.
type tally struct {
	EdgeColumns bySite
	LayoutBytes bySite // of Sent.Layout
	Sent        Communication
	Waited      time.Duration
	Seconds     float64 // that the pass took on this worker
}

// done is this worker's tally so far. A switch between layouts is one of all workers of a stage, of which the
// first counts it.
func (w *worker) done() tally {
	c := w.groups.World
	of := func(kinds ...comm.Kind) (sum Traffic) {
		for _, k := range kinds {
			sum.add(Traffic(c.Sent(k)))
		}
		return sum
	}
	layout := Traffic{Bytes: of(comm.ToSlices, comm.ToRows).Bytes}
	if w.groups.Replicas.Rank() == 0 {
		layout.Messages = w.switches
	}
	return tally{EdgeColumns: maps.Clone(w.edgeColumns), LayoutBytes: maps.Clone(w.layoutBytes), Waited: c.Waited(), Sent: Communication{
		Halo: of(comm.Halo, comm.HaloGradient), Layout: layout, Stage: of(comm.Stage),
		Gradient: of(comm.Gradient), Links: of(comm.Links), Statistics: of(comm.Statistics),
	}}
}

func (d tally) since(before tally) tally {
	for k, sent := range d.Sent.kinds() {
		earlier := before.Sent.kinds()[k]
		sent.add(Traffic{-earlier.Bytes, -earlier.Messages})
	}
	d.Waited -= before.Waited
	d.EdgeColumns, d.LayoutBytes = d.EdgeColumns.since(before.EdgeColumns), d.LayoutBytes.since(before.LayoutBytes)
	return d
}

func (t *Traffic) add(more Traffic) {
	t.Bytes += more.Bytes
	t.Messages += more.Messages
}

// kinds are the numbers of a Communication.
func (c *Communication) kinds() []*Traffic {
	return []*Traffic{&c.Halo, &c.Layout, &c.Stage, &c.Gradient, &c.Links, &c.Statistics}
}

// SumOf is what several workers have sent together.
func SumOf(sent []Communication) (all Communication) {
	for _, c := range sent {
		for k, t := range all.kinds() {
			t.add(*c.kinds()[k])
		}
	}
	return all
}

// report puts what each worker took, aggregated and sent into the result.
func (w *worker) report(r *Result, pass tally) error {
	type took struct {
		Peak, Graph, Live int64 // bytes
		Pass              tally
		Spent             engine.StageReport
	}
	mem := w.team.Memory
	all, err := gather(w.groups.World, took{mem.Peak(), mem.Live(tensor.Graph), mem.LiveTensors(), pass, w.spent})
	if err != nil {
		return err
	}
	var sent []Communication
	for _, one := range all {
		r.PeakTensorBytes = append(r.PeakTensorBytes, one.Peak)
		r.GraphBytes = append(r.GraphBytes, one.Graph)
		r.LiveBytes = append(r.LiveBytes, one.Live)
		r.EdgeColumns = append(r.EdgeColumns, one.Pass.EdgeColumns.sum())
		waited := one.Pass.Waited.Seconds()
		r.WaitSeconds = append(r.WaitSeconds, waited)
		r.WaitShare = max(r.WaitShare, waited/max(one.Pass.Seconds, 1e-9))
		bytes := int64(0)
		for _, t := range one.Pass.Sent.kinds() {
			bytes += t.Bytes
		}
		r.SentBytes, sent = append(r.SentBytes, bytes), append(sent, one.Pass.Sent)
	}
	for _, s := range w.stages() {
		sum := StageSummary{Stage: s}
		for _, rank := range s.Workers {
			sum.add(all[rank].Spent, r.SentBytes[rank])
		}
		r.Stages = append(r.Stages, sum)
	}
	r.Communication = SumOf(sent)
	r.Workers = len(all)
	return nil
}
