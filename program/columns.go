package program

import (
	"fmt"
	"slices"
	"sync"

	"weft/autograd"
	"weft/kernel"
)

// columnKey identifies a map of columns of a program.
type columnKey struct {
	what   string
	number int // value.number
}

// columnMaps are a program's maps of columns, which all blocks of all workers have in common.
type columnMaps struct {
	mu   sync.Mutex
	made map[columnKey]*kernel.ColumnMap
}

func newColumnMaps() *columnMaps { return &columnMaps{made: map[columnKey]*kernel.ColumnMap{}} }

// mapOf returns the map of columns for a key. It makes the map at the first call.
func (b *block) mapOf(key columnKey, make func() *kernel.ColumnMap) *kernel.ColumnMap {
	maps := b.program.maps
	maps.mu.Lock()
	defer maps.mu.Unlock()
	if maps.made[key] == nil {
		maps.made[key] = make()
	}
	return maps.made[key]
}

// broadcast lists, for each element of the shape to, the element of the shape from that is broadcast to it;
// nil: the same element.
func (b *block) broadcast(from, to []int) []int32 {
	if size(from) == size(to) {
		return nil
	}
	key := fmt.Sprint(from, to)
	if b.broadcasts[key] == nil {
		b.broadcasts[key] = expanded(from, to)
	}
	return b.broadcasts[key]
}

// index calls f for each element of a shape with its coordinates.
func index(shape []int, f func(at []int)) {
	at := make([]int, len(shape))
	for range size(shape) {
		f(at)
		for d := len(shape) - 1; d >= 0; d-- {
			if at[d]++; at[d] < shape[d] {
				break
			}
			at[d] = 0
		}
	}
}

// position returns the number of the element with these coordinates.
func position(shape, at []int) (n int) {
	for d, i := range at {
		n = n*shape[d] + i
	}
	return n
}

// expanded lists, for each element of the shape to, the element of the shape from that is broadcast to it.
func expanded(from, to []int) (columns []int32) {
	index(to, func(at []int) {
		own := slices.Clone(at[len(to)-len(from):])
		for d := range own {
			own[d] = min(own[d], from[d]-1)
		}
		columns = append(columns, int32(position(from, own)))
	})
	return columns
}

// permuted lists the elements of a shape in the order of its permuted dimensions.
func permuted(shape, dims []int) *kernel.ColumnMap {
	var to []int
	for _, d := range dims {
		to = append(to, shape[d])
	}
	var columns []int32
	from := make([]int, len(shape))
	index(to, func(at []int) {
		for k, d := range dims {
			from[d] = at[k]
		}
		columns = append(columns, int32(position(shape, from)))
	})
	return kernel.Selection(size(shape), columns)
}

// columns computes an operation that moves the elements of a row, or adds some of them.
func (p *pass) columns(v *value) *autograd.Var {
	x := v.in[0]
	if v.op == "cat" {
		return p.cat(v)
	}
	if from, is := contiguous(v); is {
		return autograd.Columns(p.value(x), from, v.size())
	}
	return autograd.MapColumns(p.value(x), p.mapOf(columnKey{v.op, v.number}, func() *kernel.ColumnMap {
		return columnsOf(v)
	}))
}

// contiguous returns the first element that a slice takes, if its elements are consecutive.
func contiguous(v *value) (from int, is bool) {
	x := v.in[0]
	if v.op != "slice" || v.o.Step > 1 || size(x.Shape[:v.o.Dim]) != 1 {
		return 0, false
	}
	return v.o.Start * size(x.Shape[v.o.Dim+1:]), true
}

// columnsOf lists, for each element of the result, the elements of a row that it is, or is the sum or mean
// of.
func columnsOf(v *value) *kernel.ColumnMap {
	x := v.in[0]
	var columns []int32
	switch v.op {
	case "permute":
		return permuted(x.Shape, v.o.Dims)
	case "expand":
		columns = expanded(x.Shape, v.Shape)
	case "flip", "slice":
		step := max(1, v.o.Step)
		index(v.Shape, func(at []int) {
			from := slices.Clone(at)
			if v.op == "slice" {
				from[v.o.Dim] = v.o.Start + step*at[v.o.Dim]
			}
			if v.op == "flip" {
				for _, d := range v.o.Dims {
					from[d] = x.Shape[d] - 1 - at[d]
				}
			}
			columns = append(columns, int32(position(x.Shape, from)))
		})
	case "sum", "mean":
		return reduced(v)
	default:
		panic("program: nothing computes " + v.op)
	}
	return kernel.Selection(x.size(), columns)
}

// reduced lists, for each element of a sum or mean, the elements of a row that are added.
func reduced(v *value) *kernel.ColumnMap {
	x := v.in[0]
	into := make([][]int32, v.size())
	index(x.Shape, func(at []int) {
		var own, shape []int
		for d, i := range at {
			if len(v.o.Dims) > 0 && !slices.Contains(v.o.Dims, d) {
				own, shape = append(own, i), append(shape, x.Shape[d])
			}
		}
		to := position(shape, own)
		into[to] = append(into[to], int32(position(x.Shape, at)))
	})
	weight := float32(1)
	if v.op == "mean" {
		weight = 1 / float32(x.size()/v.size())
	}
	return kernel.NewColumnMap(x.size(), weight, into...)
}

// cat puts rows side by side.
func (p *pass) cat(v *value) *autograd.Var {
	var xs []*autograd.Var
	joined := 0
	for _, x := range v.in {
		y := p.value(x)
		if x.Rows == None && v.Rows != None {
			y = p.spread(y, v.TypeName)
		}
		xs = append(xs, y)
		joined += x.size()
	}
	z := autograd.Join(xs...)
	before := size(v.Shape[:v.o.Dim])
	if before == 1 {
		return z
	}
	return autograd.MapColumns(z, p.mapOf(columnKey{"cat", v.number}, func() *kernel.ColumnMap {
		starts := []int{0}
		for _, x := range v.in {
			starts = append(starts, starts[len(starts)-1]+x.size())
		}
		columns := make([]int32, 0, joined)
		for row := range before {
			for k, x := range v.in {
				width := x.size() / before
				for i := range width {
					columns = append(columns, int32(starts[k]+row*width+i))
				}
			}
		}
		return kernel.Selection(joined, columns)
	}))
}
