package planner

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"weft/device"
	"weft/internal/document"
	"weft/internal/refusal"
	"weft/kernel/machine"
	"weft/tensor"
	"weft/train"
	"weft/train/plan"
	"weft/train/setting"
	"weft/train/worker"
)

// CardSpec is what a card does. A kernel takes the longer of two times there, and a launch:
//
//	max(bytes ÷ Copy, operations of products ÷ their rate) ÷ Efficiency
type CardSpec struct {
	Name          string  `json:"name"`
	Memory        float64 `json:"memory_bytes"`
	Copy          float64 `json:"copy_bytes_per_second"` // in its memory, read and written
	Flops         float64 `json:"flops_per_second"`      // of float32 products
	BFloat16Flops float64 `json:"bfloat16_flops_per_second"`
	ToDevice      float64 `json:"to_device_bytes_per_second"` // from the host's pinned memory
	ToHost        float64 `json:"to_host_bytes_per_second"`
	Launch        float64 `json:"launch_seconds"`
	// Efficiency is the part of Copy and of the rates of products that kernels reach; 0: usualEfficiency.
	Efficiency float64 `json:"efficiency,omitzero"`
}

// Reached is the Efficiency.
func (c *CardSpec) Reached() float64 { return cmp.Or(c.Efficiency, usualEfficiency) }

// usualEfficiency is the goal for weft's kernels: an epoch of 1.6 times its bound. It is not measured.
const usualEfficiency = 1 / 1.6

// The part that copies reach of the bandwidth of 16 lanes of PCIe 4.0 and 5.0 in each direction, 31.5 and 63
// GB/s, and the time of a launch. Makers do not say either.
const (
	pcie4, pcie5 = 25e9, 50e9
	perLaunch    = 4e-6
)

// published are cards by the names of --device, after NVIDIA's data sheets: memory, its rate, and the rates
// of float32 products and of dense bfloat16 products that are summed in float32. A100 (2021; SXM), H100
// (2023; SXM), H200 (2024; SXM), L4 (2023), L40S (2023), A10 (2021), and the white paper "NVIDIA Ada GPU
// Architecture" (2022).
var published = []CardSpec{
	{"a10", 24e9, 600e9, 31.2e12, 125e12, pcie4, pcie4, perLaunch, 0},
	{"a100-40", 40e9, 1555e9, 19.5e12, 312e12, pcie4, pcie4, perLaunch, 0},
	{"a100-80", 80e9, 2039e9, 19.5e12, 312e12, pcie4, pcie4, perLaunch, 0},
	{"h100", 80e9, 3350e9, 67e12, 989e12, pcie5, pcie5, perLaunch, 0},
	{"h200", 141e9, 4800e9, 67e12, 989e12, pcie5, pcie5, perLaunch, 0},
	{"l4", 24e9, 300e9, 30.3e12, 121e12, pcie4, pcie4, perLaunch, 0},
	{"l40s", 48e9, 864e9, 91.6e12, 362e12, pcie4, pcie4, perLaunch, 0},
	{"rtx4090", 24e9, 1008e9, 82.6e12, 165.2e12, pcie4, pcie4, perLaunch, 0},
}

// Published is the card of a name whose maker says its rates; nil: there is none of that name.
func Published(name string) *CardSpec {
	for _, c := range published {
		if c.Name == strings.ToLower(name) {
			return &c
		}
	}
	return nil
}

// PublishedNames are the names of the cards whose makers say their rates.
func PublishedNames() (names []string) {
	for _, c := range published {
		names = append(names, c.Name)
	}
	return names
}

// ReadCard reads the rates of a card, a JSON object. It refuses one that lacks a rate, or has another key.
func ReadCard(path string) (*CardSpec, error) {
	const most = 1 << 20
	text, err := document.Read(path, most)
	if err != nil {
		return nil, err
	}
	c := &CardSpec{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(c); err != nil {
		return nil, refusal.Errorf("%s: %s; it has the keys of card in weft plan --json", path,
			strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, refusal.Errorf("%s: it has more than one JSON object", path)
	}
	if err := c.check(); err != nil {
		return nil, refusal.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// check refuses rates that no card has.
func (c *CardSpec) check() error {
	for _, field := range []struct {
		key                string
		value, least, most float64
	}{
		{"memory_bytes", c.Memory, 1, 1e15},
		{"copy_bytes_per_second", c.Copy, 1e6, 1e18},
		{"flops_per_second", c.Flops, 1e6, 1e21},
		{"bfloat16_flops_per_second", c.BFloat16Flops, 1e6, 1e21},
		{"to_device_bytes_per_second", c.ToDevice, 1e6, 1e18},
		{"to_host_bytes_per_second", c.ToHost, 1e6, 1e18},
		{"launch_seconds", c.Launch, 1e-9, 1},
		{"efficiency", c.Reached(), 1e-3, 1},
	} {
		if !(field.value >= field.least && field.value <= field.most) {
			return refusal.Errorf("%s: %g; give %g to %g", field.key, field.value, field.least, field.most)
		}
	}
	return nil
}

// MeasureCard measures the rates of a card of this machine. If cache has rates of the same name and driver,
// it returns these.
func MeasureCard(number int, cache machine.Cache) (*CardSpec, error) {
	d, err := device.Open(number)
	if err != nil {
		return nil, err
	}
	possible := func(c CardSpec) bool { return c.check() == nil }
	key := fmt.Appendf(nil, "card %s, CUDA %s", d.Name(), d.Driver())
	c, _, err := machine.Kept(cache, key, possible, func() (CardSpec, error) { return measureCard(d) })
	return &c, errors.Join(err, d.Close())
}

// measureCard measures with more and more bytes, until a measurement takes long enough to tell a rate.
func measureCard(d *device.Device) (c CardSpec, err error) {
	const first, most, enough, launches = 16 << 10, 64 << 20, 100 * time.Millisecond, 1000
	// Each step has times as many bytes. A measurement takes up to matrices matrices of them.
	const times, matrices = 4, 8
	c.Name = d.Name()
	free, total, err := d.Memory()
	if err != nil {
		return c, err
	}
	c.Memory = float64(total)
	bytes := first
	for start := time.Now(); ; bytes *= times {
		rates, err := machine.MeasureCard(d, bytes)
		if err != nil {
			return c, err
		}
		c.Copy, c.Flops, c.BFloat16Flops = rates.Read, rates.Flops, rates.BFloat16Flops
		if bytes >= most || time.Since(start) > enough || free < matrices*times*int64(bytes) {
			break
		}
	}
	at, err := d.Alloc(int64(bytes))
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, d.Free(at)) }()
	host, err := d.Pinned(int64(bytes))
	if err != nil {
		return c, err
	}
	least := func(work func() error) float64 {
		const samples = 5
		seconds := math.Inf(1)
		for range samples {
			start := time.Now()
			err = errors.Join(err, work())
			seconds = min(seconds, time.Since(start).Seconds())
		}
		return seconds
	}
	c.ToDevice = float64(bytes) / least(func() error {
		mark, err := d.Up(at, host, 0)
		return errors.Join(err, d.Wait(mark))
	})
	c.ToHost = float64(bytes) / least(func() error {
		mark, err := d.Down(host, at, 0)
		return errors.Join(err, d.Wait(mark))
	})
	c.Launch = least(func() (err error) { // a copy of a few bytes takes a launch, as a kernel does
		for range launches {
			err = errors.Join(err, d.Copy(at, at+first/2, 4))
		}
		return errors.Join(err, d.Sync())
	}) / launches
	return c, err
}

// forWorker is the card of a worker of a run with these options, where so many workers divide its memory
// equally.
func (c *CardSpec) forWorker(o *setting.Options, workers int) *worker.Cards {
	card := train.CardOf(o, c.Name, "", int64(c.Memory), workers)
	if Published(c.Name) != nil {
		card.Device = setting.Device(c.Name)
	}
	return card
}

// onCard is a card for the kernels of a plan.
type onCard struct {
	*CardSpec
	flops float64 // the rate of its products
	onCPU []string
}

// The parts of a kernel's time on a card.
const (
	moving      = iota // bytes in its memory
	multiplying        // products
	launching
	onTheCPU // kernels that cards lack: they take as long as their operands take to move
)

// seconds is how long calls of a kernel take, and in which part.
func (c *onCard) seconds(k plan.Kernel, calls plan.Calls) (all [4]float64) {
	if slices.Contains(c.onCPU, k.Name) {
		all[onTheCPU] = calls.Bytes / min(c.ToDevice, c.ToHost)
		return all
	}
	move, multiply := calls.Bytes/c.Copy/c.Reached(), calls.Operations/c.flops/c.Reached()
	if move >= multiply {
		all[moving] = move
	} else {
		all[multiplying] = multiply
	}
	all[launching] = float64(calls.Number) * c.Launch
	return all
}

// LimitedBy names the largest of the times. On a card it names the largest part of its kernels in place of
// "compute".
func (m *Mesh) LimitedBy() string {
	by := m.Times.LimitedBy()
	if by != "compute" || m.Rates.card == nil {
		return by
	}
	var all [4]float64
	for i := range m.Plan.Workers {
		for k, calls := range m.Plan.Workers[i].Counts.Kernels {
			for part, seconds := range m.Rates.card.seconds(k, calls) {
				all[part] += seconds
			}
		}
	}
	return []string{"memory", "products", "launches", "CPU"}[slices.Index(all[:], slices.Max(all[:]))]
}

// ratesOn are the rates of a mesh's kernels on a card.
func (c *CardSpec) ratesOn(m *Mesh) *Rates {
	on := &onCard{CardSpec: c, flops: c.Flops}
	if m.Settings.Storage == tensor.BFloat16 {
		on.flops = c.BFloat16Flops
	} else if m.Settings.TF32 {
		on.flops = c.BFloat16Flops / 6 // TF32 has half that rate, and each product takes three of TF32
	}
	for _, k := range m.Plan.OnCPU {
		on.onCPU = append(on.onCPU, k.Kernel)
	}
	return &Rates{card: on}
}

// copies is how long a worker copies between the card and the host's memory in an epoch: both ways at once.
func (c *CardSpec) copies(moved tensor.Moved) float64 {
	return max(float64(moved.Written)/c.ToHost, float64(moved.Read)/c.ToDevice)
}
