package main

import (
	"cmp"
	"fmt"

	"weft/internal/bench"
)

// hindrance is why threads may do less than the cores could.
type hindrance struct {
	known   string // advice that names it, "" if none is known
	perCore int    // hyperthreads of a physical core
}

func hindranceOf(cores coresFinding, quota quotaFinding, load loadFinding) hindrance {
	busy := load.State == "shared" || load.State == "busy"
	return hindrance{perCore: cores.PerCore, known: cmp.Or(
		when(quota.holds(), "the CPU quota holds the threads back"),
		when(busy, "others use the cores: measure again when they are idle"))}
}

// scaling is the advice for each way in which a rate may grow with threads.
type scaling struct {
	single  string // there is one thread
	full    string // each thread adds about as much as the first
	partial string // in between
	flat    string // the others add next to nothing
}

// of judges a rate. Threads share something if each gets less than three quarters of a single thread's rate.
// One thread gets everything if the others add less than a fifth.
func (s scaling) of(r bench.Rate, threads int, h hindrance) (advice string) {
	switch {
	case threads == 1:
		return s.single
	case r.PerThread(threads) >= 0.75:
		return s.full
	case h.known != "":
		return h.known
	case r.All >= 1.2*r.One:
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
	// gathering reads rows of 512 bytes from all over a matrix that no cache holds.
	gathering = scaling{
		single:  "what aggregation over a large graph can take at most",
		full:    "aggregation gets faster with each thread",
		partial: "memory holds aggregation back: more threads add little",
		flat:    "aggregation over a large graph gains nothing from threads",
	}
)

// multiplying is the scaling of dense products.
func multiplying(r bench.Rate, threads int, h hindrance) scaling {
	const halved = 0.6 // what each of two hyperthreads of a core gets, at most
	fewer := max(1, threads/max(2, h.perCore))
	shared := fmt.Sprintf("cores are shared (hyperthreads?): --threads %d does as well", fewer)
	switch {
	case r.PerThread(threads) > halved:
		shared = "threads share cores or a slower clock: all still do most"
	case h.perCore > 1:
		shared = fmt.Sprintf("hyperthreads share cores: --threads %d does about as well", fewer)
	}
	return scaling{
		single: "more cores would make dense layers faster", full: "dense layers get faster with each thread",
		partial: shared, flat: shared,
	}
}

// ratesFinding is of bytes that are read or of floating-point operations.
type ratesFinding struct {
	Threads  int     `json:"threads"`
	Bytes    float64 `json:"bytes_per_second,omitempty"`
	OneBytes float64 `json:"one_thread_bytes_per_second,omitempty"`
	Flops    float64 `json:"flops_per_second,omitempty"`
	OneFlops float64 `json:"one_thread_flops_per_second,omitempty"`
	Missing  string  `json:"not_measured,omitempty"` // why
	advice   string
}

func measureMemory(threads int, available int64, h hindrance) (streamed, gathered ratesFinding) {
	stream, rows, err := bench.MemoryRates(threads, available)
	if err != nil {
		missing := ratesFinding{Threads: threads, Missing: err.Error()}
		return missing, missing
	}
	found := func(r bench.Rate, s scaling) ratesFinding {
		return ratesFinding{Threads: threads, Bytes: r.All, OneBytes: r.One, advice: s.of(r, threads, h)}
	}
	return found(stream, streaming), found(rows, gathering)
}

func measureArithmetic(threads int, available int64, h hindrance) ratesFinding {
	r, err := bench.ArithmeticRate(threads, available)
	if err != nil {
		return ratesFinding{Threads: threads, Missing: err.Error()}
	}
	return ratesFinding{
		Threads: threads, Flops: r.All, OneFlops: r.One, advice: multiplying(r, threads, h).of(r, threads, h),
	}
}

// describe writes the rates of one thread and of all threads, in units of 10⁹, or why they are missing.
func (f ratesFinding) describe() (found, advice string) {
	all, one, unit := f.Bytes/1e9, f.OneBytes/1e9, "GB/s"
	if f.Flops > 0 {
		all, one, unit = f.Flops/1e9, f.OneFlops/1e9, "GFLOP/s"
	}
	switch {
	case f.Missing != "":
		found = "not measured: " + f.Missing
	case f.Threads == 1:
		found = fmt.Sprintf("%.3g %s with one thread", all, unit)
	default:
		found = fmt.Sprintf("%.3g %s with %d threads, %.3g with one", all, unit, f.Threads, one)
	}
	return found, f.advice
}
