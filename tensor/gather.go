package tensor

import "iter"

// run is consecutive pages of a matrix at rest: bytes lo to hi−1. They are read for listed rows, from number
// first on.
type run struct{ lo, hi, first int }

const (
	// joined is the largest gap, in bytes, between runs that are read as one: reading the gap costs less than
	// a further read.
	joined = 4 * PageSize
	// longestRun is the most bytes that are read at a time, so that a processor's cache holds them until they
	// are copied.
	longestRun = 64 * PageSize
)

// runs returns the runs of pages that hold the rows, which ascend and have row bytes each.
func runs(rows []int32, row int) iter.Seq[run] {
	return func(yield func(run) bool) {
		var r run
		for i, v := range rows {
			lo, hi := int(v)*row/PageSize*PageSize, (int(v)*row+row+PageSize-1)/PageSize*PageSize
			if r.hi > 0 && lo <= r.hi+joined && hi-r.lo <= longestRun {
				r.hi = max(r.hi, hi)
				continue
			}
			if r.hi > 0 && !yield(r) {
				return
			}
			r = run{lo, hi, i}
		}
		if r.hi > 0 {
			yield(r)
		}
	}
}

// GatherAtRest copies the listed rows, which ascend, of a matrix at rest into the first rows of into. The
// matrix stays at rest. It does nothing and returns false if the matrix does not rest, or if memory has room
// for it.
func (m *Matrix) GatherAtRest(into *Matrix, rows []int32) bool {
	if !m.AtRest() {
		return false
	}
	t := m.meter.account
	t.readAtRest(t.gathers(m, rows), func(below tier) error { return below.gather(m, into, rows) })
	return true
}

// PlansGathers reports whether a plan must know the rows of GatherAtRest, because the bytes that a disk reads
// depend on them.
func (t *Meter) PlansGathers() bool { return t.plan && t.offload != nil && t.device == nil }

// gathers returns how many bytes the tier below reads to gather rows.
func (t *account) gathers(m *Matrix, rows []int32) (n int) {
	row := m.Cols * m.Element.Size()
	if t.device != nil {
		return len(rows) * row
	}
	for r := range runs(rows, row) {
		n += r.hi - r.lo
	}
	return n
}

// CopyAtRest copies a matrix for which AtRest is true into the memory of into, which has at least m.Memory()
// bytes. It returns the copy, a view of into.
func (m *Matrix) CopyAtRest(into *Matrix) *Matrix {
	m.meter.readAtRest(m.bytes, func(below tier) error { return below.copy(m, into) })
	return into.Prefix(1, m.Len()*m.Element.Size()).As(m.Element, m.Rows, m.Cols)
}

// Memory returns the number of bytes that the matrix takes, in whole pages.
func (m *Matrix) Memory() int { return m.bytes }

// AtRest reports whether the matrix rests and memory has no room for it. It waits for a move that is under
// way, so that the answer is the same in a plan.
func (m *Matrix) AtRest() bool {
	if m.rest == nil {
		return false
	}
	t, o := m.meter.account, m.meter.offload
	t.mu.Lock()
	defer t.mu.Unlock()
	for m.rest.state == leaving || m.rest.state == coming {
		o.changed.Wait()
	}
	return m.rest.state == away && t.metered()-t.idleBytes()+int64(m.bytes) > o.limit && o.err == nil
}

// readAtRest calls read, and counts the bytes that read reads of a matrix that is away. In a plan it only
// counts.
func (t *account) readAtRest(bytes int, read func(tier) error) {
	o := t.offload
	t.mu.Lock()
	o.moved.Read += int64(bytes)
	t.mu.Unlock()
	if o.below == nil {
		return
	}
	if err := o.watched("read", bytes, func() error { return read(o.below) }); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		o.failed(err)
		o.check()
	}
}
