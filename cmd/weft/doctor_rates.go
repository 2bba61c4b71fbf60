package main

import (
	"fmt"

	"weft/internal/bench"
)

// hindrance is why threads may do less than the cores could. If threads add little, the first that holds is
// the advice.
type hindrance struct {
	quota, load bool
	perCore     int // hyperthreads of a physical core
}

func (d *diagnosis) hindrance() hindrance {
	quota := d.Quota.Cores > 0 && d.Quota.Cores < float64(d.Cores.Threads)
	return hindrance{quota: quota, load: d.Load.State == "shared" || d.Load.State == "busy", perCore: d.Cores.PerCore}
}

// advice names this machine's hindrance, or "" if none is known.
func (h hindrance) advice() string {
	switch {
	case h.quota:
		return "the CPU quota holds the threads back"
	case h.load:
		return "others use the cores: measure again when they are idle"
	}
	return ""
}

// scaling is how a rate grows with threads.
type scaling int

const (
	single  scaling = iota // there is one thread
	full                   // each thread adds about as much as the first
	partial                // in between
	flat                   // the others add next to nothing
)

// scales judges a rate. Threads share something if each gets less than three quarters of a single thread's
// rate. One thread gets everything if the others add less than a fifth.
func scales(r bench.Rate, threads int) scaling {
	switch {
	case threads == 1:
		return single
	case r.PerThread(threads) >= 0.75:
		return full
	case r.All >= 1.2*r.One:
		return partial
	}
	return flat
}

type streamFinding struct {
	Threads int     `json:"threads"`
	All     float64 `json:"bytes_per_second,omitempty"`
	One     float64 `json:"one_thread_bytes_per_second,omitempty"`
	Missing string  `json:"not_measured,omitempty"` // why
	Advice  string  `json:"advice"`
}

// gatherFinding has the fields of streamFinding; its bytes are rows of 512 bytes from all over a matrix that
// no cache holds.
type gatherFinding streamFinding

func measureMemory(threads int, available int64, h hindrance) (streamFinding, gatherFinding) {
	stream, rows, err := bench.MemoryRates(threads, available)
	if err != nil {
		missing := streamFinding{Threads: threads, Missing: err.Error()}
		return missing, gatherFinding(missing)
	}
	return streamFinding{Threads: threads, All: stream.All, One: stream.One, Advice: streamAdvice(scales(stream, threads), h)},
		gatherFinding{Threads: threads, All: rows.All, One: rows.One, Advice: gatherAdvice(scales(rows, threads), h)}
}

func streamAdvice(s scaling, h hindrance) string {
	known := h.advice()
	switch {
	case s == single:
		return "what row-wise kernels can take at most"
	case s == full:
		return "row-wise kernels get faster with each thread"
	case known != "":
		return known
	case s == partial:
		return "threads share the memory: more of them add little"
	}
	return "one thread fills the memory: more do not read faster"
}

func gatherAdvice(s scaling, h hindrance) string {
	known := h.advice()
	switch {
	case s == single:
		return "what aggregation over a large graph can take at most"
	case s == full:
		return "aggregation gets faster with each thread"
	case known != "":
		return known
	case s == partial:
		return "memory holds aggregation back: more threads add little"
	}
	return "aggregation over a large graph gains nothing from threads"
}

func (f streamFinding) line() (what, found, advice string) {
	return "memory, streamed", f.found(), f.Advice
}

func (f gatherFinding) line() (what, found, advice string) {
	return "memory, gathered", streamFinding(f).found(), f.Advice
}

func (f streamFinding) found() string {
	if f.Missing != "" {
		return "not measured: " + f.Missing
	}
	return rates("GB/s", f.Threads, f.One, f.All)
}

type arithmeticFinding struct {
	Threads int     `json:"threads"`
	All     float64 `json:"flops_per_second,omitempty"`
	One     float64 `json:"one_thread_flops_per_second,omitempty"`
	Missing string  `json:"not_measured,omitempty"` // why
	Advice  string  `json:"advice"`
}

func measureArithmetic(threads int, available int64, h hindrance) arithmeticFinding {
	r, err := bench.ArithmeticRate(threads, available)
	if err != nil {
		return arithmeticFinding{Threads: threads, Missing: err.Error()}
	}
	return arithmeticFinding{Threads: threads, All: r.All, One: r.One, Advice: arithmeticAdvice(r, threads, h)}
}

func arithmeticAdvice(r bench.Rate, threads int, h hindrance) string {
	const halved = 0.6 // what each of two hyperthreads of a core gets, at most
	known, fewer := h.advice(), max(1, threads/max(2, h.perCore))
	switch s := scales(r, threads); {
	case s == single:
		return "more cores would make dense layers faster"
	case s == full:
		return "dense layers get faster with each thread"
	case known != "":
		return known
	case r.PerThread(threads) > halved:
		return "threads share cores or a slower clock: all still do most"
	case h.perCore > 1:
		return fmt.Sprintf("hyperthreads share cores: --threads %d does about as well", fewer)
	}
	return fmt.Sprintf("cores are shared (hyperthreads?): --threads %d does as well", fewer)
}

func (f arithmeticFinding) line() (what, found, advice string) {
	if f.Missing != "" {
		return "dense arithmetic", "not measured: " + f.Missing, f.Advice
	}
	return "dense arithmetic", rates("GFLOP/s", f.Threads, f.One, f.All), f.Advice
}

// rates writes the rates of one thread and of all threads, in units of 10⁹.
func rates(unit string, threads int, one, all float64) string {
	if threads == 1 {
		return fmt.Sprintf("%.3g %s with one thread", all/1e9, unit)
	}
	return fmt.Sprintf("%.3g %s with %d threads, %.3g with one", all/1e9, unit, threads, one/1e9)
}
