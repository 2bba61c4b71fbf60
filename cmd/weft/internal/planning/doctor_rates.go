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

// scaling has the advice for each way in which a rate may grow with threads.
type scaling struct {
	single  string // there is one thread
	full    string // each thread adds about as much as the first
	partial string // in between
	flat    string // the other threads add next to nothing
}

// rate is a rate of one thread, and of all threads together.
type rate struct{ single, all float64 }

// perThread is the rate of each of threads threads, divided by the rate of a single thread: 1 if they do not
// hinder each other.
func (r rate) perThread(threads int) float64 { return r.all / r.single / float64(threads) }

// judge returns advice about a rate. Threads share something if each gets less than three quarters of a
// single thread's rate. One thread already gets all if the others add less than a fifth.
func (s scaling) judge(r rate, threads int, h hindrance) (advice string) {
	switch {
	case threads == 1:
		return s.single
	case r.perThread(threads) >= 0.75:
		return s.full
	case h.known != "":
		return h.known
	case r.all >= 1.2*r.single:
		return s.partial
	}
	return s.flat
}

var (
	streaming = scaling{
		single:  "what row-wise kernels can take at most",
		full:    "row-wise kernels get faster with each thread",
		partial: "threads share the memory: more of them add little",
		flat:    "one thread fills the memory: more do not read faster",
	}
	// gathering is the scaling of reads of rows of 512 bytes from all over a matrix that no cache holds.
	gathering = scaling{
		single:  "what aggregation over a large graph can take at most",
		full:    "aggregation gets faster with each thread",
		partial: "memory holds aggregation back: more threads add little",
		flat:    "aggregation over a large graph gains nothing from threads",
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
		single: "more cores would make dense layers faster", full: "dense layers get faster with each thread",
		partial: shared, flat: shared,
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

// findRates measures reads in order, reads of rows from all over so many bytes, and dense products.
func findRates(
	threads, size int, available int64, h hindrance,
) (streamed, gathered, multiplied ratesFinding) {
	all, err := machine.Measure(threads, size, available)
	single := all
	if err == nil && threads > 1 {
		single, err = machine.Measure(1, size, available)
	}
	if err != nil {
		missing := ratesFinding{Threads: threads, Missing: err.Error()}
		return missing, missing, missing
	}
	bytes := func(r rate, s scaling) ratesFinding {
		return ratesFinding{
			Threads: threads, Bytes: r.all, OneBytes: r.single, advice: s.judge(r, threads, h),
		}
	}
	flops := rate{single.Flops, all.Flops}
	return bytes(rate{single.Read, all.Read}, streaming), bytes(rate{single.Gather, all.Gather}, gathering),
		ratesFinding{
			Threads: threads, Flops: flops.all, OneFlops: flops.single,
			advice: multiplying(flops, threads, h).judge(flops, threads, h),
		}
}

// describe writes the rates of one thread and of all threads, in units of 10⁹, or why they are missing.
func (f ratesFinding) describe() (found, advice string) {
	all, single, unit := f.Bytes/1e9, f.OneBytes/1e9, "GB/s"
	if f.Flops > 0 {
		all, single, unit = f.Flops/1e9, f.OneFlops/1e9, "GFLOP/s"
	}
	switch {
	case f.Missing != "":
		found = "not measured: " + f.Missing
	case f.Threads == 1:
		found = fmt.Sprintf("%.3g %s with one thread", all, unit)
	default:
		found = fmt.Sprintf("%.3g %s with %d threads, %.3g with one", all, unit, f.Threads, single)
	}
	return found, f.advice
}
