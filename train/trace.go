package train

import (
	"encoding/json"
	"fmt"

	"weft/comm"
	"weft/internal/trace"
	"weft/kernel"
	"weft/parallel/mesh"
)

// recorder is that of one of the workers that c connects, who call it together; nil: the job has no trace.
func (j *Job) recorder(c *comm.Comm) (*trace.Recorder, error) {
	asked := []byte{0}
	if j.Trace {
		asked[0] = 1
	}
	if err := c.Broadcast(comm.Setup, asked, 0); err != nil || asked[0] == 0 {
		return nil, err
	}
	return trace.New(trace.Clock, trace.Most), nil
}

// recorded is the team, whose kernel calls r records from now on; nil: as they were.
func recorded(team *kernel.Team, r *trace.Recorder) *kernel.Team {
	if r == nil {
		return team
	}
	watch := team.Watch
	team.Watch = func(c kernel.Call, run func()) {
		span := r.Kernel(c.Kernel, trace.Shape(c.Shape))
		defer span.End()
		if watch == nil {
			run()
			return
		}
		watch(c, run)
	}
	return team
}

// phase begins a part of the epoch.
func (w *worker) phase(name string) trace.Span {
	return w.recorder.Work().Begin(trace.Phase, name, trace.Args{})
}

// trace is, on worker 0, what all workers did in the last epoch; nil on others, and where nothing was
// recorded. All call it together.
func (w *worker) trace() (*trace.Trace, error) {
	if w.recorder == nil {
		return nil, nil
	}
	c, mine := w.groups.World, trace.Worker{Name: workerName(w.groups.Mesh, w.groups.World.Rank())}
	mine.Events, mine.Lost = w.recorder.Events()
	if w.processes {
		var err error
		if mine.Offset, mine.Uncertainty, err = c.ClockOffset(comm.Setup, w.recorder.Now); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, err
	}
	lengths, err := comm.Gather(c, comm.Setup, int64(len(text)))
	if err != nil {
		return nil, err
	}
	texts, err := toFirst(c, text, lengths, 1)
	if err != nil || !w.ranks().First() {
		return nil, err
	}
	t := &trace.Trace{Epoch: w.epoch, Workers: make([]trace.Worker, len(texts))}
	for rank, text := range texts {
		if err := json.Unmarshal(text, &t.Workers[rank]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// workerName says which worker it is, and its place along the axes that divide anything.
func workerName(m mesh.Mesh, rank int) string {
	name, place := fmt.Sprintf("worker %d", rank), m.Place(rank)
	separator := ": "
	for _, axis := range []struct {
		what      string
		at, count int
	}{{"stage", place.Stage, m.Stages}, {"partition", place.Partition, m.Partitions}, {"slice", place.Slice, m.Slices}} {
		if axis.count > 1 {
			name += fmt.Sprintf("%s%s %d", separator, axis.what, axis.at)
			separator = ", "
		}
	}
	return name
}
