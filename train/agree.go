package train

import (
	"context"
	"fmt"
	"hash/crc32"
	"time"

	"weft/comm"
	"weft/internal/launch"
	"weft/internal/refusal"
	"weft/parallel/mesh"
	"weft/tensor"
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
	all, err := comm.Gather(w.groups.World, comm.Statistics, part, flag, float64(w.hash()))
	if err != nil {
		return 0, false, err
	}
	for r := range w.groups.World.Size() {
		theirs := all[r*words:]
		loss += theirs[0]
		stopped = stopped || theirs[1] != 0
		first := w.mesh.Rank(mesh.Place{Stage: w.mesh.Place(r).Stage})
		if theirs[2] != all[first*words+2] {
			return 0, false, &Common{Err: fmt.Errorf("after epoch %d the parameters of worker %d differ from those of worker %d: "+
				"the machines do not compute alike: set WEFT_SIMD to one level on all of them", epoch, r, first)}
		}
	}
	return loss, stopped, nil
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

// hash is a checksum of the parameters.
func (w *worker) hash() (h uint32) {
	table := crc32.MakeTable(crc32.Castagnoli)
	for _, p := range w.params.List {
		h = crc32.Update(h, table, p.Value.Bytes())
	}
	return h
}

// traffic is what a worker has sent by kind, and how long it stood still.
type traffic struct {
	sent    [comm.Kinds]comm.Traffic
	waited  time.Duration
	seconds float64 // that the pass took on this worker
}

func (w *worker) traffic() (t traffic) {
	for k := range comm.Kinds {
		t.sent[k] = w.groups.World.Sent(k)
	}
	t.waited = w.groups.World.Waited()
	return t
}

func (t traffic) since(before traffic) traffic {
	for k := range t.sent {
		t.sent[k].Bytes -= before.sent[k].Bytes
		t.sent[k].Messages -= before.sent[k].Messages
	}
	t.waited -= before.waited
	return t
}

// communication is the traffic by the kinds that are reported.
func (t traffic) communication() (c Communication) {
	of := func(kinds ...comm.Kind) (sum Traffic) {
		for _, k := range kinds {
			sum.Bytes += t.sent[k].Bytes
			sum.Messages += t.sent[k].Messages
		}
		return sum
	}
	return Communication{
		Halo: of(comm.Halo, comm.HaloGradient), Layout: of(comm.Layout), Stage: of(comm.Stage),
		Gradient: of(comm.Gradient), Statistics: of(comm.Statistics),
	}
}

// kinds are the numbers of a Communication.
func (c *Communication) kinds() []*Traffic {
	return []*Traffic{&c.Halo, &c.Layout, &c.Stage, &c.Gradient, &c.Statistics}
}

// report puts what each worker took and sent into the result.
func (w *worker) report(r *Result, pass traffic) error {
	mem := w.team.Memory
	c := pass.communication()
	row := []float64{float64(mem.Peak()), float64(mem.Live(tensor.Graph)), pass.waited.Seconds(), pass.seconds}
	for _, t := range c.kinds() {
		row = append(row, float64(t.Bytes), float64(t.Messages))
	}
	all, err := comm.Gather(w.groups.World, comm.Setup, row...)
	if err != nil {
		return err
	}
	for ; len(all) > 0; all = all[len(row):] {
		r.PeakTensorBytes = append(r.PeakTensorBytes, int64(all[0]))
		r.GraphBytes = append(r.GraphBytes, int64(all[1]))
		r.WaitSeconds = append(r.WaitSeconds, all[2])
		r.WaitShare = max(r.WaitShare, all[2]/max(all[3], 1e-9))
		sent := int64(0)
		for k, t := range r.Communication.kinds() {
			t.Bytes += int64(all[4+2*k])
			t.Messages += int64(all[5+2*k])
			sent += int64(all[4+2*k])
		}
		r.SentBytes = append(r.SentBytes, sent)
	}
	r.Workers = len(r.SentBytes)
	return nil
}
