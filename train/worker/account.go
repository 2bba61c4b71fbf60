package worker

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"weft/comm"
	"weft/tensor"
	"weft/train/engine"
)

// Traffic counts what workers sent.
type Traffic struct {
	Bytes    int64 `json:"bytes"`
	Messages int64 `json:"messages"`
}

// Communication is what one worker, or several together, sent in a training pass, by kind.
type Communication struct {
	Halo Traffic `json:"halo"` // vertex rows and their gradients between graph partitions
	// Layout is all-to-alls between rows and slices. Messages counts the all-to-alls.
	Layout     Traffic `json:"layout"`
	Stage      Traffic `json:"stage"`          // activations and gradients at the boundaries of a pipeline
	Gradient   Traffic `json:"gradient"`       // gradients of the weights
	Links      Traffic `json:"links,omitzero"` // rows at the ends of scored edges, and their gradients
	Statistics Traffic `json:"statistics"`     // losses, norms, counts
}

// ByLayer has a number for each module of the model, by its path.
type ByLayer map[string]int64

// Sum is the sum over all modules.
func (b ByLayer) Sum() (all int64) {
	for _, n := range b {
		all += n
	}
	return all
}

// Plus returns the sums of the numbers of each module.
func (b ByLayer) Plus(more ByLayer) ByLayer {
	sum := maps.Clone(b)
	for module, n := range more {
		sum[module] += n
	}
	return sum
}

// since subtracts earlier numbers.
func (b ByLayer) since(before ByLayer) ByLayer {
	more := ByLayer{}
	for module, n := range b {
		more[module] = n - before[module]
	}
	return more
}

// Tally is what a worker has aggregated and sent, and how long it has waited.
type Tally struct {
	EdgeColumns ByLayer // edges × columns, forward and backward
	LayoutBytes ByLayer // the parts of Sent.Layout.Bytes
	Sent        Communication
	SentBy      ByLayer `json:"-"` // bytes of Sent.Halo and Sent.Layout
	SentTo      []int64 // bytes, by the rank of the receiver; the parts of Sent
	Waited      time.Duration
	Seconds     float64 // of a pass on this worker
	// Disk is what moved between memory and disk, from the end of the pass before to the end of this one.
	// Only the first of the ranks that a worker holds counts it.
	Disk tensor.Moved
	// Device is the same between the host and a card.
	Device tensor.DeviceUse
}

// account counts a worker's tally.
type account struct {
	LastPass Tally // of the last training pass

	edgeColumns, layoutBytes ByLayer
	redistributions          int64 // all-to-alls between layouts
	onDisk                   tensor.Moved
	onCard                   tensor.DeviceUse
	profiled                 profiled
}

func newAccount() account { return account{edgeColumns: ByLayer{}, layoutBytes: ByLayer{}} }

func (a *account) aggregated(module string, edgeColumns int64) { a.edgeColumns[module] += edgeColumns }

func (a *account) redistributed(module string, bytes int64) {
	a.layoutBytes[module] += bytes
	a.redistributions++
}

// done is this worker's tally so far. All workers of a stage make an all-to-all together, and only the first
// of them counts it.
func (w *Worker) done() Tally {
	c := w.Groups.World
	sent := func(kinds ...comm.Kind) (sum Traffic) {
		for _, k := range kinds {
			sum.add(Traffic(c.Sent(k)))
		}
		return sum
	}
	layout := Traffic{Bytes: sent(comm.ToSlices, comm.ToRows).Bytes}
	if w.Groups.Replicas.Rank() == 0 {
		layout.Messages = w.redistributions
	}
	return Tally{
		EdgeColumns: maps.Clone(w.edgeColumns), LayoutBytes: maps.Clone(w.layoutBytes),
		Waited: c.Waited(), SentTo: c.SentTo(), SentBy: c.SentBy(), Sent: Communication{
			Halo: sent(comm.Halo, comm.HaloGradient), Layout: layout, Stage: sent(comm.Stage),
			Gradient: sent(comm.Gradient), Links: sent(comm.Links), Statistics: sent(comm.Statistics),
		},
	}
}

// countsDisk reports whether this is the first of the ranks that a worker holds.
func (w *member) countsDisk() bool {
	rank := w.Groups.All.Rank()
	return rank == w.First(w.Holders()[rank])
}

// disk is what was moved between memory and disk since the last call.
func (w *Worker) disk() (since tensor.Moved) {
	if w.countsDisk() {
		now := w.Team.Memory.OnDisk()
		since = tensor.Moved{Written: now.Written - w.onDisk.Written, Read: now.Read - w.onDisk.Read}
		w.onDisk = now
	}
	return since
}

// onDevice is what the card was used for since the last call, and the most of its memory.
func (w *Worker) onDevice() (since tensor.DeviceUse) {
	if w.countsDisk() {
		since = w.Team.Memory.DeviceUse()
		before := w.onCard
		w.onCard = since
		since.ToDevice -= before.ToDevice
		since.ToHost -= before.ToHost
		since.Waits -= before.Waits
		since.Launches -= before.Launches
		since.Graphs = since.Graphs.Plus(before.Graphs, -1)
		since.OnCPU = maps.Clone(since.OnCPU)
		for kernel, bytes := range before.OnCPU {
			since.OnCPU[kernel] -= bytes
		}
	}
	return since
}

// since subtracts an earlier tally.
func (t Tally) since(before Tally) Tally {
	for k, sent := range t.Sent.kinds() {
		earlier := before.Sent.kinds()[k]
		sent.add(Traffic{-earlier.Bytes, -earlier.Messages})
	}
	t.Waited -= before.Waited
	for rank, bytes := range before.SentTo {
		t.SentTo[rank] -= bytes
	}
	t.EdgeColumns, t.LayoutBytes = t.EdgeColumns.since(before.EdgeColumns),
		t.LayoutBytes.since(before.LayoutBytes)
	t.SentBy = t.SentBy.since(before.SentBy)
	return t
}

func (t *Traffic) add(more Traffic) {
	t.Bytes += more.Bytes
	t.Messages += more.Messages
}

// Bytes is the bytes of all kinds.
func (c *Communication) Bytes() (all int64) {
	for _, kind := range c.kinds() {
		all += kind.Bytes
	}
	return all
}

// kinds lists the numbers of a Communication.
func (c *Communication) kinds() []*Traffic {
	return []*Traffic{&c.Halo, &c.Layout, &c.Stage, &c.Gradient, &c.Links, &c.Statistics}
}

// SumOf is the sum of what several workers sent.
func SumOf(sent []Communication) (all Communication) {
	for _, c := range sent {
		for k, t := range all.kinds() {
			t.add(*c.kinds()[k])
		}
	}
	return all
}

// Usage is the memory, the work and the communication of a run's workers, in the training pass of the last
// epoch. Lists have an entry for each worker.
type Usage struct {
	PeakTensorBytes []int64       `json:"peak_tensor_bytes"`
	GraphBytes      []int64       `json:"graph_bytes"`
	PeakRSSBytes    int64         `json:"peak_rss_bytes"` // of the largest process, which its starter sets
	Communication   Communication `json:"communication"`  // of all workers
	EdgeColumns     []int64       `json:"edge_columns"`   // edges × columns aggregated, forward and backward
	SentBytes       []int64       `json:"sent_bytes"`
	WaitSeconds     []float64     `json:"wait_seconds"` // waiting, while none of the worker's ranks works
	WaitShare       float64       `json:"wait_share"`   // of the pass, for the worker that waited most
	// Stages are the stages of a pipeline. StageImbalance is the largest of the times that they compute, over
	// the mean.
	Stages         []StageSummary `json:"stages,omitempty"`
	StageImbalance float64        `json:"stage_imbalance,omitempty"`
	// Disk is bytes between memory and disk in the last epoch, with the evaluation before it.
	Disk   tensor.Moved `json:"disk,omitzero"`
	Device *DeviceUsage `json:"device,omitempty"` // nil: the CPU computes
}

// DeviceUsage is what the workers of a run used of cards in the last epoch, with the evaluation before it.
type DeviceUsage struct {
	Name          string `json:"name"`
	Driver        string `json:"driver"`          // the driver's version of CUDA
	Cards         []int  `json:"cards"`           // by worker: which card of its machine
	PeakBytes     int64  `json:"peak_bytes"`      // of the worker that needs most, over the run
	HostBytes     int64  `json:"host_bytes"`      // of matrices in the host's memory, at most over the run
	ToDeviceBytes int64  `json:"to_device_bytes"` // from the host
	ToHostBytes   int64  `json:"to_host_bytes"`
	// MessageBytes is the pinned memory through which messages of all workers pass. HostBytes includes it.
	MessageBytes int64 `json:"message_bytes,omitempty"`
	// RAM is what matrices at rest moved to and from the host's memory. RAMBytes is the most that rested
	// there over the run.
	RAM      tensor.Moved `json:"ram,omitzero"`
	RAMBytes int64        `json:"ram_bytes,omitempty"`
	Waits    int          `json:"waits"` // how often the host waited for all work of the card
	Launches int          `json:"launches"`
	// Graphs are the launches in CUDA graphs, which are among Launches.
	Graphs tensor.Graphs `json:"graphs"`
	OnCPU  OnCPU         `json:"on_cpu"`
}

// OnCPU are the kernels that run on the CPU, with copies before and after, by name.
type OnCPU []CPUKernel

// CPUKernel is a kernel of OnCPU.
type CPUKernel struct {
	Kernel      string `json:"kernel"`
	ToHostBytes int64  `json:"to_host_bytes,omitzero"` // bytes that were copied for it
}

// Add adds the kernels of a worker.
func (all *OnCPU) Add(kernels map[string]int64) {
	for name, bytes := range kernels {
		at, found := slices.BinarySearchFunc(*all, name,
			func(k CPUKernel, name string) int { return strings.Compare(k.Kernel, name) })
		if !found {
			*all = slices.Insert(*all, at, CPUKernel{Kernel: name})
		}
		(*all)[at].ToHostBytes += bytes
	}
}

// add adds what a rank used. If a worker holds several ranks, only the first rank's account counts.
func (d *DeviceUsage) add(use tensor.DeviceUse) {
	d.PeakBytes = max(d.PeakBytes, use.PeakBytes)
	d.HostBytes, d.MessageBytes = d.HostBytes+use.HostBytes, d.MessageBytes+use.StagedBytes
	d.ToDeviceBytes += use.ToDevice
	d.ToHostBytes += use.ToHost
	d.Waits += use.Waits
	d.Launches += use.Launches
	d.Graphs = d.Graphs.Plus(use.Graphs, 1)
	d.OnCPU.Add(use.OnCPU)
}

// Totals are the totals of a run's workers.
type Totals struct {
	Workers int
	Usage
	LiveBytes []int64 // per worker: the bytes of tensors at the end of the run, which are the model's
	// SentTo is how many bytes each worker sent to each other in the pass: workers × workers.
	SentTo  [][]int64
	Profile *Profile // of one epoch; nil: none was run
	// Kinds is how many bytes each kind takes at the peak of each worker: workers × kinds.
	Kinds [][]int64
	// Layers are what the layers of all workers did in the pass.
	Layers Layers
}

// Layers are the edges × columns that each layer aggregated, and the bytes of rows and their gradients that
// it sent.
type Layers struct {
	EdgeColumns ByLayer `json:"edge_columns"`
	SentBytes   ByLayer `json:"sent_bytes"`
}

// Totals returns the totals of all workers on worker 0, and nothing on others.
func (w *Worker) Totals() (t Totals, err error) {
	type took struct {
		Peak, Graph, Live int64 // bytes
		Rests             int64 // bytes in the host's memory, on the first rank of a worker
		Pass              Tally
		Spent             engine.StageReport
		Profile           *profile
		Kinds             []int64
		SentBy            ByLayer
	}
	mem := w.Team.Memory
	rests := int64(0)
	if w.countsDisk() {
		rests = mem.DiskBytes()
		now := mem.DeviceUse()
		device := &w.LastPass.Device
		device.PeakBytes, device.HostBytes, device.StagedBytes = now.PeakBytes, now.HostBytes, now.StagedBytes
	}
	kinds := mem.Peaks().Kinds
	local := took{
		mem.Peak(), mem.GraphBytes(), mem.LiveTensors(), rests, w.LastPass, w.spent, w.profile(),
		kinds[:], w.LastPass.SentBy,
	}
	all, err := ToFirst(w.Groups.All, local)
	if err != nil {
		return t, err
	}
	var samples []int64 // thousands of numbers: as text they would take longer than an epoch of a small graph
	if local.Profile != nil {
		samples = local.Profile.Memory
	}
	memory, err := comm.ToFirst(w.Groups.All, samples)
	if err != nil || !w.Ranks().First() {
		return t, err
	}
	n := w.Workers
	t = Totals{Workers: n, LiveBytes: make([]int64, n), SentTo: make([][]int64, n), Usage: Usage{
		PeakTensorBytes: make([]int64, n), GraphBytes: make([]int64, n), EdgeColumns: make([]int64, n),
		SentBytes: make([]int64, n), WaitSeconds: make([]float64, n),
	}, Kinds: make([][]int64, n), Layers: Layers{ByLayer{}, ByLayer{}}}
	for at := range n {
		t.SentTo[at] = make([]int64, n)
	}
	if w.Cards != nil {
		t.Device = &DeviceUsage{
			Name: w.Cards.Name, Driver: w.Cards.Driver, Cards: w.Cards.Numbers, OnCPU: OnCPU{},
		}
	}
	var sent []Communication
	for rank, at := range w.Holders() { // the ranks of a worker share its memory
		report := all[rank]
		t.PeakTensorBytes[at] = max(t.PeakTensorBytes[at], report.Peak)
		t.GraphBytes[at] = max(t.GraphBytes[at], report.Graph)
		t.LiveBytes[at] = max(t.LiveBytes[at], report.Live)
		t.EdgeColumns[at] += report.Pass.EdgeColumns.Sum()
		t.WaitSeconds[at] = max(t.WaitSeconds[at], report.Pass.Waited.Seconds())
		t.WaitShare = max(t.WaitShare, report.Pass.Waited.Seconds()/max(report.Pass.Seconds, 1e-9))
		t.SentBytes[at] += report.Pass.Sent.Bytes()
		t.Layers.EdgeColumns = t.Layers.EdgeColumns.Plus(report.Pass.EdgeColumns)
		t.Layers.SentBytes = t.Layers.SentBytes.Plus(report.SentBy)
		t.Kinds[at] = report.Kinds // the ranks of a worker share these
		sent = append(sent, report.Pass.Sent)
		for to, bytes := range report.Pass.SentTo {
			t.SentTo[at][w.Holders()[to]] += bytes
		}
		if report.Profile != nil {
			report.Profile.Memory = memory[rank]
			t.Profile = t.Profile.with(report.Profile, at, n)
		}
		if t.Device == nil {
			t.Disk = t.Disk.Plus(report.Pass.Disk)
		} else {
			t.Device.add(report.Pass.Device)
			t.Device.RAM = t.Device.RAM.Plus(report.Pass.Disk)
			t.Device.RAMBytes += report.Rests
		}
	}
	for _, s := range w.Stages() {
		sum := StageSummary{Stage: s}
		for _, rank := range s.Workers {
			sum.add(all[rank].Spent, t.SentBytes[rank])
		}
		t.Stages = append(t.Stages, sum)
	}
	t.Communication, t.StageImbalance = SumOf(sent), stageImbalance(t.Stages)
	return t, nil
}

// ToFirst returns each worker's value, by rank, on worker 0, and nil on others.
func ToFirst[T any](c *comm.Comm, local T) ([]T, error) {
	text, err := json.Marshal(local)
	if err != nil {
		return nil, err
	}
	texts, err := comm.ToFirst(c, text)
	if err != nil || texts == nil {
		return nil, err
	}
	all := make([]T, len(texts))
	for rank, text := range texts {
		if err := json.Unmarshal(text, &all[rank]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// FromFirst returns worker 0's value on all workers.
func FromFirst[T any](c *comm.Comm, local T) (value T, err error) {
	text, err := json.Marshal(local)
	if err != nil {
		return value, err
	}
	if text, err = comm.FromFirst(c, text); err != nil {
		return value, err
	}
	return value, json.Unmarshal(text, &value)
}

// Imbalance is the workers' largest amount divided by their mean, or 0 if all amounts are 0.
func Imbalance[T int | int64 | float64](amounts []T) float64 {
	sum := T(0)
	for _, n := range amounts {
		sum += n
	}
	if sum == 0 {
		return 0
	}
	return float64(slices.Max(amounts)) * float64(len(amounts)) / float64(sum)
}
