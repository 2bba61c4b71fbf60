package planning

import (
	"cmp"
	"fmt"

	"weft/cmd/weft/internal/ui"
	"weft/kernel/machine"
)

// hindrance says why threads may do less than the cores could.
type hindrance struct {
	known   string // advice that names the reason; "": none is known
	perCore int    // hyperthreads of a physical core
}

func hindranceOf(cores coresFinding, quota quotaFinding, load loadFinding) hindrance {
	busy := load.State == "shared" || load.State == "busy"
	return hindrance{perCore: cores.PerCore, known: cmp.Or(
		ui.When(quota.holds(), "the CPU quota holds the threads back"),
		ui.When(busy, "others use the cores: measure again when they are idle"))}
}

// scaling has the advice for each way in which a rate may grow with threads: there is one thread, each adds
// about as much as the first, something in between, and the others add next to nothing.
type scaling struct{ single, full, partial, flat string }

// rate is a rate of one thread, and of all threads together.
type rate struct{ single, all float64 }

// perThread is the rate of each of threads threads, divided by the rate of a single thread: 1 if they do not
// hinder each other.
func (r rate) perThread(threads int) float64 { return r.all / r.single / float64(threads) }

// judge returns advice about a rate. Threads share something if each gets less than three quarters of a
// single thread's rate. One thread already gets all if the others add less than a fifth.
func (s scaling) judge(r rate, threads int, h hindrance) (advice string) {
	return cmp.Or(ui.When(threads == 1, s.single), ui.When(r.perThread(threads) >= 0.75, s.full), h.known,
		ui.When(r.all >= 1.2*r.single, s.partial), s.flat)
}

var (
	streaming = scaling{
		"what row-wise kernels can take at most", "row-wise kernels get faster with each thread",
		"threads share the memory: more of them add little",
		"one thread fills the memory: more do not read faster",
	}
	// gathering is the scaling of reads of rows of 512 bytes from all over a matrix that no cache holds.
	gathering = scaling{
		"what aggregation over a large graph can take at most", "aggregation gets faster with each thread",
		"memory holds aggregation back: more threads add little",
		"aggregation over a large graph gains nothing from threads",
	}
)

// multiplying is the scaling of dense products.
func multiplying(r rate, threads int, h hindrance) scaling {
	const halved = 0.6 // the most that each of two hyperthreads of a core gets
	fewer := max(1, threads/max(2, h.perCore))
	shared := fmt.Sprintf("cores are shared (hyperthreads?): --threads %d does as well", fewer)
	switch {
	case r.perThread(threads) > halved:
		shared = "threads share cores or a slower clock: all still do most"
	case h.perCore > 1:
		shared = fmt.Sprintf("hyperthreads share cores: --threads %d does about as well", fewer)
	}
	return scaling{
		"more cores would make dense layers faster", "dense layers get faster with each thread", shared, shared,
	}
}

// ratesFinding has rates of bytes that are read, or of floating-point operations.
type ratesFinding struct {
	Threads  int     `json:"threads"`
	Bytes    float64 `json:"bytes_per_second,omitempty"`
	OneBytes float64 `json:"one_thread_bytes_per_second,omitempty"`
	Flops    float64 `json:"flops_per_second,omitempty"`
	OneFlops float64 `json:"one_thread_flops_per_second,omitempty"`
	Missing  string  `json:"not_measured,omitempty"` // why
	advice   string
}

// findRates measures reads in order, reads of rows from all over the memory, and dense products.
func (s *system) findRates() (f [3]ratesFinding) {
	threads := s.cores.Threads
	all, err := machine.Measure(threads, s.bytes, s.memory.usable())
	single := all
	if err == nil && threads > 1 {
		single, err = machine.Measure(1, s.bytes, s.memory.usable())
	}
	if err != nil {
		missing := ratesFinding{Threads: threads, Missing: err.Error()}
		return [3]ratesFinding{missing, missing, missing}
	}
	h := hindranceOf(s.cores, s.quota, s.load)
	bytes := func(r rate, s scaling) ratesFinding {
		advice := s.judge(r, threads, h)
		return ratesFinding{Threads: threads, Bytes: r.all, OneBytes: r.single, advice: advice}
	}
	flops := rate{single.Flops, all.Flops}
	return [3]ratesFinding{
		bytes(rate{single.Read, all.Read}, streaming), bytes(rate{single.Gather, all.Gather}, gathering),
		{
			Threads: threads, Flops: flops.all, OneFlops: flops.single,
			advice: multiplying(flops, threads, h).judge(flops, threads, h),
		},
	}
}

// describe writes the rates of one thread and of all threads, in units of 10⁹, or why they are missing.
func (f ratesFinding) describe() (found, advice string) {
	all, single, unit := f.Bytes/1e9, f.OneBytes/1e9, "GB/s"
	if f.Flops > 0 {
		all, single, unit = f.Flops/1e9, f.OneFlops/1e9, "GFLOP/s"
	}
	return cmp.Or(
		ui.When(f.Missing != "", "not measured: "+f.Missing),
		ui.When(f.Threads == 1, fmt.Sprintf("%.3g %s with one thread", all, unit)),
		fmt.Sprintf("%.3g %s with %d threads, %.3g with one", all, unit, f.Threads, single),
	), f.advice
}
