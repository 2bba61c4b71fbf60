package reports

import (
	"fmt"
	"slices"

	"weft/cmd/weft/internal/ui"
	"weft/tensor"
	"weft/train/metric"
	"weft/train/rundir"
	"weft/train/worker"
)

// profileView is what a page shows of a run's profile.
type profileView struct {
	Epoch   int64
	Pass    float64      // the longest training pass of a worker
	Layers  []timesRow   // the mean over the workers, with what is outside all layers, and the sum
	Workers []timesRow   // with several workers: all layers together
	Grid    *heatTable   // with several workers: layers × workers
	Sent    *heatTable   // with several workers: workers × workers
	Peaks   *heatTable   // workers × kinds
	Chart   *memoryChart // nil: there is no memory to show
}

// timesRow are the times of a layer or a worker, in seconds.
type timesRow struct {
	Name                                         string
	Forward, Backward, Rest, Communication, Wait float64
	pass                                         float64
}

// All is the sum of the times.
func (r timesRow) All() float64 { return r.Forward + r.Backward + r.Rest + r.Communication + r.Wait }

// Share is the part of the pass that the times take.
func (r timesRow) Share() float64 { return r.All() / max(r.pass, 1e-9) }

// heatTable is a table whose cells are the darker, the more they hold.
type heatTable struct {
	Columns []string
	Rows    []heatRow
}

type heatRow struct {
	Name  string
	Cells []heatCell
}

type heatCell struct {
	Text  string
	Share float64 // relative to the darkest cell
}

// memoryChart is a chart of the memory over an epoch, with the keys that the page's script reads.
type memoryChart struct {
	Title  string          `json:"title"`
	X      []metric.Number `json:"x"`      // milliseconds
	At     []string        `json:"at"`     // where the worker was
	Series []memorySeries  `json:"series"` // the lowest first
}

type memorySeries struct {
	Name  string  `json:"name"`
	Color string  `json:"color"`
	Bytes []int64 `json:"bytes"`
}

// kindColors are the colors of tensor.Kind and, last, of idle memory.
var kindColors = []string{
	"#56b4e9", "#0072b2", "#cc79a7", "#009e73", "#d55e00", "#e69f00",
	"#8d96a0", "#c8ccd1",
}

// viewProfile is what the page shows of a profile; nil for nil.
func viewProfile(p *rundir.Profile, sent []int64) *profileView {
	if p == nil {
		return nil
	}
	n := len(p.Workers)
	v := &profileView{Epoch: int64(p.Epoch), Peaks: peaksOf(&p.Memory), Chart: memoryOf(p)}
	// over sums times over all workers, and divides by their number.
	over := func(seconds func(w *worker.Times) float64) (sum float64) {
		for k := range p.Workers {
			sum += seconds(&p.Workers[k]) / float64(n)
		}
		return sum
	}
	mean := over(func(w *worker.Times) float64 { return w.Seconds })
	for i, name := range p.Layers {
		v.Layers = append(v.Layers, timesRow{
			Name: name, pass: mean,
			Forward:       over(func(w *worker.Times) float64 { return w.Forward[i] }),
			Backward:      over(func(w *worker.Times) float64 { return w.Backward[i] }),
			Communication: over(func(w *worker.Times) float64 { return w.Communication[i] }),
			Wait:          over(func(w *worker.Times) float64 { return w.Wait[i] }),
		})
	}
	v.Layers = append(v.Layers, timesRow{
		Name: "outside the layers", pass: mean,
		Rest:          over(func(w *worker.Times) float64 { return w.Other.Compute }),
		Communication: over(func(w *worker.Times) float64 { return w.Other.Communication }),
		Wait:          over(func(w *worker.Times) float64 { return w.Other.Wait }),
	})
	for _, w := range p.Workers {
		v.Pass = max(v.Pass, w.Seconds)
	}
	if n == 1 {
		return v
	}
	for k, w := range p.Workers {
		v.Workers = append(v.Workers, timesRow{
			ui.Count(k), sumOf(w.Forward), sumOf(w.Backward), w.Other.Compute,
			sumOf(w.Communication) + w.Other.Communication, sumOf(w.Wait) + w.Other.Wait, v.Pass,
		})
	}
	v.Grid, v.Sent = gridOf(p), sentOf(p.SentTo, sent)
	return v
}

// gridOf has a row for each layer and a column for each worker: the time that the worker spent in the layer,
// without waits.
func gridOf(p *rundir.Profile) *heatTable {
	t, most := &heatTable{Columns: numbered(len(p.Workers))}, 0.
	at := func(k, i int) float64 {
		w := &p.Workers[k]
		return w.Forward[i] + w.Backward[i] + w.Communication[i]
	}
	for k := range p.Workers {
		for i := range p.Layers {
			most = max(most, at(k, i))
		}
	}
	for i, name := range p.Layers {
		row := heatRow{Name: name}
		for k := range p.Workers {
			row.Cells = append(row.Cells, heatCell{ui.Brief(at(k, i)), at(k, i) / max(most, 1e-9)})
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// sentOf has a row for each sender, a column for each receiver, and what each worker sent and received in
// all.
func sentOf(sentTo [][]int64, sent []int64) *heatTable {
	n, most := len(sentTo), int64(1)
	t := &heatTable{Columns: append(numbered(n), "sent")}
	for _, row := range sentTo {
		most = max(most, slices.Max(row))
	}
	received, all := make([]int64, n), int64(0)
	for k, to := range sentTo {
		row, sum := heatRow{Name: ui.Count(k)}, int64(0)
		for at, bytes := range to {
			cell := heatCell{ui.Megabytes(bytes), float64(bytes) / float64(most)}
			if at == k {
				cell.Text = "–"
			}
			row.Cells = append(row.Cells, cell)
			received[at], sum = received[at]+bytes, sum+bytes
		}
		if k < len(sent) {
			sum = sent[k]
		}
		all += sum
		row.Cells = append(row.Cells, heatCell{ui.Megabytes(sum), 0})
		t.Rows = append(t.Rows, row)
	}
	last := heatRow{Name: "received"}
	for _, bytes := range received {
		last.Cells = append(last.Cells, heatCell{ui.Megabytes(bytes), 0})
	}
	last.Cells = append(last.Cells, heatCell{ui.Megabytes(all), 0})
	t.Rows = append(t.Rows, last)
	return t
}

// peaksOf has a row for each worker, and a column for each kind of memory at its peak.
func peaksOf(m *worker.Memory) *heatTable {
	t := &heatTable{}
	var shown []int
	for kind, name := range m.Kinds {
		has := func(peaks []int64) bool { return kind < len(peaks) && peaks[kind] > 0 }
		if tensor.Kind(kind) != tensor.Graph && slices.ContainsFunc(m.Peaks, has) {
			t.Columns, shown = append(t.Columns, name), append(shown, kind)
		}
	}
	t.Columns = append(t.Columns, "all")
	for k, peaks := range m.Peaks {
		row, sum := heatRow{Name: ui.Count(k)}, int64(0)
		for _, kind := range shown {
			sum += peaks[kind]
		}
		for _, kind := range shown {
			row.Cells = append(row.Cells,
				heatCell{ui.Megabytes(peaks[kind]), float64(peaks[kind]) / float64(max(1, sum))})
		}
		t.Rows = append(t.Rows, heatRow{row.Name, append(row.Cells, heatCell{ui.Megabytes(sum), 0})})
	}
	return t
}

// memoryOf is the chart of a worker's memory over the epoch. The graph's structure is drawn on top of the
// tensors.
func memoryOf(p *rundir.Profile) *memoryChart {
	m := &p.Memory
	if len(m.Seconds) == 0 {
		return nil
	}
	after := ""
	if m.Evaluated {
		after = " and its evaluation"
	}
	c := &memoryChart{Title: fmt.Sprintf("memory of worker %d over epoch %d%s", m.Worker, p.Epoch, after)}
	for i, s := range m.Seconds {
		at := m.Parts[i]
		if l := m.Layers[i]; l >= 0 {
			at += " " + p.Layers[l]
		}
		c.X, c.At = append(c.X, metric.Number(1000*s)), append(c.At, at)
	}
	var order []int // the order of the kinds
	for kind := range m.Kinds {
		if tensor.Kind(kind) != tensor.Graph {
			order = append(order, kind)
		}
	}
	for _, kind := range append(order, int(tensor.Graph)) {
		if kind < len(m.Kinds) && slices.Max(m.Bytes[kind]) > 0 {
			c.Series = append(c.Series,
				memorySeries{m.Kinds[kind], kindColors[kind%len(kindColors)], m.Bytes[kind]})
		}
	}
	return c
}

// numbered are the numbers of n workers.
func numbered(n int) (names []string) {
	for k := range n {
		names = append(names, ui.Count(k))
	}
	return names
}

func sumOf(times []float64) (sum float64) {
	for _, s := range times {
		sum += s
	}
	return sum
}
