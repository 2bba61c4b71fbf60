// Package bench measures how close the kernels come to what the machine allows, and how close an epoch comes
// to its kernels.
//
// Each kernel is held against a bound that independent probes measure in the same run, with the same threads,
// on the same rows. Repetitions of the kernel and of its probes alternate in rounds, so that a machine that
// is slower for a while is slower for both. The fraction is the median over the rounds of bound ÷ time; it is
// 1 where the kernel takes as long as its probes, run one after the other: so that a probe finds in a cache
// what the others left of its matrix, as the kernel does, which needs all of them.
//
// A kernel that is bound by memory:
//
//	bound = gathered bytes ÷ gather rate + Σ streamed bytes ÷ stream rate
//	        (+ exponentials ÷ their rate + terms of GATv2's scores ÷ theirs)
//
// The gather probe reads the same rows through the kernel's own indices, destination by destination, and adds
// up their words: the ends of destinations are part of the index stream, and what their branches cost is in
// the rate. It prefetches at the distance that proves best. Its rate counts all that it reads, the structure
// too, for that is streamed bytes in the bound. The stream probes read what the kernel reads from front to
// back and write or update as many bytes as it does, each with the access pattern of the kernel: the bytes
// that the machine fetches before a write lower the rate and are not counted. What a gather is in each kernel
// stands where the kernel's case is made.
//
// Rows of at most 16 columns ("thin") have a bound that counts cache lines: their probe reads the indices,
// and a word of each line that a row touches, and nothing else. It knows no destinations.
//
// The exponentials and the terms a·LeakyReLU(x + y) have probes that compute nothing else, from operands in
// the first-level cache. All parts are added, although a processor may do some of them at once: a fraction
// above 1 is possible. What else attention computes, such as weighted sums and the backward pass's dot
// products, is not in the bound.
//
// A dense product is bound by compute: floating-point operations ÷ the rate of the best large square product.
// Where a dimension is under 256 its operands weigh as much: operand bytes ÷ stream rate is added, and the
// bound is marked memory.
package bench

import (
	"fmt"
	"regexp"
	"runtime"

	"weft/internal/cores"
	"weft/internal/refusal"
	"weft/kernel"
	"weft/tensor"
)

// Options choose what is measured.
type Options struct {
	Threads int // 0: all cores
	// Only: what to measure: Kernels matches it with "name shape", Epoch with "model graph"; nil: everything
	Only  *regexp.Regexp
	Quick bool   // small shapes and few repetitions: figures of little worth, in seconds
	CPU   string // the processor's name, for the report
}

// Machine is what the figures were measured on, and what its probes reached.
type Machine struct {
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Threads int    `json:"threads"`
	SIMD    string `json:"simd"` // of the kernels

	// Gather, in bytes per second, is of rows of 512 bytes drawn from all over a matrix that no cache holds.
	// Only rows count.
	Gather float64 `json:"gather_bytes_per_second"`
	// Read, Write and Update are of matrices that no cache holds. A byte that is updated counts once.
	Read   float64 `json:"read_bytes_per_second"`
	Write  float64 `json:"write_bytes_per_second"`
	Update float64 `json:"update_bytes_per_second"`
	// Flops, in floating-point operations per second, is of the best large square product.
	Flops float64 `json:"flops"`
	// BFloat16Flops is that of the fastest product of BFloat16 matrices, and BFloat16Products how these are
	// multiplied.
	BFloat16Flops    float64 `json:"bfloat16_flops"`
	BFloat16Products string  `json:"bfloat16_products"`
	// Exp is exponentials per second.
	Exp float64 `json:"exponentials_per_second"`
	// Score is terms a·LeakyReLU(x + y) of GATv2's scores per second.
	Score float64 `json:"score_terms_per_second"`
}

// bench is what the measurements of one run share.
type bench struct {
	Options
	team   *kernel.Team
	probes probes
	graphs map[graphKey]*sparse
	square *rated
	large  int // bytes that no cache holds
}

func newBench(o Options) *bench {
	if o.Threads == 0 {
		o.Threads = cores.Count()
	}
	team := kernel.NewTeam(o.Threads, tensor.NewMeter())
	b := &bench{
		Options: o, team: team, probes: probes{team}, graphs: map[graphKey]*sparse{},
		large: beyondCaches,
	}
	if o.Quick {
		b.large = 2 << 20
	}
	return b
}

func (b *bench) close() { b.team.Memory.Close() }

func (b *bench) wants(name, shape string) bool {
	return b.Only == nil || b.Only.MatchString(name+" "+shape)
}

// nothing refuses a filter that leaves nothing to measure.
func (b *bench) nothing(names string) error {
	return refusal.Errorf("{only} %s: nothing matches; it is matched with a name and a shape as in %q",
		b.Only, names)
}

// Describe is the machine in lines for a person.
func (m Machine) Describe() []string {
	name := m.CPU
	if name == "" {
		name = runtime.GOARCH
	}
	return []string{
		fmt.Sprintf("%s, %d cores, %d threads, kernels for %s", name, m.Cores, m.Threads, m.SIMD),
		fmt.Sprintf("gather %.1f GB/s, read %.1f GB/s, write %.1f GB/s, update %.1f GB/s", m.Gather/1e9,
			m.Read/1e9, m.Write/1e9, m.Update/1e9),
		fmt.Sprintf("dense products %.0f GFLOP/s, of bfloat16 by %s %.0f GFLOP/s", m.Flops/1e9,
			m.BFloat16Products, m.BFloat16Flops/1e9),
		fmt.Sprintf("%.2f G exponentials/s, %.1f G terms of GATv2's scores/s", m.Exp/1e9, m.Score/1e9),
	}
}
