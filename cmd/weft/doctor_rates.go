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

type bytesFinding struct {
	Threads int     `json:"threads"`
	All     float64 `json:"bytes_per_second,omitempty"`
	One     float64 `json:"one_thread_bytes_per_second,omitempty"`
	Missing string  `json:"not_measured,omitempty"` // why
	advice  string
}

func measureMemory(threads int, available int64, h hindrance) (streamed, gathered bytesFinding) {
	stream, rows, err := bench.MemoryRates(threads, available)
	if err != nil {
		missing := bytesFinding{Threads: threads, Missing: err.Error()}
		return missing, missing
	}
	return bytesFinding{threads, stream.All, stream.One, "", streaming.of(stream, threads, h)},
		bytesFinding{threads, rows.All, rows.One, "", gathering.of(rows, threads, h)}
}

func (f bytesFinding) describe() (found, advice string) {
	return rates("GB/s", f.Threads, f.One, f.All, f.Missing), f.advice
}

type arithmeticFinding struct {
	Threads int     `json:"threads"`
	All     float64 `json:"flops_per_second,omitempty"`
	One     float64 `json:"one_thread_flops_per_second,omitempty"`
	Missing string  `json:"not_measured,omitempty"` // why
	advice  string
}

func measureArithmetic(threads int, available int64, h hindrance) arithmeticFinding {
	r, err := bench.ArithmeticRate(threads, available)
	if err != nil {
		return arithmeticFinding{Threads: threads, Missing: err.Error()}
	}
	return arithmeticFinding{threads, r.All, r.One, "", multiplying(r, threads, h).of(r, threads, h)}
}

func (f arithmeticFinding) describe() (found, advice string) {
	return rates("GFLOP/s", f.Threads, f.One, f.All, f.Missing), f.advice
}

// rates writes the rates of one thread and of all threads, in units of 10⁹, or why they are missing.
func rates(unit string, threads int, one, all float64, missing string) string {
	switch {
	case missing != "":
		return "not measured: " + missing
	case threads == 1:
		return fmt.Sprintf("%.3g %s with one thread", all/1e9, unit)
	}
	return fmt.Sprintf("%.3g %s with %d threads, %.3g with one", all/1e9, unit, threads, one/1e9)
}
