package tensor

import (
	"cmp"
	"container/heap"
)

// candidate is a matrix that may leave, with the values that its order among the others depends on.
type candidate struct {
	used, number uint64 // fields of rest
	m            *Matrix
}

// candidates are a heap, with the next one to leave at the top.
type candidates []candidate

func (c candidates) Len() int      { return len(c) }
func (c candidates) Swap(i, j int) { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(x any)   { *c = append(*c, x.(candidate)) }

func (c *candidates) Pop() any {
	last := len(*c) - 1
	x := (*c)[last]
	*c = (*c)[:last]
	return x
}

func (c candidates) Less(i, j int) bool {
	a, b := &c[i], &c[j]
	return cmp.Or(cmp.Compare(a.used>>32, b.used>>32), cmp.Compare(b.used, a.used),
		cmp.Compare(a.number, b.number)) < 0
}

// mayLeave returns the matrix as a candidate, if it may leave in this turn.
func (m *Matrix) mayLeave(turn uint64) (c candidate, may bool) {
	r := m.rest
	if r == nil || r.state != here && r.state != cleaning && (r.state != coming || !r.ahead) {
		return c, false
	}
	c = candidate{r.used.Load(), r.number, m}
	return c, c.used != turn
}

// next returns the matrix that leaves next; nil if none may. All candidates are listed once in a turn. A
// matrix that the turn uses later may not leave any more. A matrix that the turn has declared unused leaves
// last, so these are listed when no other candidate is left.
func (o *offload) next() *Matrix {
	turn := o.turn.Load()
	for {
		if len(o.list) == 0 || o.listed != turn {
			matrices := o.unused
			if o.listed != turn {
				matrices = o.rests
			} else if len(matrices) == 0 {
				return nil
			}
			o.list, o.listed = o.list[:0], turn
			for _, m := range matrices {
				if c, may := m.mayLeave(turn); may {
					o.list = append(o.list, c)
				}
			}
			o.unused = o.unused[:0]
			heap.Init(&o.list)
			continue
		}
		top := o.list[0]
		if c, may := top.m.mayLeave(turn); may && c == top {
			return top.m
		}
		heap.Pop(&o.list)
	}
}
