package worker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/internal/trace"
	"weft/tensor"
)

// Profile says where the time of an epoch's training pass went, by worker and layer, and how much memory a
// worker had in that epoch. It is one of the first epochs: each epoch has the same work.
type Profile struct {
	Epoch  int      `json:"epoch"`
	Layers []string `json:"layers"` // the blocks of the model
	// Workers are the times of each worker. Each moment counts once, so that a worker's times add up to the
	// pass.
	Workers []Times `json:"workers"`
	Memory  Memory  `json:"memory"`
}

// Times are the times of a worker in seconds, rounded down to whole microseconds. Lists have an entry for
// each layer. A kernel counts in its layer, forward or backward. Messages and waits count while no kernel
// runs.
type Times struct {
	Seconds       float64    `json:"seconds"` // of the pass
	Forward       []float64  `json:"forward"`
	Backward      []float64  `json:"backward"`
	Communication []float64  `json:"communication"` // while messages are on their way out or in
	Wait          []float64  `json:"wait"`          // waiting for other workers
	Other         OtherTimes `json:"rest"`
}

// OtherTimes are the times of a worker outside all layers, in seconds: loss, optimizer, checks.
type OtherTimes struct {
	Compute       float64 `json:"compute"`
	Communication float64 `json:"communication"`
	Wait          float64 `json:"wait"`
}

// Memory is the memory of a worker over an epoch: the training pass and, if Evaluated, what follows it. Lists
// have an entry for each of at most some hundreds of moments. From each moment to the next one the worker had
// no more.
type Memory struct {
	Worker    int  `json:"worker"` // the worker with the largest peak
	Evaluated bool `json:"evaluated"`
	// Kinds are the kinds of tensor.Kind and, last, idle: memory that is kept for the next tensors. Bytes has
	// a list for each kind.
	Kinds   []string  `json:"kinds"`
	Seconds []float64 `json:"seconds"` // since the epoch began
	// Layers says in which layer the worker was then, as an index into Profile.Layers; −1: outside all.
	Layers []int     `json:"layers"`
	Parts  []string  `json:"parts"` // forward, backward, rest or evaluation
	Bytes  [][]int64 `json:"bytes"`
	// Peaks is how much each kind takes at the peak of the run, on each worker: workers × kinds.
	Peaks [][]int64 `json:"peaks"`
}

// Peak is the most bytes that tensors of all kinds took at one of the moments, without the graph's structure.
func (m *Memory) Peak() (most int64) {
	for i := range m.Seconds {
		sum := int64(0)
		for k, bytes := range m.Bytes {
			if tensor.Kind(k) != tensor.Graph {
				sum += bytes[i]
			}
		}
		most = max(most, sum)
	}
	return most
}

// profile is what one rank knows of the Profile. The first rank of a worker knows all that the worker's ranks
// share.
type profile struct {
	Epoch     int
	Evaluated bool
	Layers    map[int]string // of this rank's stage
	Times     Times
	Memory    []int64 `json:"-"` // for each sample: time, layer, part and bytes by kind
	Peak      []int64
}

// profiled is what a worker remembers of the epochs that were profiled.
type profiled struct {
	epochs    int  // how many epochs were trained
	under     bool // the last one is being profiled
	evaluated bool // an epoch was profiled and evaluated
}

// profiledEpochs is how many epochs at the start are profiled. The first has more work than others, and the
// second may find caches cold.
const profiledEpochs = 3

// beginProfile profiles the epoch if it is one of the first, or the first that is evaluated.
func (w *Worker) beginProfile(epoch int) {
	p := &w.profiled
	profile := w.Recorder.Profile()
	p.epochs++
	early, evaluates := p.epochs <= profiledEpochs, w.EvaluatesAfter(epoch) || epoch == w.Epochs
	p.under = profile != nil && (early && evaluates || !p.evaluated && (early || evaluates))
	if !p.under {
		return
	}
	p.evaluated = evaluates
	if profile.Begin(epoch) {
		w.Team.Memory.Watch(func(u tensor.Usage) {
			var kinds [len(u.Kinds) + 1]int64 // Memory keeps few samples, and copies these
			kinds[copy(kinds[:], u.Kinds[:])] = u.Idle
			profile.Memory(kinds[:], u.Counted)
		})
	}
	w.Recorder.Work().Layer(trace.NoLayer, trace.Other)
}

// endPass ends the training pass of the epoch, if it is profiled.
func (w *Worker) endPass() {
	if w.profiled.under {
		w.Recorder.Profile().EndPass(w.epoch)
	}
}

// EndProfile ends the epoch, if it is profiled.
func (w *Worker) EndProfile() {
	if w.profiled.under && w.Recorder.Profile().End(w.epoch) {
		w.Team.Memory.Watch(nil)
	}
	w.profiled.under = false
}

// profile is this rank's part of the Profile; nil: no epoch was run.
func (w *Worker) profile() *profile {
	epoch, pass, times, memory := w.Recorder.Profile().Epoch()
	if epoch == 0 {
		return nil
	}
	p := &profile{Epoch: epoch, Evaluated: w.profiled.evaluated, Layers: map[int]string{}}
	for _, param := range w.Params.List {
		if p.Layers[param.Layer] == "" {
			p.Layers[param.Layer] = moduleOf(param.Name)
		}
	}
	for layer := range times {
		if layer != trace.NoLayer {
			p.Layers[layer] = cmp.Or(p.Layers[layer], w.Recorder.Profile().Path(layer))
		}
	}
	if rank := w.Groups.All.Rank(); rank != w.First(w.Holders()[rank]) {
		return p
	}
	n := len(w.Blocks)
	t := Times{
		Seconds: micros(pass), Forward: make([]float64, n), Backward: make([]float64, n),
		Communication: make([]float64, n), Wait: make([]float64, n),
	}
	for layer, at := range times {
		if layer == trace.NoLayer {
			t.Other = OtherTimes{micros(at.Other), micros(at.Communication), micros(at.Wait)}
			continue
		}
		t.Forward[layer], t.Backward[layer] = micros(at.Forward), micros(at.Backward)
		t.Communication[layer], t.Wait[layer] = micros(at.Communication), micros(at.Wait)
	}
	p.Times = t
	for _, s := range memory {
		p.Memory = append(append(p.Memory, int64(s.Time), int64(s.Layer), int64(s.Part)), s.Kinds...)
	}
	for _, bytes := range w.Team.Memory.Peaks().Kinds {
		p.Peak = append(p.Peak, bytes)
	}
	return p
}

// micros is a time in seconds, rounded down to whole microseconds.
func micros(d time.Duration) float64 { return float64(d/time.Microsecond) / 1e6 }

// moduleOf is the module of a parameter in the model: its name up to the first number, or else its name
// without the last part.
func moduleOf(name string) string {
	parts := strings.Split(name, ".")
	for i, part := range parts {
		if i > 0 && strings.Trim(part, "0123456789") == "" {
			return strings.Join(parts[:i+1], ".")
		}
	}
	return strings.Join(parts[:max(1, len(parts)-1)], ".")
}

// with adds what a rank of the worker number at knows.
func (p *Profile) with(r *profile, at, workers int) *Profile {
	if p == nil {
		p = &Profile{Epoch: r.Epoch, Workers: make([]Times, workers), Memory: Memory{
			Evaluated: r.Evaluated, Kinds: append(slices.Clone(tensor.KindNames()), "idle"),
			Peaks: make([][]int64, workers),
		}}
	}
	for layer, name := range r.Layers {
		for len(p.Layers) <= layer {
			p.Layers = append(p.Layers, fmt.Sprintf("block %d", len(p.Layers)))
		}
		if name != "" {
			p.Layers[layer] = name
		}
	}
	if r.Peak == nil {
		return p
	}
	p.Workers[at], p.Memory.Peaks[at] = r.Times, r.Peak
	if m := &p.Memory; m.Seconds == nil || tensorsOf(r.Peak) > tensorsOf(m.Peaks[m.Worker]) {
		m.Worker = at
		m.take(r.Memory)
	}
	return p
}

// tensorsOf is the sum of bytes by kind without the graph's structure.
func tensorsOf(kinds []int64) (sum int64) {
	for k, bytes := range kinds {
		if tensor.Kind(k) != tensor.Graph {
			sum += bytes
		}
	}
	return sum
}

// take makes the curve of a profile's samples.
func (m *Memory) take(samples []int64) {
	m.Seconds, m.Layers, m.Parts, m.Bytes = nil, nil, nil, make([][]int64, len(m.Kinds))
	for s := range slices.Chunk(samples, 3+len(m.Kinds)) {
		m.Seconds = append(m.Seconds, micros(time.Duration(s[0])))
		m.Layers, m.Parts = append(m.Layers, int(s[1])), append(m.Parts, trace.Part(s[2]).String())
		for k, bytes := range s[3:] {
			m.Bytes[k] = append(m.Bytes[k], bytes)
		}
	}
}
