package trace

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"time"
)

// Event is a span of an epoch, in the time of its worker's clock.
type Event struct {
	Lane       Lane
	Category   Category
	Name       string
	Start, End time.Duration // Start < End
	Args       Args
}

// Category is the kind of work of a span.
type Category uint8

// The categories.
const (
	Phase   Category = iota // a part of the epoch, which contains other spans
	Compute                 // a kernel
	// the start of a send, with the copy if the receiver of the same process came earlier
	Send
	// the start of a receive, with the copy if the sender of the same process came earlier
	Start
	Receive // waiting for a message
	Wait    // waiting for the end of a send, or for work beside
	Disk    // writing a matrix to a disk, or reading it
	Copy    // a matrix moves to a device, or back
)

// String is the category in one word.
func (c Category) String() string {
	return [...]string{"phase", "compute", "send", "start", "receive", "wait", "disk", "copy"}[c]
}

// Args are the properties of a span.
type Args struct {
	Module string `json:"site,omitempty"` // the module, by its path
	Kind   string `json:"kind,omitempty"` // kind of message
	Peer   Index  `json:"peer,omitzero"`  // its sender or receiver
	Bytes  int64  `json:"bytes,omitzero"` // bytes of the message, or of the matrix that moves
	Tag    int    `json:"tag,omitzero"`
	// its number among the messages from one rank to another with one tag
	Message Index  `json:"message,omitzero"`
	Chunk   Index  `json:"chunk,omitzero"`   // chunk of the pipeline axis
	Shape   Shape  `json:"shape,omitzero"`   // shape of a kernel's work
	Entries int    `json:"edges,omitzero"`   // edges that a kernel works on
	Caller  string `json:"caller,omitempty"` // the function that needs a copy
}

// Shape is kernel.Shape.
type Shape [3]int

// Index is a number from 0. The zero value is no number.
type Index int

// At is the Index of a number from 0.
func At(i int) Index { return Index(i + 1) }

// MarshalJSON writes the number.
func (i Index) MarshalJSON() ([]byte, error) { return json.Marshal(int(i) - 1) }

// UnmarshalJSON reads the number.
func (i *Index) UnmarshalJSON(text []byte) error {
	var n int
	err := json.Unmarshal(text, &n)
	*i = At(n)
	return err
}

// Lane identifies a track of a worker.
type Lane struct {
	Sort   laneSort
	Number int
}

type laneSort int

const (
	workLanes laneSort = iota
	kernelLanes
	besideLanes
	diskLanes
	deviceLanes
	copyLanes
)

// String is the name of the track.
func (l Lane) String() string {
	name := [...]string{"work", "kernels", "beside", "disk", "device", "copies"}[l.Sort]
	if l.Number > 0 {
		name += fmt.Sprintf(" (%d)", l.Number+1)
	}
	return name
}

// id numbers the tracks of a worker in their displayed order.
func (l Lane) id() int {
	const most = 1 << 10
	return 1 + int(l.Sort)*most + l.Number
}

// Trace is what the workers of a run did in an epoch.
type Trace struct {
	Epoch   int
	About   map[string]string // properties of the run
	Workers []Worker          // by rank
}

// Worker is what one worker did.
type Worker struct {
	Name   string
	Events []Event
	Lost   int // spans beyond its Recorder's limit
	// Offset is what to add to the worker's clock to get worker 0's. Uncertainty bounds its error. Both are 0
	// if the two have one clock.
	Offset, Uncertainty time.Duration
}

// Add adds what the same workers did at other times, with recorders and messages of their own.
func (t *Trace) Add(other *Trace) {
	var messages Index // messages of other, which get later numbers
	for _, w := range t.Workers {
		for _, e := range w.Events {
			messages = max(messages, e.Args.Message)
		}
	}
	for rank, w := range other.Workers {
		events := slices.Clone(w.Events)
		for k := range events {
			if events[k].Args.Message > 0 {
				events[k].Args.Message += messages
			}
		}
		worker := &t.Workers[rank]
		worker.Events, worker.Lost = slices.Concat(worker.Events, events), worker.Lost+w.Lost
	}
}

// Write writes the trace as JSON. Workers are processes in it, and tracks are threads. Times are microseconds
// since the first span began. An arrow leads from each send to its receive.
func (t *Trace) Write(to io.Writer) error {
	out := bufio.NewWriter(to)
	head, err := json.Marshal(t.other())
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\"traceEvents\":[", head)
	separator := "\n"
	for e := range t.entries {
		text, err := json.Marshal(e)
		if err != nil {
			return err
		}
		out.WriteString(separator)
		out.Write(text)
		separator = ",\n"
	}
	out.WriteString("\n]}\n")
	return out.Flush()
}

// other returns the properties of the run as a whole.
func (t *Trace) other() map[string]any {
	all := map[string]any{"epoch": t.Epoch}
	var uncertain []micros
	var lost []int
	for _, w := range t.Workers {
		uncertain = append(uncertain, micros(w.Uncertainty))
		lost = append(lost, w.Lost)
	}
	all["clock_uncertainty_us"], all["spans_lost"] = uncertain, lost
	for k, v := range t.About {
		all[k] = v
	}
	return all
}

// entry is an element of traceEvents.
type entry struct {
	Phase    string  `json:"ph"` // X: a span; M: a name; s and f: the ends of an arrow
	Process  int     `json:"pid"`
	Thread   int     `json:"tid,omitzero"`
	Time     *micros `json:"ts,omitempty"`
	Duration *micros `json:"dur,omitempty"`
	Name     string  `json:"name"`
	Category string  `json:"cat,omitempty"`
	Arrow    string  `json:"id,omitempty"`
	Binds    string  `json:"bp,omitempty"` // e: the arrow ends at the span around it
	Args     any     `json:"args,omitempty"`
}

// micros is a time in microseconds.
type micros time.Duration

func (m micros) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%d.%03d", m/1000, m%1000), nil
}

// entries yields the entries of the file, worker by worker.
func (t *Trace) entries(yield func(entry) bool) {
	first := time.Duration(math.MaxInt64)
	for _, w := range t.Workers {
		for _, e := range w.Events {
			first = min(first, e.Start+w.Offset)
		}
	}
	for rank, w := range t.Workers {
		for _, e := range w.names(rank) {
			if !yield(e) {
				return
			}
		}
		for _, e := range w.Events {
			for _, e := range t.entriesOf(e, rank, w.Offset-first) {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// process returns the number of a worker's process. 0 is Perfetto's idle process.
func process(rank int) int { return rank + 1 }

// names returns the entries that name a worker and its tracks, and order them.
func (w *Worker) names(rank int) []entry {
	name := func(what string, thread int, args any) entry {
		return entry{Phase: "M", Process: process(rank), Thread: thread, Name: what, Args: args}
	}
	list := []entry{
		name("process_name", 0, map[string]string{"name": w.Name}),
		name("process_sort_index", 0, map[string]int{"sort_index": rank}),
	}
	used := map[Lane]bool{}
	for _, e := range w.Events {
		used[e.Lane] = true
	}
	for _, l := range slices.SortedFunc(maps.Keys(used),
		func(a, b Lane) int { return cmp.Compare(a.id(), b.id()) }) {
		list = append(list, name("thread_name", l.id(), map[string]string{"name": l.String()}),
			name("thread_sort_index", l.id(), map[string]int{"sort_index": l.id()}))
	}
	return list
}

// entriesOf returns a worker's span and the end of its arrow. lacks is what to add to the worker's clock.
func (t *Trace) entriesOf(e Event, rank int, lacks time.Duration) []entry {
	type args struct {
		Epoch int `json:"epoch"`
		Args
	}
	begin, end := micros(e.Start+lacks), micros(e.End-e.Start)
	span := entry{
		Phase: "X", Process: process(rank), Thread: e.Lane.id(), Time: &begin, Duration: &end, Name: e.Name,
		Category: e.Category.String(), Args: args{t.Epoch, e.Args},
	}
	if e.Category == Phase && e.Args.Chunk > 0 {
		span.Name += fmt.Sprintf(", chunk %d", e.Args.Chunk-1)
	}
	arrow := entry{Process: span.Process, Thread: span.Thread, Name: "message", Category: "message"}
	peer := int(e.Args.Peer) - 1
	switch e.Category {
	case Send:
		arrow.Phase, arrow.Time = "s", &begin
		arrow.Arrow = fmt.Sprintf("%d.%d.%d.%d", rank, peer, e.Args.Tag, e.Args.Message-1)
	case Receive:
		last := micros(e.End + lacks - 1) // just inside the span
		arrow.Phase, arrow.Binds, arrow.Time = "f", "e", &last
		arrow.Arrow = fmt.Sprintf("%d.%d.%d.%d", peer, rank, e.Args.Tag, e.Args.Message-1)
	default:
		return []entry{span}
	}
	return []entry{span, arrow}
}
