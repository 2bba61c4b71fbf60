// Package tracetest reads the files of package trace again and checks them, for tests.
package tracetest

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// File is the content of a file.
type File struct {
	Workers []string // their names, by rank
	Spans   []Span   // worker by worker, in the order in which they begin
	About   About
}

// About is the properties of the run.
type About struct {
	Epoch            int
	Dataset          string
	ClockUncertainty []float64 `json:"clock_uncertainty_us"` // by rank, as Lost
	Lost             []int     `json:"spans_lost"`
}

// Span is a span of a worker.
type Span struct {
	Worker         int
	Track          string
	Category, Name string
	Begin, End     int64 // nanoseconds
	Args           Args
}

// Args are the properties of a span; nil: unknown.
type Args struct {
	Epoch  int
	Module string `json:"site"`
	Kind   string
	Peer   *int
	Bytes  int64
	Chunk  *int
	Shape  []int
}

// event is an element of traceEvents.
type event struct {
	Ph, Name, Cat, ID string
	Pid, Tid          int
	Ts, Dur           float64
	Args              json.RawMessage
}

// arrow leads from a send to a receive. An end that the file lacks is nil.
type arrow struct{ from, to *Span }

// Read reads a file and checks it. Each span has a track, a length and the file's epoch. Spans of one track
// nest or do not overlap. If no span is lost, each send is received once, with as many bytes, by its
// receiver.
func Read(text []byte) (*File, error) {
	var raw struct {
		OtherData   About
		TraceEvents []event
	}
	if err := json.Unmarshal(text, &raw); err != nil {
		return nil, err
	}
	f, tracks, arrows := &File{About: raw.OtherData}, map[[2]int]string{}, map[string]*arrow{}
	for _, e := range raw.TraceEvents {
		var err error
		switch e.Ph {
		case "M":
			err = f.name(e, tracks)
		case "X":
			err = f.span(e, tracks[[2]int{e.Pid, e.Tid}])
		default:
			err = f.arrow(e, arrows)
		}
		if err != nil {
			return nil, err
		}
	}
	if slices.Max(f.About.Lost) == 0 {
		for id, a := range arrows {
			if a.from == nil || a.to == nil || a.from.Args.Bytes != a.to.Args.Bytes ||
				*a.from.Args.Peer != a.to.Worker || *a.to.Args.Peer != a.from.Worker {
				return nil, fmt.Errorf("message %s: from %+v to %+v", id, a.from, a.to)
			}
		}
	}
	return f, f.nest()
}

func (f *File) name(e event, tracks map[[2]int]string) error {
	var args struct{ Name string }
	err := json.Unmarshal(e.Args, &args)
	switch e.Name {
	case "process_name":
		f.Workers = append(f.Workers, args.Name)
		if e.Pid != len(f.Workers) {
			return fmt.Errorf("%s is process %d", args.Name, e.Pid)
		}
	case "thread_name":
		tracks[[2]int{e.Pid, e.Tid}] = args.Name
	}
	return err
}

func (f *File) span(e event, track string) error {
	nano := func(micro float64) int64 { return int64(math.Round(1000 * micro)) }
	s := Span{
		Worker: e.Pid - 1, Track: track, Category: e.Cat, Name: e.Name, Begin: nano(e.Ts),
		End: nano(e.Ts) + nano(e.Dur),
	}
	if err := json.Unmarshal(e.Args, &s.Args); err != nil {
		return err
	}
	f.Spans = append(f.Spans, s)
	if track == "" || s.Begin < 0 || s.Begin >= s.End || s.Args.Epoch != f.About.Epoch ||
		s.Worker >= len(f.Workers) {
		return fmt.Errorf("%+v, in a trace of epoch %d", s, f.About.Epoch)
	}
	return nil
}

// arrow adds an end of an arrow, which follows its span in the file.
func (f *File) arrow(e event, arrows map[string]*arrow) error {
	s := f.Spans[len(f.Spans)-1]
	a := arrows[e.ID]
	if a == nil {
		a = &arrow{}
		arrows[e.ID] = a
	}
	end := &a.from
	if e.Ph == "f" {
		end = &a.to
	}
	if *end != nil || s.Args.Peer == nil || e.Ts*1000 < float64(s.Begin)-.5 || e.Ts*1000 > float64(s.End)-.5 {
		return fmt.Errorf("%+v: an end of an arrow at %+v", e, s)
	}
	*end = &s
	return nil
}

// nest checks that two spans of a track overlap only if one is inside the other.
func (f *File) nest() error {
	type track struct {
		worker int
		name   string
	}
	around := map[track][]Span{}
	for _, s := range f.Spans {
		at := track{s.Worker, s.Track}
		open := around[at]
		for len(open) > 0 && open[len(open)-1].End <= s.Begin {
			open = open[:len(open)-1]
		}
		if len(open) > 0 && s.End > open[len(open)-1].End {
			return fmt.Errorf("%+v begins inside %+v and ends after it", s, open[len(open)-1])
		}
		around[at] = append(open, s)
	}
	return nil
}
