package machine

import "weft/kernel"

// Bound is the least time of calls of kernels, in seconds at the machine's rates.
type Bound struct {
	Products float64 `json:"products_seconds"`
	Gathered float64 `json:"gathered_seconds"` // rows from all over a matrix
	Streamed float64 `json:"streamed_seconds"` // what is read and written in order
}

// Bound returns the bound of work that passes over inOrder bytes in order. short says that its products are
// of BFloat16, and not of Float32.
func (r *Rates) Bound(w kernel.Work, inOrder int, short bool) Bound {
	flops := r.Flops
	if short {
		flops = r.BFloat16Flops
	}
	b := Bound{
		Products: w.Operations / flops,
		Streamed: float64(inOrder-w.Written)/r.Read + float64(w.Written)/r.Write,
	}
	if w.Entries > 0 {
		b.Gathered = float64(w.Entries) * r.Row(float64(w.Gathered)/float64(w.Entries))
	}
	return b
}

// Plus returns the sums.
func (b Bound) Plus(more Bound) Bound {
	return Bound{b.Products + more.Products, b.Gathered + more.Gathered, b.Streamed + more.Streamed}
}

// Seconds returns the sum of the parts.
func (b Bound) Seconds() float64 { return b.Products + b.Gathered + b.Streamed }

// By returns the part that takes longest: compute, or memory.
func (b Bound) By() string {
	if b.Products > b.Gathered+b.Streamed {
		return "compute"
	}
	return "memory"
}
