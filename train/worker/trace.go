package worker

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"

	"weft/comm"
	"weft/internal/trace"
	"weft/kernel"
	"weft/tensor"
)

// NewRecorder makes the recorder of a rank, with its worker's profile. It traces if worker 0 is asked to. All
// workers that c connects call it together.
func NewRecorder(c *comm.Comm, asked bool, p *trace.Profile) (*trace.Recorder, error) {
	flag := []byte{0}
	if asked {
		flag[0] = 1
	}
	if err := c.Broadcast(comm.Setup, flag, 0); err != nil {
		return nil, err
	}
	return trace.New(trace.Clock, trace.Most*int(flag[0]), p), nil
}

// recorded makes r record the kernel calls of the team, and what its memory moves to and from a disk or a
// card. A nil r records nothing.
func recorded(team *kernel.Team, r *trace.Recorder) *kernel.Team {
	if r == nil {
		return team
	}
	if r.Traces() {
		team.Memory.WatchDisk(func(what string, bytes int64) func() {
			if team.Memory.OnDevice() {
				what = map[string]string{"write": "to host", "read": "to device"}[what]
				return r.Beside(what, trace.Shape{}, bytes, "").End
			}
			return r.Rest(what, bytes).End
		})
		team.Memory.WatchMoves(func(m tensor.Moving) func() {
			name, copies := "to host", r.Copy
			if m.ToDevice {
				name = "to device"
			}
			if m.Message {
				name, copies = "message "+name, r.Beside
			}
			return copies(name, trace.Shape{m.Matrix.Rows, m.Matrix.Cols}, int64(m.Bytes), caller()).End
		})
	}
	watch := team.Watch
	team.Watch = func(c kernel.Call, run func()) {
		span := r.Kernel(c.Kernel, trace.Shape(c.Shape), c.Entries)
		defer span.End()
		if watch == nil {
			run()
		} else {
			watch(c, run)
		}
		if span.Recorded() {
			team.Wait()
		}
	}
	return team
}

// inner is the end of the name of a function within a function.
var inner = regexp.MustCompile(`(\.func\d+|\.\d+|-range\d+)+$`)

// caller names the function above packages tensor and kernel that is at work, and what it called of kernel.
func caller() string {
	calls := make([]uintptr, 64)
	frames := runtime.CallersFrames(calls[:runtime.Callers(1, calls)])
	prefix := ""
	for frame, more := frames.Next(); more; frame, more = frames.Next() {
		name := inner.ReplaceAllString(strings.TrimPrefix(frame.Function, "weft/"), "")
		switch {
		case strings.HasPrefix(name, "kernel."):
			prefix = name + " in "
		case !strings.HasPrefix(frame.Function, "weft/"):
		case !strings.HasPrefix(name, "tensor.") && !strings.HasPrefix(name, "train/worker.recorded") &&
			name != "train/worker.caller":
			return prefix + name
		}
	}
	return prefix
}

// phase begins a phase of the epoch.
func (w *member) phase(name string) trace.Span {
	return w.Recorder.Work().Begin(trace.Phase, name, trace.Args{})
}

// Trace is, on worker 0, what all workers did in the last epoch. It is nil on other workers, and if nothing
// was recorded. All workers call it together.
func (w *Worker) Trace() (*trace.Trace, error) {
	if !w.Recorder.Traces() {
		return nil, nil
	}
	c := w.Groups.All
	local := trace.Worker{Name: w.name()}
	local.Events, local.Lost = w.Recorder.Events()
	if w.Processes {
		var err error
		if local.Offset, local.Uncertainty, err = c.ClockOffset(comm.Setup, w.Recorder.Now); err != nil {
			return nil, err
		}
	}
	all, err := ToFirst(c, local)
	if err != nil || !w.Ranks().First() {
		return nil, err
	}
	return &trace.Trace{Epoch: w.epoch, Workers: all}, nil
}

// name is the worker's number, with its position along each axis of the mesh.
func (w *member) name() string {
	m, place := w.Groups.Mesh, w.Groups.Coords
	name := fmt.Sprintf("worker %d", w.Holders()[w.Groups.All.Rank()])
	separator := ": "
	for _, axis := range []struct {
		what      string
		at, count int
	}{
		{"group", w.Groups.Group, w.SampleGroups},
		{"stage", place.Stage, m.Stages},
		{"partition", place.Partition, m.Partitions},
		{"slice", place.Slice, m.Slices},
	} {
		if axis.count > 1 {
			name += fmt.Sprintf("%s%s %d", separator, axis.what, axis.at)
			separator = ", "
		}
	}
	return name
}
