package machine

import "weft/kernel"

// Bound is what calls of kernels take at least, in seconds at the machine's rates.
type Bound struct {
	Products float64 `json:"products_seconds"`
	Gathered float64 `json:"gathered_seconds"` // rows from all over a matrix
	Streamed float64 `json:"streamed_seconds"` // what is read and written in order
}

// Bound is that of work that passes over so many bytes in order. Its products are of BFloat16 or of Float32.
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

// Seconds are the parts, added up.
func (b Bound) Seconds() float64 { return b.Products + b.Gathered + b.Streamed }

// By is the part that takes longest: compute, or memory.
func (b Bound) By() string {
	if b.Products > b.Gathered+b.Streamed {
		return "compute"
	}
	return "memory"
}
