package tensor

import (
	"cmp"
	"iter"
	"slices"
)

// run is consecutive pages of a matrix at rest, as bytes from lo to hi−1, and the first of the listed rows
// that they are read for.
type run struct{ lo, hi, first int }

const (
	// joined: runs with at most so many bytes between them are read as one, which costs less than a further
	// read.
	joined = 4 * PageSize
	// longestRun is the most that is read at a time, so that a processor's cache has it until it is copied.
	longestRun = 64 * PageSize
)

// runs are those of the pages that hold some rows, ascending, of so many bytes each.
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

// GatherAtRest copies the listed rows, which ascend, of a matrix at rest into those of another one, and
// leaves it at rest. It reports false, and does nothing, if the matrix does not rest, or if memory has
// room for it.
func (m *Matrix) GatherAtRest(into *Matrix, rows []int32) bool {
	if !m.AtRest() {
		return false
	}
	row, n := m.Cols*m.Element.Size(), 0
	all := slices.Collect(runs(rows, row))
	for _, r := range all {
		n += r.hi - r.lo
	}
	m.readAtRest(n, func() error {
		return inParts(len(all), func(from, to int) error { return m.gather(into, rows, all[from:to]) })
	})
	return true
}

// gather copies the rows that begin in some runs of pages.
func (m *Matrix) gather(into *Matrix, rows []int32, some []run) error {
	o := m.meter.offload
	to := into.Bytes()
	row := m.Cols * m.Element.Size()
	buffer, done := o.staging(max(longestRun, row+2*PageSize))
	defer done()
	for _, r := range some {
		pages := buffer[:r.hi-r.lo]
		err := o.disk.Read(pages, m.rest.offset+int64(r.lo), m.rest.sums[r.lo/PageSize:r.hi/PageSize])
		if err != nil {
			return err
		}
		for k := r.first; k < len(rows) && (int(rows[k])+1)*row <= r.hi; k++ {
			copy(to[k*row:(k+1)*row], pages[int(rows[k])*row-r.lo:])
		}
	}
	return nil
}

// CopyAtRest copies a matrix for which AtRest holds into the memory of another one, of at least m.Memory()
// bytes. It returns the copy.
func (m *Matrix) CopyAtRest(into *Matrix) *Matrix {
	m.readAtRest(m.bytes, func() error {
		return m.meter.offload.readPages(into.Prefix(1, m.bytes).Bytes(), m.rest)
	})
	return into.Prefix(1, m.Len()*m.Element.Size()).As(m.Element, m.Rows, m.Cols)
}

// Memory is the number of bytes that the matrix takes, whole pages.
func (m *Matrix) Memory() int { return m.bytes }

// AtRest reports whether the matrix rests and memory has no room for it. What is on its way is waited for, so
// that the answer is that of a plan.
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
	return m.rest.state == away && t.metered()-t.idle.bytes+int64(m.bytes) > o.limit && o.err == nil
}

// readAtRest counts so many bytes that read reads of a matrix that is away, and calls it; in a plan it only
// counts.
func (m *Matrix) readAtRest(bytes int, read func() error) {
	t, o := m.meter.account, m.meter.offload
	t.mu.Lock()
	o.moved.Read += int64(bytes)
	t.mu.Unlock()
	if o.disk == nil {
		return
	}
	if err := o.watched("read", bytes, read); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		o.err = cmp.Or(o.err, err)
		o.check()
	}
}
